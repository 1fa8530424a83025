package audit

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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
					if err != nil || limit > 0 && len(page.Rows) > limit {
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

// matches is what a filter means, row by row.
func (f Filter) matches(r Row) bool {
	codes := slices.ContainsFunc(strings.Split(r.Reasons, ","), func(code string) bool {
		return strings.HasPrefix(code+":", f.What+":")
	})
	p, network := prefixOf(r.Address), !f.Network.IsValid()
	if f.Network.IsSingleIP() {
		network = p == f.Network || p == networkOf(f.Network.Addr())
	} else if p.IsValid() && f.Network.IsValid() {
		network = p.Bits() >= f.Network.Bits() && f.Network.Contains(p.Addr())
	}
	return network && (f.Realm == "" || realmOf(r.Realm) == f.Realm) && (f.Account == "" || r.Account == f.Account) &&
		strings.Contains(strings.ToLower(r.Who), strings.ToLower(f.Who)) &&
		(f.Kind == "" || r.Kind == f.Kind || r.Kind == KindAttempt && r.Decision == f.Kind) &&
		(f.What == "" || r.Decision == f.What || codes) &&
		(f.Since.IsZero() || !r.At.Before(f.Since)) && (f.Until.IsZero() || r.At.Before(f.Until))
}

func prefixOf(address string) netip.Prefix {
	if a, err := netip.ParseAddr(address); err == nil {
		return One(a)
	}
	p, _ := netip.ParsePrefix(address)
	return p
}

// TestEveryFilterFindsTheRowsThatMatch compares random filters with a look at every row.
func TestEveryFilterFindsTheRowsThatMatch(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		realms, accounts := []string{"default", "shop"}, []string{"", "alice", "bob", `a%_\`}
		addresses := []string{"", "unknown", "198.51.100.7", "198.51.100.8", "198.51.101.7", "203.0.113.1", "198.51.100.0/24",
			"198.51.100.0/22", "2001:db8::1", "2001:db8::/48", "2001:db8:1::/64", "2001:db9::1"}
		reasons := []string{"", "captcha-mode", "limit:account:5/24h,captcha-mode", "limit:account:monitored", "limit:account_:3/1h"}
		some := rand.New(rand.NewPCG(1, 2))
		one := func(list ...string) string { return list[some.IntN(len(list))] }
		rows := make([]Row, 600)
		for i := range rows {
			r := Row{At: noon.Add(time.Duration(some.IntN(3000)) * time.Second), Realm: one(realms...), Account: one(accounts...),
				Address: one(addresses...), Kind: one(KindAttempt, KindAttempt, KindAttempt, KindAdmin, KindMode, KindEvent), Count: 1}
			switch r.Kind {
			case KindAttempt:
				r.Decision, r.Reasons = one(Kinds()[4:]...), one(reasons...)
				r.Detail = "login" + one("", "", knownClient, summedUp)
			case KindEvent:
				r.Decision = one("reached", "quiet")
			default:
				r.Decision, r.Who = one("unlock", "on", "blocked"), one("admin:Ann", "admin:Ännchen", "cli:50%", `cli:a_b\`)
			}
			rows[i] = r
		}
		if err := l.insert(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		all, err := l.rows(t.Context(), "SELECT "+columns+" FROM audit ORDER BY id DESC")
		if err != nil || len(all) != len(rows) {
			t.Fatalf("%d rows, %v", len(all), err)
		}
		rapid.Check(t, func(t *rapid.T) {
			draw := func(name string, list ...string) string { return rapid.SampledFrom(append(list, "", "")).Draw(t, name) }
			moment := rapid.Custom(func(t *rapid.T) time.Time {
				return noon.Add(time.Duration(rapid.IntRange(-10, 3010).Draw(t, "second")) * time.Second)
			})
			f := Filter{
				Realm: draw("realm", realms...), Account: draw("account", accounts...), Kind: draw("kind", Kinds()...),
				Who:     draw("who", "ANN", "Ännchen", "%", "_", `\`, "n:ann"),
				What:    draw("what", "unlock", "blocked", "captcha-mode", "CAPTCHA-mode", "captcha", "limit", "limit:account", "limit:account:5/24h", "limit_account", "account", "%", ","),
				Network: prefixOf(draw("network", append(addresses, "198.51.0.0/16", "0.0.0.0/0", "::/0", "2001:db8::/32", "198.0.0.0/8", "2001:db8:1::5")...)),
				Limit:   rapid.SampledFrom([]int{20, 100, MaxLimit}).Draw(t, "limit"), OldestFirst: rapid.Bool().Draw(t, "oldest first"),
			}
			if rapid.Bool().Draw(t, "since") {
				f.Since = moment.Draw(t, "since")
			}
			if rapid.Bool().Draw(t, "until") {
				f.Until = moment.Draw(t, "until")
			}
			var want, pages, each []int64
			for _, r := range all {
				if f.matches(r) {
					want = append(want, r.ID)
				}
			}
			if f.OldestFirst {
				slices.Reverse(want)
			}
			if err := l.Each(context.Background(), f, func(r Row) error { each = append(each, r.ID); return nil }); err != nil {
				t.Fatal(err)
			}
			for more := true; more; {
				page, err := l.Page(context.Background(), f)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Rows {
					pages = append(pages, r.ID)
				}
				if more = page.Next != 0; f.OldestFirst {
					f.After = page.Next
				} else {
					f.Before = page.Next
				}
			}
			if !slices.Equal(pages, want) || !slices.Equal(each, want) {
				t.Fatalf("%+v: %d rows by page, %d of Each, want %d", f, len(pages), len(each), len(want))
			}
		})
	})
}

func TestEachReadsFurtherThanOnePageAndNoNewRows(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		rows := make([]Row, eachLimit+10)
		for i := range rows {
			rows[i] = Row{At: noon.Add(time.Duration(i) * time.Second), Kind: KindAttempt, Decision: "blocked", Address: "203.0.113.1", Count: 1}
		}
		if err := l.insert(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		want := len(rows)
		for _, oldestFirst := range []bool{false, true} {
			var ids []int64
			f := Filter{Network: netip.MustParsePrefix("203.0.113.0/28"), OldestFirst: oldestFirst}
			err := l.Each(t.Context(), f, func(r Row) error {
				if ids = append(ids, r.ID); len(ids) == 1 {
					late := Row{At: noon.Add(24 * time.Hour), Kind: KindAttempt, Address: "203.0.113.1", Count: 1}
					return l.insert(t.Context(), []Row{late})
				}
				return nil
			})
			if !oldestFirst {
				slices.Reverse(ids)
			}
			if err != nil || len(ids) != want || !slices.IsSorted(ids) {
				t.Errorf("oldest first %v: %d rows, want %d; %v", oldestFirst, len(ids), want, err)
			}
			want++ // the new row
		}
		page, err := l.Page(t.Context(), Filter{Limit: len(rows)})
		if err != nil || len(page.Rows) != MaxLimit || page.Next == 0 {
			t.Errorf("a page of %d rows, %v", len(page.Rows), err)
		}
	})
}

func TestASlowSearchEndsWithAdvice(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		l.search = 0
		if _, err := l.Page(t.Context(), Filter{What: "none"}); !errors.Is(err, ErrSlow) {
			t.Errorf("got %v", err)
		}
	})
}
