package lists_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/database/databasetest"
	"authguard/internal/lists"
)

// A named list "tor" with its file, which time passes for.
type tor struct {
	*lists.Files
	into guard.Lists
	path string
	log  bytes.Buffer
	at   time.Time
}

func newTor(t *testing.T, text string) *tor {
	l := &tor{path: filepath.Join(t.TempDir(), "tor.txt"), at: noon}
	l.Files = lists.NewFiles(&l.into, slog.New(slog.NewTextHandler(&l.log, nil)), func() time.Time { return noon })
	l.write(t, text)
	l.ask()
	return l
}

func (l *tor) ask() {
	l.Configure([]lists.Source{{Name: "tor", File: l.path, Layout: lists.Layout{Format: lists.Plain}}})
}

// write changes the file.
func (l *tor) write(t *testing.T, text string) {
	t.Helper()
	l.at = l.at.Add(time.Second)
	err := os.WriteFile(l.path, []byte(text), 0o600)
	if err == nil {
		err = os.Chtimes(l.path, l.at, l.at)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (l *tor) has(a string) bool { return l.into.Named("tor").Has(netip.MustParseAddr(a)) }

// kept is why the file is not in force, after it was looked at twice.
func (l *tor) kept(t *testing.T) string {
	l.Check(t.Context())
	l.Check(t.Context())
	return l.States()[0].Kept
}

func TestANamedListFollowsItsFile(t *testing.T) {
	t.Parallel()
	l := newTor(t, "192.0.2.0/24\n")
	if !l.has("192.0.2.7") || l.has("198.51.100.7") {
		t.Fatal("the file is not in force")
	}
	l.write(t, "198.51.100.0/24\nbad\n10.1.0.0/16\n")
	l.Check(t.Context())
	if l.has("198.51.100.7") {
		t.Error("a file was read that may still be being written")
	}
	if why := l.kept(t); why != "" || !l.has("198.51.100.7") || l.has("192.0.2.7") {
		t.Errorf("the new file is not in force: %s", why)
	}
	s := l.States()[0]
	if s.Ranges != 2 || s.BadLines != 1 || s.Problems[0].Line != 2 || !s.Changed.Equal(l.at) || !s.Read.Equal(noon) || fmt.Sprint(s.Private) != "[10.1.0.0/16]" {
		t.Errorf("state %+v", s)
	}
	l.Configure(nil)
	if l.has("198.51.100.7") || len(l.States()) != 0 {
		t.Error("a list that is no more is in force")
	}
}

// A reload names another file, which cannot be used. With another action, the old ranges would be allowed, say.
func TestAWrongPathLeavesTheListInForce(t *testing.T) {
	t.Parallel()
	for actions, want := range map[string]bool{"": true, "allow ": false} {
		l := newTor(t, "192.0.2.0/24\n")
		l.Configure([]lists.Source{{Name: "tor", File: l.path + ".missing", Layout: lists.Layout{Format: lists.Plain}, Actions: actions}})
		if s := l.States()[0]; l.has("192.0.2.7") != want || s.Kept == "" || (s.Ranges == 1) != want {
			t.Errorf("%q: in force %v, %+v", actions, !want, s)
		}
		if l.ask(); !l.has("192.0.2.7") {
			t.Error("the first file is not in force")
		}
	}
}

func TestAFileThatCannotBeUsedChangesNothing(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for n := range 200 {
		fmt.Fprintf(&many, "192.0.2.%d\n", n)
	}
	for want, text := range map[string]string{
		"its last line has no newline":    "192.0.2.0/24\n198.51.100.0/2",
		"of its lines are bad":            "<!doctype html>\n<title>502 Bad Gateway</title>\n192.0.2.1\n",
		"it is empty, and was not before": "# nothing today\n",
		"it has lost most of its ranges":  strings.Join(strings.SplitAfter(many.String(), "\n")[:99], ""),
		"it cannot be opened":             "",
	} {
		l := newTor(t, many.String())
		l.write(t, text)
		if text == "" {
			os.Remove(l.path)
		}
		why := l.kept(t)
		s := l.States()[0]
		if !strings.Contains(why, want) || !l.has("192.0.2.150") || s.Ranges != 200 || s.BadLines != 0 {
			t.Errorf("%q: %q, %+v", want, why, s)
		}
		l.kept(t)
		if n := strings.Count(l.log.String(), "level=WARN"); n != 1 {
			t.Errorf("%q was logged %d times:\n%s", want, n, &l.log)
		}
		l.write(t, many.String())
		if why := l.kept(t); why != "" {
			t.Errorf("a mended file is not in force: %s", why)
		}
	}
}

func TestWhoeverAsksGetsAShorterList(t *testing.T) {
	t.Parallel()
	l := newTor(t, "192.0.2.1\n")
	l.write(t, "# none\n")
	if l.kept(t) == "" || !l.has("192.0.2.1") {
		t.Fatal("an empty file was taken by itself")
	}
	l.ask()
	if s := l.States()[0]; s.Kept != "" || s.Ranges != 0 || l.has("192.0.2.1") {
		t.Errorf("SIGHUP does not take it: %+v", s)
	}
}

func TestAListWhoseFileWasNeverThereIsEmptyAndSaysSo(t *testing.T) {
	t.Parallel()
	l := newTor(t, "192.0.2.1")
	if s := l.States()[0]; !strings.Contains(s.Kept, "no newline") || s.Ranges != 0 || !s.Read.IsZero() || l.has("192.0.2.1") {
		t.Errorf("state %+v", s)
	}
}

// The numbers in docs/how-to/ip-lists.md.
func TestAHundredThousandRangesTakeLittleMemory(t *testing.T) {
	var text strings.Builder
	for n := range 100_000 {
		fmt.Fprintf(&text, "%d.%d.%d.%d/%d\n", 1+n*7%223, n>>8&255, n&255, n*64&255, 22+n%9)
	}
	used := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	l := newTor(t, text.String())
	with, n := used(), l.States()[0].Ranges
	l.Configure(nil)
	took := with - used()
	t.Logf("%d ranges take %d KiB", n, took>>10)
	if n < 90_000 || took > 24<<20 {
		t.Errorf("%d ranges take %d KiB", n, took>>10)
	}
	runtime.KeepAlive(l)
}

func TestManyEntriesAreOneChange(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := lists.New(db)
		version := func() (n int) {
			_ = db.QueryRow(`SELECT version FROM changes WHERE name = 'lists'`).Scan(&n)
			return n
		}
		var all []lists.Request
		for i := range 2500 {
			all = append(all, lists.Request{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 32), Verdict: lists.Block, By: "ann"})
		}
		before := version()
		entries, err := table.AddAll(t.Context(), all, noon)
		if err != nil || len(entries) != 2500 || version() != before+1 || len(mustAll(t, table, noon)) != 2500 {
			t.Errorf("%d entries, %v, %d changes", len(entries), err, version()-before)
		}
		bad := []lists.Request{{Prefix: pfx("192.0.2.0/24"), Verdict: lists.Block}, {Prefix: pfx("192.0.2.0/25")}}
		if _, err := table.AddAll(t.Context(), bad, noon); err == nil || len(mustAll(t, table, noon)) != 2500 || version() != before+1 {
			t.Errorf("half of it was added: %v", err)
		}
		if until, err := table.Prolong(t.Context(), pfx("10.1.0.7/32"), 30*24*time.Hour, noon.Add(time.Hour)); err != nil || !until.Equal(noon.Add(721*time.Hour)) {
			t.Errorf("prolonged until %v, %v", until, err)
		}
		if _, err := table.Prolong(t.Context(), pfx("10.1.0.8/32"), 0, noon); err != nil {
			t.Error(err)
		}
		if got := mustAll(t, table, noon.Add(169*time.Hour)); len(got) != 2 {
			t.Errorf("%d are left", len(got))
		}
		if _, err := table.Prolong(t.Context(), pfx("10.1.0.9/32"), time.Hour, noon.Add(169*time.Hour)); err == nil {
			t.Error("what has run out was prolonged")
		}
	})
}

func TestHitsOfADayAreKept(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := lists.New(db)
		add := func(met, stopped int64, at time.Time) {
			t.Helper()
			if err := table.AddHits(t.Context(), "default", map[string]lists.Hits{"tor": {Met: met, Stopped: stopped}}, at); err != nil {
				t.Fatal(err)
			}
		}
		add(5, 1, noon)
		add(7, 2, noon.Add(time.Minute))
		add(11, 3, noon.Add(2*time.Hour))
		for after, want := range map[time.Duration]lists.Hits{3 * time.Hour: {Met: 23, Stopped: 6}, 24 * time.Hour: {Met: 11, Stopped: 3}, 48 * time.Hour: {}} {
			got, err := table.HitsOf(t.Context(), "default", noon.Add(after-24*time.Hour))
			if err != nil || got["tor"] != want {
				t.Errorf("%v later it was %+v (%v), want %+v", after, got, err, want)
			}
		}
		if other, err := table.HitsOf(t.Context(), "shop", noon.Add(-time.Hour)); err != nil || len(other) != 0 {
			t.Errorf("another realm's: %v, %v", other, err)
		}
	})
}
