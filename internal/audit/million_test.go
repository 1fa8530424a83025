package audit

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"authguard/internal/database"
	"authguard/internal/database/databasetest"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

// TestAMillionRowsAreSearchedInTime prints what each filter of the page takes. Writing the rows takes minutes.
func TestAMillionRowsAreSearchedInTime(t *testing.T) {
	if os.Getenv("AUDIT_MILLION") == "" {
		t.Skip("AUDIT_MILLION is not set: see bench/README.md")
	}
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) { searchAMillion(t, openLog(t, open, Config{})) })
}

func searchAMillion(t *testing.T, l *Log) {
	const rows = 1_000_000
	for i := 0; i < rows; i += 2000 {
		var some []Row
		for j := i; j < i+2000; j++ {
			some = append(some, rowOfAMillion(j))
		}
		if err := l.insert(t.Context(), some); err != nil {
			t.Fatal(err)
		}
	}
	if database.IsPostgres(l.db) {
		if _, err := l.db.Exec("VACUUM ANALYZE audit"); err != nil {
			t.Fatal(err)
		}
	}
	network := netip.MustParsePrefix
	for _, c := range []struct {
		name string
		f    Filter
	}{
		{"none", Filter{}},
		{"realm with most rows", Filter{Realm: "default"}},
		{"realm with few rows", Filter{Realm: "shop"}},
		{"account with 500,000 rows", Filter{Realm: "default", Account: "victim"}},
		{"account with 100 rows", Filter{Realm: "default", Account: "user7"}},
		{"unknown account, all realms", Filter{Account: "none"}},
		{"IP address with 250,000 rows", Filter{Realm: "default", Network: network("198.51.100.7/32")}},
		{"IP address with few rows", Filter{Network: network("20.0.0.9/32")}},
		{"network with few rows", Filter{Network: network("20.0.0.0/20")}},
		{"network with most rows", Filter{Network: network("0.0.0.0/0")}},
		{"account and IP address", Filter{Realm: "default", Account: "victim", Network: network("198.51.100.7/32")}},
		{"actor", Filter{Who: "admin:ann"}},
		{"unknown actor", Filter{Realm: "default", Who: "nobody"}},
		{"kind admin", Filter{Kind: KindAdmin}},
		{"kind mode, no rows", Filter{Kind: KindMode}},
		{"kind event, no rows", Filter{Kind: KindEvent}},
		{"kind succeeded", Filter{Realm: "default", Kind: "succeeded"}},
		{"kind failed", Filter{Realm: "default", Kind: "failed"}},
		{"kind abandoned, no rows", Filter{Realm: "default", Kind: "abandoned"}},
		{"code, frequent", Filter{What: "captcha-mode"}},
		{"code, no rows", Filter{What: "none"}},
		{"a day", Filter{Since: noon.Add(24 * time.Hour), Until: noon.Add(48 * time.Hour)}},
		{"oldest first", Filter{OldestFirst: true}},
		{"account, network, kind and code", Filter{Realm: "default", Account: "victim", Network: network("198.51.0.0/16"), Kind: "blocked", What: "none"}},
	} {
		c.f.Limit = 25
		times := [2]time.Duration{} // the first fills caches
		n := 0
		for i := range times {
			began := time.Now()
			page, err := l.Page(t.Context(), c.f)
			if err != nil {
				t.Fatal(err)
			}
			times[i], n = time.Since(began).Round(100*time.Microsecond), len(page.Rows)
		}
		t.Logf("%-34s %2d rows  %10v, again %10v", c.name, n, times[0], times[1])
	}
}

// rowOfAMillion is of an attack on one account, half of it from four IP addresses, beside many names and IP addresses.
func rowOfAMillion(i int) Row {
	r := Row{At: noon.Add(time.Duration(i) * 500 * time.Millisecond), Realm: "default", Kind: KindAttempt, Decision: "blocked",
		Account: "victim", Address: fmt.Sprintf("20.%d.%d.%d", i>>16&255, i>>8&255, i&255), Reasons: "captcha-mode", Count: 1, Detail: "login"}
	switch {
	case i%4 == 0:
		r.Address = "198.51.100.7"
	case i%4 == 1:
		r.Account, r.Decision, r.Reasons = fmt.Sprintf("user%d", i%9973), "failed", ""
	case i%4 == 2:
		r.Account = fmt.Sprintf("invented%d", i)
	}
	switch {
	case i%1000 == 11:
		r.Decision = "succeeded"
	case i%50_000 == 3:
		r.Realm = "shop"
	case i%20_000 == 7:
		r = Row{At: r.At, Realm: "default", Kind: KindAdmin, Decision: "unlock", Account: "victim", Who: "admin:ann", Count: 1}
	}
	return r
}
