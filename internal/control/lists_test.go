package control_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/audit"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
	"authguard/internal/lists"
	"authguard/internal/operation"
	"authguard/internal/testing/world"
)

func block(text string) lists.ImportLists {
	return lists.ImportLists{Verdict: lists.Block, Note: "a botnet", Text: text}
}

func TestR31AnImportIsOneRowOnRecordHoweverLong(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		var text strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&text, "10.7.%d.%d\n", i>>8, i&255)
		}
		p, err := d.ImportLists(t.Context(), "admin:eve", block(text.String()+"10.7.0.1 again\n"))
		if err != nil || !p.Imported || p.New != 2000 || p.Twice != 1 || p.Bad != 0 {
			t.Fatalf("%+v, %v", p, err)
		}
		rows, err := d.audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin})
		if err != nil || len(rows) != 1 || rows[0].Decision != "block-import" || !strings.HasPrefix(rows[0].Detail, "2000 ranges, until ") || !strings.HasSuffix(rows[0].Detail, ": a botnet") {
			t.Errorf("on record: %+v, %v", rows, err)
		}
		if d.w.Lists.Look(netip.MustParseAddr("10.7.7.9"), d.w.Clock.Now()) != guard.Blocked {
			t.Error("the import is not in force")
		}
	})
}

func TestAnImportWithABadLineImportsNothingUnlessAskedTo(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		q := block("192.0.2.1\nnonsense\n192.0.2.2\n0.0.0.0/0\n")
		p, err := d.ImportLists(t.Context(), "admin:eve", q)
		if !errors.Is(err, operation.ErrAsked) || !strings.Contains(err.Error(), `line 2 not an address or range: "nonsense"`) || !strings.Contains(err.Error(), "line 4 the range holds every IP address") || p != nil {
			t.Fatalf("%+v, %v", p, err)
		}
		if all, _ := d.Lists.Entries(t.Context()); len(all) != 0 || d.recorded(t).ID != 0 {
			t.Errorf("%d entries of a bad text", len(all))
		}
		q.SkipBad = true
		if p, err = d.ImportLists(t.Context(), "admin:eve", q); err != nil || p.New != 2 || p.Bad != 2 {
			t.Errorf("%+v, %v", p, err)
		}
		if row := d.recorded(t); !strings.Contains(row.Detail, "2 invalid lines skipped") {
			t.Errorf("on record: %q", row.Detail)
		}
		if _, err := d.ImportLists(t.Context(), "admin:eve", block("# nothing\n")); !errors.Is(err, operation.ErrAsked) {
			t.Errorf("an empty text: %v", err)
		}
		q.Verdict, q.DryRun = "maybe", true
		if _, err := d.ImportLists(t.Context(), "x", q); !errors.Is(err, operation.ErrAsked) {
			t.Errorf("no verdict: %v", err)
		}
	})
}

func TestAPlanWarnsOfWhatIsWorthASecondLook(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		for text, verdict := range map[string]lists.Verdict{"192.0.2.0/24": lists.Allow, "198.51.100.7": lists.Allow, "203.0.113.0/24": lists.Block} {
			if _, err := d.List(t.Context(), "x", lists.Request{Prefix: prefix(text), Verdict: verdict}); err != nil {
				t.Fatal(err)
			}
		}
		q := block("192.0.2.9\n198.51.100.0/24\n192.0.2.0/24\n203.0.113.0/24\n203.0.113.1\n10.0.0.0/8\n172.16.0.1\n")
		q.From, q.DryRun = "::ffff:10.9.8.7", true
		p, err := d.ImportLists(t.Context(), "x", q)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, w := range p.Warnings {
			got += fmt.Sprintf("%d %s\n", w.Line, w.Text)
		}
		want := `1 192.0.2.9/32 is within 192.0.2.0/24, which is on the other list (allow): the more specific entry applies
2 198.51.100.0/24 contains 198.51.100.7/32, which stays on the other list (allow)
3 192.0.2.0/24 replaces the allow entry of the same range
6 10.0.0.0/8 contains your own IP address 10.9.8.7: you would lock yourself out of the site
7 172.16.0.1/32 contains the configured proxy 172.16.0.0/16
`
		if got != want || p.New != 5 || p.Replaced != 2 || p.Warned != 5 {
			t.Errorf("%d new, %d replaced, warned of\n%swant\n%s", p.New, p.Replaced, got, want)
		}
		if all, _ := d.Lists.Entries(t.Context()); len(all) != 3 {
			t.Errorf("a plan changed the lists: %d", len(all))
		}
	})
}

func prefix(text string) netip.Prefix {
	p, err := lists.ParsePrefix(text)
	if err != nil {
		panic(err)
	}
	return p
}

func TestEntriesAreFoundByWhatTheyCover(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		for _, one := range []lists.Request{
			{Prefix: prefix("203.0.113.0/24"), Verdict: lists.Block, Note: "Scanner from the SOC"}, {Prefix: prefix("203.0.113.9"), Verdict: lists.Allow, Forever: true},
			{Prefix: prefix("198.51.100.0/24"), Verdict: lists.Block, For: time.Hour},
		} {
			if _, err := d.List(t.Context(), "admin:eve", one); err != nil {
				t.Fatal(err)
			}
			d.w.Clock.Advance(time.Second)
		}
		for find, want := range map[string]string{
			"203.0.113.9": "203.0.113.9/32 203.0.113.0/24", "203.0.113.8": "203.0.113.0/24", "::ffff:203.0.113.8": "203.0.113.0/24", "192.0.2.1": "",
			"203.0.0.0/16": "203.0.113.0/24 203.0.113.9/32", "scanner": "203.0.113.0/24", "admin:EVE": "198.51.100.0/24 203.0.113.0/24 203.0.113.9/32", "": "198.51.100.0/24 203.0.113.0/24 203.0.113.9/32",
		} {
			l, err := d.Lists.Listed(t.Context(), lists.Query{Find: find})
			var got []string
			for _, e := range l.Entries {
				got = append(got, e.Prefix.String())
			}
			if strings.Join(got, " ") != want || err != nil || l.Total != 3 || l.Allowed != 1 || l.Soon != 1 {
				t.Errorf("%q finds %v (%v; %d, %d, %d), want %s", find, got, err, l.Total, l.Allowed, l.Soon, want)
			}
		}
		if l, _ := d.Lists.Listed(t.Context(), lists.Query{Soon: true, Verdict: lists.Block}); len(l.Entries) != 1 {
			t.Errorf("%d end soon", len(l.Entries))
		}
		if err := second(d.do(t.Context(), "admin:eve", lists.Prolong{CIDR: "198.51.100.0/24", For: "48h"})); err != nil {
			t.Fatal(err)
		}
		if row := d.recorded(t); row.Decision != "prolong" || row.Address != "198.51.100.0/24" {
			t.Errorf("on record: %+v", row)
		}
		d.w.Clock.Advance(47 * time.Hour)
		if d.w.Lists.Look(netip.MustParseAddr("198.51.100.1"), d.w.Clock.Now()) != guard.Blocked {
			t.Error("a prolonged entry has run out")
		}
		if err := second(d.do(t.Context(), "admin:eve", lists.Prolong{CIDR: "198.51.100.0/25", For: "1h"})); !errors.Is(err, lists.ErrNotListed) {
			t.Errorf("prolonged what is not there: %v", err)
		}
	})
}

// What named lists meet outlives a restart, and is not counted twice.
func TestHitsOfNamedListsAreSavedOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		file := filepath.Join(t.TempDir(), "tor")
		if err := os.WriteFile(file, []byte("198.51.100.0/24\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		files := lists.NewFiles(d.w.Lists, slog.New(slog.DiscardHandler), d.w.Clock.Now)
		files.Configure([]lists.Source{{Name: "tor", File: file, Layout: lists.Layout{Format: lists.Plain}}})
		d.named(t, files)
		p := guard.DefaultPolicy()
		p.Lists = []guard.NamedList{{Name: "tor", Limits: []guard.Limit{{Action: guard.Challenge}}}}
		if err := d.w.SetPolicy(p); err != nil {
			t.Fatal(err)
		}
		met := func() lists.Hits {
			t.Helper()
			l, err := d.Lists.Listed(t.Context(), lists.Query{Find: "198.51.100.7"})
			if err != nil || len(l.Named) != 1 || fmt.Sprint(l.Named[0].Limits, l.Found) != "[0 challenge] [tor]" || l.Named[0].Ranges != 1 {
				t.Fatalf("%+v, %v", l, err)
			}
			return l.Named[0].Day
		}
		for range 3 {
			d.w.Wrong(t, "alice", "198.51.100.7")
		}
		d.w.Wrong(t, "alice", "192.0.2.7")
		d.w.Try(t, d.w.Solved(t, "bob", "198.51.100.8"), world.Right)
		want := lists.Hits{Met: 4, Stopped: 3}
		for range 2 {
			if got := met(); got != want {
				t.Errorf("met %+v, want %+v", got, want)
			}
			d.Lists.SaveHits(t.Context())
			d.Lists.SaveHits(t.Context())
		}
		d.w.Clock.Advance(25 * time.Hour)
		if got := met(); got != (lists.Hits{}) {
			t.Errorf("a day later: %+v", got)
		}
	})
}

func TestAListWhoseFileIsBrokenIsWarnedOf(t *testing.T) {
	t.Parallel()
	all := control.BrokenLists([]lists.State{{Name: "good"}, {Name: "tor", File: "/x/tor", Kept: "it is a folder"}})
	if len(all) != 1 || all[0].Code != "list-file" || !strings.Contains(all[0].Text, "/x/tor: it is a folder. The list is empty.") {
		t.Errorf("%+v", all)
	}
}

// An administrator cannot block the network of their own browser: an IPv6 address counts with its /64.
func TestAnAdministratorsOwnAddressIsNotBlocked(t *testing.T) {
	t.Parallel()
	d := newDesk(t, databasetest.SQLite(t))
	for own, blocked := range map[string][]string{
		"2001:db8::1": {"2001:db8::1", "2001:db8::ffff"}, "192.0.2.7": {"192.0.2.7"},
	} {
		by := operation.By{Who: "admin:ann", Fresh: true, Address: netip.MustParseAddr(own)}
		for _, address := range blocked {
			if _, err := d.Do(t.Context(), by, lists.ListRange{CIDR: guard.OneAddress(netip.MustParseAddr(address)).String(), Verdict: lists.Block}); !errors.Is(err, operation.ErrAsked) {
				t.Errorf("%s blocks %s: %v", own, address, err)
			}
		}
		if _, err := d.Do(t.Context(), by, lists.ListRange{CIDR: own, Verdict: lists.Allow}); err != nil {
			t.Error(err)
		}
		if _, err := d.Do(t.Context(), by, lists.ListRange{CIDR: own, Verdict: lists.Block}); !errors.Is(err, operation.ErrAsked) {
			t.Error(err)
		}
	}
	if all, err := d.Lists.Entries(t.Context()); len(all) != 2 || err != nil {
		t.Errorf("%+v %v", all, err)
	}
}

// The preview of a block must not fail because a search of a large audit log takes too long.
func TestThePreviewOfABlockIsPartialRatherThanSlow(t *testing.T) {
	t.Parallel()
	db := databasetest.SQLite(t)
	d := newDesk(t, db)
	for _, endless := range []string{"ALTER TABLE audit RENAME TO rows_of_audit", `CREATE VIEW audit AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL
		SELECT i + 1 FROM n) SELECT a.* FROM n CROSS JOIN rows_of_audit AS a`} {
		if _, err := db.ExecContext(t.Context(), endless); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	a, err := d.Affected(ctx, netip.MustParsePrefix("10.0.0.0/8"))
	if err != nil || !a.Partial {
		t.Errorf("%+v, %v", a, err)
	}
}
