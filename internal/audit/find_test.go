package audit

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/database"
	"authguard/internal/database/databasetest"
)

// a history of every kind, a minute each.
func history(t *testing.T, l *Log) {
	t.Helper()
	at := noon
	var rows []Row
	add := func(r Row) {
		at = at.Add(time.Minute)
		r.At, r.Count, r.Realm = at, 1, realmOf(r.Realm)
		rows = append(rows, r)
	}
	for _, a := range []string{"198.51.100.7", "198.51.101.7", "198.51.104.7", "2001:db8:0:1::", "2001:db8:1::", "2001:db9::"} {
		add(Row{Kind: KindAttempt, Decision: "failed", Account: "alice", Address: a, Detail: "login"})
	}
	add(Row{Kind: KindAttempt, Decision: "blocked", Address: "198.51.100.0/24", Reasons: "limit:address,captcha-mode", Detail: "login" + summedUp})
	add(Row{Kind: KindAttempt, Decision: "succeeded", Account: "alice", Address: "198.51.100.7", Detail: "login"})
	add(Row{Kind: KindAttempt, Decision: "challenged", Account: "bob", Address: "198.51.100.8", Reasons: "captcha-mode", Detail: "login"})
	add(Row{Kind: KindAttempt, Decision: "challenged", Account: "bob", Address: "198.51.100.8", Realm: "shop", Detail: "login"})
	add(Row{Kind: KindAdmin, Decision: "block", Address: "198.51.100.0/24", Who: "admin:Ann_B"})
	add(Row{Kind: KindAdmin, Decision: "unlock", Account: "alice", Who: "cli:root"})
	add(Row{Kind: KindMode, Decision: "on", Reasons: "forced", Who: "admin:ann%b"})
	add(Row{Kind: KindEvent, Decision: "reached", Address: "203.0.113.1"})
	if err := l.insert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
}

func TestFiltersFindWhatTheyName(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		history(t, l)
		network := netip.MustParsePrefix
		for _, c := range []struct {
			name string
			f    Filter
			want []int // minutes
		}{
			{"all", Filter{}, []int{14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}},
			{"a realm", Filter{Realm: "shop"}, []int{10}},
			{"no realm", Filter{Realm: "none"}, nil},
			{"an account", Filter{Account: "alice"}, []int{12, 8, 6, 5, 4, 3, 2, 1}},
			{"an account in all realms", Filter{Account: "bob"}, []int{10, 9}},
			{"an account in one", Filter{Account: "bob", Realm: "default"}, []int{9}},
			{"an address and its network's", Filter{Network: network("198.51.100.7/32")}, []int{11, 8, 7, 1}},
			{"an account's at an address", Filter{Account: "alice", Network: network("198.51.100.7/32")}, []int{8, 1}},
			{"a network of IPv4", Filter{Network: network("198.51.100.0/22")}, []int{11, 10, 9, 8, 7, 2, 1}},
			{"all of IPv4", Filter{Network: network("0.0.0.0/0")}, []int{14, 11, 10, 9, 8, 7, 3, 2, 1}},
			{"an account's in a network", Filter{Account: "alice", Network: network("198.51.100.0/22")}, []int{8, 2, 1}},
			{"a network of IPv6", Filter{Network: network("2001:db8::/32")}, []int{5, 4}},
			{"a network with zeros", Filter{Network: network("2001:db8::/48")}, []int{4}},
			{"who, a part", Filter{Who: "ANN"}, []int{13, 11}},
			{"who, with what LIKE knows", Filter{Who: "n_b"}, []int{11}},
			{"who, with more of it", Filter{Who: "n%b"}, []int{13}},
			{"administrators", Filter{Kind: KindAdmin}, []int{12, 11}},
			{"the mode", Filter{Kind: KindMode, Realm: "default"}, []int{13}},
			{"limits on events", Filter{Kind: KindEvent}, []int{14}},
			{"attempts", Filter{Kind: KindAttempt, Realm: "default"}, []int{9, 8, 7, 6, 5, 4, 3, 2, 1}},
			{"refused, also summed up", Filter{Kind: "blocked"}, []int{7}},
			{"signed in", Filter{Kind: "succeeded"}, []int{8}},
			{"a decision", Filter{What: "block"}, []int{11}},
			{"a reason", Filter{What: "captcha-mode"}, []int{9, 7}},
			{"a piece of a reason", Filter{What: "captcha"}, nil},
			{"since", Filter{Since: noon.Add(12 * time.Minute)}, []int{14, 13, 12}},
			{"until", Filter{Until: noon.Add(3 * time.Minute)}, []int{2, 1}},
			{"between, in a network", Filter{Network: network("198.51.0.0/16"), Since: noon.Add(2 * time.Minute), Until: noon.Add(8 * time.Minute)}, []int{7, 3, 2}},
			{"SQL", Filter{Who: "' OR 1=1 --", What: "?"}, nil},
		} {
			for _, limit := range []int{0, 1, 2, -1, -2, -100} { // whole, and in small pages; oldest first below 0
				var got []int
				if c.f.OldestFirst = limit < 0; c.f.OldestFirst {
					limit = -limit
				}
				c.f.Limit, c.f.Before, c.f.After = limit, 0, 0
				for pages := 0; ; pages++ {
					page, err := l.Page(t.Context(), c.f)
					if err != nil || limit > 0 && len(page.Rows) > limit || !page.Searched.IsZero() {
						t.Fatalf("%s: %+v, %v", c.name, page, err)
					}
					for _, r := range page.Rows {
						got = append(got, int(r.At.Sub(noon)/time.Minute))
					}
					if c.f.OldestFirst {
						c.f.After = page.Next
					} else {
						c.f.Before = page.Next
					}
					if page.Next == 0 {
						if limit > 0 && pages != max(0, len(c.want)-1)/limit {
							t.Errorf("%s: %d pages of %d for %d rows", c.name, pages+1, limit, len(c.want))
						}
						break
					}
				}
				if c.f.OldestFirst {
					slices.Reverse(got)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("%s, %d at a time: %v, want %v", c.name, limit, got, c.want)
				}
			}
		}
	})
}

// What no index answers is looked for in a bounded part of the table, from the cursor on,
// and the page says how far it came.
func TestAPageReadsABoundedPartOfALargeTable(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		l.window = 50
		rows := make([]Row, 10*50+2*50+1)
		for i := range rows {
			rows[i] = Row{At: noon.Add(time.Duration(i) * time.Second), Realm: guard.DefaultRealm, Kind: KindAttempt, Decision: []string{"blocked", "failed", "succeeded"}[i%3], Address: "203.0.113.1", Reasons: "blocklist", Count: 1}
		}
		rows[0].Reasons, rows[50].Reasons = "oldest", "older"
		if err := l.insert(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		f := Filter{What: "oldest"}
		first, err := l.Page(t.Context(), f)
		if err != nil || len(first.Rows) != 0 || first.Next == 0 || !first.Searched.Equal(rows[2*50+1].At) {
			t.Fatalf("%d rows, next %d, searched back to %v; %v", len(first.Rows), first.Next, first.Searched, err)
		}
		f.Before = first.Next
		second, err := l.Page(t.Context(), f)
		if err != nil || len(second.Rows) != 1 || second.Next != 0 || !second.Searched.IsZero() {
			t.Fatalf("then %+v, %v", second, err)
		}
		newest := Filter{What: "newest", OldestFirst: true}
		if err := l.insert(t.Context(), []Row{{At: noon.Add(time.Hour), Realm: guard.DefaultRealm, Kind: KindAttempt, Decision: "blocked", Address: "203.0.113.2", Reasons: "newest", Count: 1}}); err != nil {
			t.Fatal(err)
		}
		first, err = l.Page(t.Context(), newest)
		if err != nil || len(first.Rows) != 0 || !first.Searched.Equal(rows[10*50-1].At) {
			t.Fatalf("oldest first: %d rows, searched up to %v; %v", len(first.Rows), first.Searched, err)
		}
		newest.After = first.Next
		if second, err = l.Page(t.Context(), newest); err != nil || len(second.Rows) != 1 || second.Next != 0 {
			t.Fatalf("then %+v, %v", second, err)
		}
		var ids []int64
		if err := l.Each(t.Context(), Filter{What: "blocklist", OldestFirst: true}, func(r Row) error { ids = append(ids, r.ID); return nil }); err != nil || len(ids) != len(rows)-2 || !slices.IsSorted(ids) {
			t.Errorf("oldest first: %d rows, %v", len(ids), err)
		}
		n := 0
		for _, what := range []string{"older", "oldest"} {
			if err := l.Each(t.Context(), Filter{What: what}, func(Row) error { n++; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Each(t.Context(), Filter{Network: netip.MustParsePrefix("203.0.113.0/28")}, func(Row) error { n++; return nil }); err != nil || n != 3+len(rows) {
			t.Errorf("%d rows in all, want %d: %v", n, 3+len(rows), err)
		}
	})
}

// Ensure that each question reads the index that is in the order of its answer: nothing
// is sorted, and nobody else's rows are read.
func TestEachFilterReadsAnIndexInItsOrder(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		for index, f := range map[string]Filter{
			"audit_succeeded audit_failed audit_rest": {Realm: "default", Account: "alice"},
			"audit_address audit_address":             {Realm: "default", Network: One(client)},
			"audit_part":                              {Kind: KindAdmin, Realm: "default", What: "unlock"},
			// The newest of a realm that has too many to be told by their numbers.
			"-": {Realm: "default", Network: netip.MustParsePrefix("198.51.0.0/16"), Kind: "failed"},
		} {
			sources, err := l.sources(t.Context(), f)
			if index == "-" {
				sources, index = []source{{index: []condition{is("1 = 1")}}}, "PRIMARY"
				if database.IsPostgres(l.db) { // which knows how many rows there are, and here are none
					continue
				}
			}
			if err != nil || len(sources) != len(strings.Fields(index)) {
				t.Fatalf("%s: %d sources, %v", index, len(sources), err)
			}
			for i, s := range sources {
				where, args := compiled(append(append(s.index, is("id < ?", int64(1)<<60)), f.rest()...)...)
				plan := planOf(t, l.db, "SELECT "+columns+" FROM audit WHERE "+where+" ORDER BY id DESC LIMIT 100", args)
				want := strings.Fields(index)[i]
				if want == "audit_part" && database.IsPostgres(l.db) {
					want = "audit_pkey"
				}
				if !strings.Contains(plan, want) || strings.Contains(strings.ToLower(plan), "sort") || strings.Contains(plan, "TEMP B-TREE") {
					t.Errorf("%s:\n%s", where, plan)
				}
			}
		}
		where, args := compiled(append([]condition{is("realm = ?", "default")}, inText(netip.MustParsePrefix("198.51.100.0/24"))...)...)
		if plan := planOf(t, l.db, "SELECT id, address FROM audit WHERE "+where+" LIMIT 10", args); !strings.Contains(plan, "audit_address") {
			t.Errorf("a network:\n%s", plan)
		}
	})
}

func TestANetworkInTextLeavesNoneOfItsAddressesOut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"198.51.100.0/22": "198.51.", "198.51.100.0/24": "198.51.100.", "198.51.100.128/25": "198.51.100.", "0.0.0.0/0": "", "10.0.0.0/7": "",
		"2001:db8::/32": "2001:db8:", "2001:db8::/40": "2001:db8:", "2001:0:1::/48": "2001:", "::/0": "", "2001:db8:1:2::/64": "2001:db8:1:2:",
	} {
		got := inText(netip.MustParsePrefix(text))
		if begin := ""; len(got) > 0 {
			begin = got[0].values[0].(string)
			if begin != want {
				t.Errorf("%s: %q, want %q", text, begin, want)
			}
			if beyond := got[1].values[0].(string); beyond <= begin+"ffff" || strings.HasPrefix(beyond, begin) {
				t.Errorf("%s: up to %q", text, beyond)
			}
		} else if want != "" {
			t.Errorf("%s: nothing, want %q", text, want)
		}
	}
}
