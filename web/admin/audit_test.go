package admin_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/operation"
)

// hostileNames are what strangers type as names: markup, formulas, lines, characters that
// turn the text round, and a long one.
var hostileNames = []string{
	"<img src=x onerror=alert(1)>", `"><script>alert(1)</script>`, "=cmd()", "+1+1", "-2", "@SUM(A1)", "\t=1", "\r=1", "a\nb,c\"d", "\u202eexe.gpj", "＝1", strings.Repeat("x", 1<<20),
}

// attacked puts hostile names on record, and an administrator's action about each.
func (o *office) attacked(t *testing.T) {
	t.Helper()
	now := o.Clock.Now()
	for i, name := range hostileNames {
		e := guard.Event{At: now.Add(-time.Duration(i) * time.Second), Integration: "login", Account: name, Address: netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), Action: guard.Proceed, Settled: true, Outcome: guard.Failed}
		o.api.Audit.Handle([]guard.Event{e})
		if err := o.api.Audit.Record(t.Context(), operation.Action{Who: "admin:" + name, What: "unlock", Subject: name, Detail: name}); err != nil {
			t.Fatal(err)
		}
	}
	o.api.Audit.Tick(now)
	o.writeAudit(t)
}

// writeAudit writes what waits.
func (o *office) writeAudit(t *testing.T) {
	t.Helper()
	stopped, stop := context.WithCancel(context.Background())
	stop()
	o.api.Audit.Run(stopped)
}

func TestTheAuditLogIsFilteredPagedAndExported(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	c.attacked(t)
	for i := range 60 {
		c.must(t, c.api.Audit.Record(t.Context(), operation.Action{Who: "cli:root", What: "block", Subject: fmt.Sprintf("198.51.100.%d", i)}))
	}
	// The page keeps its filter from page to page.
	seen, path := 0, "/audit?who=root&kind=admin&what=block"
	for pages := 0; path != ""; pages++ {
		status, _, body := c.get(t, path)
		if status != http.StatusOK || pages > 2 {
			t.Fatalf("%s: %d\n%s", path, status, body)
		}
		seen += strings.Count(body, "/lookup?address=198.51.100.")
		older := linkTo(body, "Older")
		if older != "" && (!strings.Contains(older, "who=root") || !strings.Contains(older, "what=block") || !strings.Contains(older, "before=")) {
			t.Errorf("the next page is %s", older)
		}
		path = older
	}
	if seen != 60 {
		t.Errorf("%d rows on the pages, want 60", seen)
	}
	if status, _, body := c.get(t, "/audit?since=last+tuesday"); status != http.StatusBadRequest || !strings.Contains(body, "From: cannot read &#34;last tuesday&#34;. Try 17 Nov 2026 or 7d") || strings.Contains(body, "Nothing was changed") {
		t.Errorf("%d %s", status, body)
	}
	// The API has the same pages, and all of it as a file.
	var page control.AuditPage
	c.mustAsk(t, "GET", "/api/audit?address=198.51.100.0/24&limit=50", "", &page)
	if len(page.Rows) != 50 || page.Next == 0 || page.Rows[0].What != "blocked" {
		t.Errorf("%d rows, next %d", len(page.Rows), page.Next)
	}
	next := page.Next
	page = control.AuditPage{}
	c.mustAsk(t, "GET", fmt.Sprintf("/api/audit?address=198.51.100.0/24&limit=50&before=%d", next), "", &page)
	if len(page.Rows) != 10 || page.Next != 0 {
		t.Errorf("then %d rows, next %d", len(page.Rows), page.Next)
	}
	for query, problem := range map[string]string{"kind=nonsense": "the kinds are: admin, mode", "address=nowhere": "is not an IP address or network", "until=soon": "until: cannot read", "zone=Nowhere/City": "unknown time zone", "format=xml": "must be csv, jsonl or json", "before=x": "not a positive integer"} {
		if status, body := c.ask(t, "GET", "/api/audit?"+query, "", nil); status != http.StatusBadRequest || !strings.Contains(body, problem) {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	_, body := c.ask(t, "GET", "/api/audit?format=jsonl&realm=default&who=root", "", nil)
	lines := strings.Split(strings.TrimSpace(body), "\n")
	var one control.Event
	if err := json.Unmarshal([]byte(lines[0]), &one); len(lines) != 61 || err != nil || one.Decision != "audit-export" || one.Detail != "jsonl who=root" { // who takes the file is in it
		t.Errorf("%d lines, %v: %s", len(lines), err, lines[0])
	}
	if what, _, _ := c.recorded(t); what != "audit-export" {
		t.Errorf("on record is %s", what)
	}
	if status, body := c.ask(t, "GET", "/api/audit?format=jsonl&account=nobody", "", nil); status != http.StatusOK || body != "" {
		t.Errorf("nothing as a file: %d %q", status, body)
	}
}

// No cell of the file begins a formula, none begins a line, and each name is there in full.
func TestNoCellOfTheExportIsAFormula(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.attacked(t)
	status, body := o.ask(t, "GET", "/api/audit?format=csv", "", nil)
	if status != http.StatusOK || strings.Count(body, "\r\n") != strings.Count(body, "\n") {
		t.Fatalf("%d, and lines end otherwise than RFC 4180 says", status)
	}
	rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if err != nil || !slices.Equal(rows[0], control.AuditColumns()) || len(rows) != 1+2*len(hostileNames)+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	names := map[string]bool{}
	for _, row := range rows[1:] {
		names[row[7]] = true
		for i, cell := range row {
			if cell != "" && strings.ContainsRune("=+-@\t\r\n＝", []rune(cell)[0]) {
				t.Errorf("%s is the formula %q", rows[0][i], cell)
			}
		}
	}
	for _, want := range []string{"<img src=x onerror=alert(1)>", "'=cmd()", "'+1+1", "'-2", "'@SUM(A1)", `\t=1`, `a\nb,c"d`, `\u202eexe.gpj`, "'＝1"} {
		if !names[want] {
			t.Errorf("no row is about %q: %.2000s", want, fmt.Sprint(names))
		}
	}
}

// linkTo is where a link with this text leads.
func linkTo(body, text string) string {
	before, _, found := strings.Cut(body, `">`+text+`</a>`)
	if !found {
		return ""
	}
	path, err := url.PathUnescape(strings.ReplaceAll(before[strings.LastIndex(before, `"`)+1:], "&amp;", "&"))
	if err != nil {
		return ""
	}
	return path
}

// A time without a zone is in the zone that the request names: UTC for programs.
func TestAuditTimesAreInTheZoneOfTheRequest(t *testing.T) {
	t.Parallel()
	o := newCounter(t)
	o.must(t, o.api.Audit.Record(t.Context(), operation.Action{Who: "cli:root", What: "block", Subject: "192.0.2.1"}))
	berlin, err := time.LoadLocation("Europe/Berlin")
	o.must(t, err)
	now := o.Clock.Now()
	minuteAgo := now.Add(-time.Minute).In(berlin).Format("2 Jan 2006 15:04")
	for query, want := range map[string]int{
		"since=" + minuteAgo + "&zone=Europe/Berlin": 1,
		"since=" + minuteAgo:                         0, // an hour or two from now
		"since=" + minuteAgo + " CET":                -1,
		"since=today&until=today":                    1, // until the end of the day
		"since=7d&until=yesterday":                   0,
	} {
		status, body := o.ask(t, "GET", "/api/audit?"+strings.ReplaceAll(query, " ", "+"), "", nil)
		if got := strings.Count(body, "192.0.2.1"); want < 0 && status != http.StatusBadRequest || want >= 0 && got != want {
			t.Errorf("%s: %d, %d rows, want %d\n%s", query, status, got, want, body)
		}
	}
}

// At first the page leaves out challenges, which during an attack are most rows; a link shows them.
func TestTheAuditLogHidesChallengesAtFirst(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	now := c.Clock.Now()
	for i, action := range []guard.Action{guard.Challenge, guard.Block} {
		c.api.Audit.Handle([]guard.Event{{At: now, Integration: "login", Account: "carol",
			Address: netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), Action: action,
			Reasons: guard.Reasons{{Cause: guard.ModeOn}, {Cause: guard.KnownClient}}}})
	}
	c.api.Audit.Tick(now)
	c.writeAudit(t)
	for path, want := range map[string]bool{"/audit": false, "/audit?challenges=show": true, "/audit?kind=challenged": true,
		"/audit?what=captcha-mode": true, "/api/audit?challenges=hide": false, "/api/audit": true} {
		_, _, body := c.get(t, path)
		if strings.Contains(body, "198.51.100.0") != want {
			t.Errorf("%s shows challenges: %t\n%s", path, !want, body)
		}
		if path == "/audit" && (!strings.Contains(body, "198.51.100.1") || !strings.Contains(body, `challenges=show`)) {
			t.Error(body)
		}
		if path == "/api/audit" && !strings.Contains(body, `"reason":"CAPTCHA mode, 1 more"`) {
			t.Error(body)
		}
	}
}
