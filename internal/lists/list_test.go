package lists_test

import (
	"database/sql"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"authguard/internal/database/databasetest"
	"authguard/internal/lists"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { databasetest.Main(m) }

func mustAdd(t *testing.T, table *lists.Table, r lists.Request, now time.Time) lists.Entry {
	t.Helper()
	e, err := table.Add(t.Context(), r, now)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustAll(t *testing.T, table *lists.Table, now time.Time) []lists.Entry {
	t.Helper()
	all, err := table.All(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func pfx(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func TestPrefixesAreReadOneWay(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", " 192.0.2.7/24 ": "192.0.2.0/24", "2001:db8::1": "2001:db8::1/128",
		"2001:db8::1/48": "2001:db8::/48", "::ffff:192.0.2.7": "192.0.2.7/32",
		"::ffff:192.0.2.7/120": "192.0.2.0/24", "::ffff:0:0/96": "0.0.0.0/0",
	} {
		if got, err := lists.ParsePrefix(text); err != nil || got.String() != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "192.0.2.7/33", "192.0.2", "fe80::1%eth0", "1.2.3.4/", "010.0.0.1"} {
		if got, err := lists.ParsePrefix(text); !errors.Is(err, lists.ErrPrefix) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

func TestAnEntryLastsAWeekUnlessTold(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := lists.New(db)
		mustAdd(t, table, lists.Request{Prefix: pfx("192.0.2.0/24"), Verdict: lists.Block, Note: "scan", By: "ann"}, noon)
		mustAdd(t, table, lists.Request{Prefix: pfx("10.0.0.0/8"), Verdict: lists.Allow, Forever: true}, noon)
		mustAdd(t, table, lists.Request{Prefix: pfx("2001:db8::/48"), Verdict: lists.Block, For: time.Hour}, noon)
		for after, want := range map[time.Duration]int{
			0: 3, time.Hour - time.Millisecond: 3, time.Hour: 2,
			168*time.Hour - time.Millisecond: 2, 168 * time.Hour: 1, 24 * 3650 * time.Hour: 1,
		} {
			if got := mustAll(t, table, noon.Add(after)); len(got) != want {
				t.Errorf("after %v there are %d, want %d", after, len(got), want)
			}
		}
		first := mustAll(t, table, noon)
		for _, e := range first {
			if e.Prefix == pfx("192.0.2.0/24") && (e.Note != "scan" || e.CreatedBy != "ann" || !e.CreatedAt.Equal(noon) || e.Verdict != lists.Block) {
				t.Errorf("read back %+v", e)
			}
		}
		if n, err := table.Purge(t.Context(), noon.Add(time.Hour)); n != 1 || err != nil {
			t.Errorf("purged %d, %v", n, err)
		}
	})
}

func TestTheNewestWordOnARangeCounts(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := lists.New(db)
		mustAdd(t, table, lists.Request{Prefix: pfx("192.0.2.0/24"), Verdict: lists.Block}, noon)
		mustAdd(t, table, lists.Request{Prefix: pfx("192.0.2.9/24"), Verdict: lists.Allow}, noon.Add(time.Hour))
		all := mustAll(t, table, noon.Add(time.Hour))
		if len(all) != 1 || all[0].Verdict != lists.Allow {
			t.Errorf("got %+v", all)
		}
	})
}

func TestRemoveTakesExactlyThatRange(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := lists.New(db)
		mustAdd(t, table, lists.Request{Prefix: pfx("192.0.2.0/24"), Verdict: lists.Block}, noon)
		if err := table.Remove(t.Context(), pfx("192.0.2.7/32")); !errors.Is(err, lists.ErrNotListed) {
			t.Errorf("got %v", err)
		}
		if err := table.Remove(t.Context(), pfx("::ffff:192.0.2.0/120")); err != nil {
			t.Error(err)
		}
		if all := mustAll(t, table, noon); len(all) != 0 {
			t.Errorf("left: %v", all)
		}
	})
}

func TestEveryAddressIsNeverAllowedAndBlockedOnlyByForce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := lists.New(db)
		for _, wide := range []string{"0.0.0.0/0", "::/0", "::ffff:0:0/96"} {
			for _, r := range []lists.Request{
				{Verdict: lists.Allow}, {Verdict: lists.Allow, Force: true}, {Verdict: lists.Block},
			} {
				r.Prefix = pfx(wide)
				if _, err := table.Add(t.Context(), r, noon); !errors.Is(err, lists.ErrTooWide) {
					t.Errorf("%+v: %v", r, err)
				}
			}
			mustAdd(t, table, lists.Request{Prefix: pfx(wide), Verdict: lists.Block, Force: true}, noon)
		}
	})
}

func TestBadRequestsNameEveryProblem(t *testing.T) {
	t.Parallel()
	err := lists.Request{For: -1, Note: strings.Repeat("x", 501)}.Validate()
	for _, part := range []string{"range", "verdict", "for:", "note"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %v", part, err)
		}
	}
	for _, note := range []string{"\x00", "\xff"} {
		if (lists.Request{Prefix: pfx("10.0.0.0/8"), Verdict: lists.Block, Note: note}).Validate() == nil {
			t.Errorf("the note %q was taken", note)
		}
	}
	if (lists.Request{Prefix: pfx("10.0.0.0/8"), Verdict: lists.Block, For: 1, Forever: true}).Validate() == nil {
		t.Error("an hour and for ever at once")
	}
}

func FuzzParsePrefix(f *testing.F) {
	for _, seed := range []string{"192.0.2.7", "::ffff:1.2.3.4/97", "2001:db8::/32", "fe80::1%x", "/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := lists.ParsePrefix(text)
		if err != nil {
			return
		}
		if again, err := lists.ParsePrefix(p.String()); err != nil || again != p || p != p.Masked() {
			t.Errorf("%q is %v and then %v (%v)", text, p, again, err)
		}
	})
}
