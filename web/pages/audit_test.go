package pages

import (
	"strings"
	"testing"
	"time"

	"authguard/internal/audit"
	"authguard/internal/control"
)

// Equal events in a row are one line with their number, and the next page begins after the last that is shown.
func TestTheAuditLogShowsRepeatsAsOneLine(t *testing.T) {
	t.Parallel()
	v := AuditView{Admin: around("/audit"), Query: control.AuditQuery{Zone: "Local", Challenges: "hide"}}
	add := func(account string, times int) {
		for range times {
			id := int64(1000 - len(v.Rows))
			v.Rows = append(v.Rows, control.Event{Reason: "CAPTCHA mode", What: "challenged", Row: audit.Row{ID: id,
				At: noon.Add(-time.Duration(len(v.Rows)) * time.Minute), Kind: audit.KindAttempt, Account: account, Count: 1}})
		}
	}
	add("ann", 19)
	add("bob", 1)
	for i := range 40 {
		add(strings.Repeat("x", i+1), 1)
	}
	v.Next = 7
	rows := v.Events()
	if len(rows) != 25 || rows[0].Count != 19 || rows[1].Count != 1 || rows[0].Account != "ann" || !rows[0].Long() ||
		rows[0].Newest().ISO != "2026-03-14T12:00:30Z" || rows[0].First().ISO != "2026-03-14T11:42:30Z" {
		t.Errorf("%d rows, %+v", len(rows), rows[:2])
	}
	if older := v.Older(); !strings.Contains(older, "before=958") { // 19 + 1 + 23 rows are shown
		t.Error(older)
	}
	page, err := RenderAudit(v)
	for _, want := range []string{"<b>19 ×</b> challenged", ">CAPTCHA mode<", ">yesterday<", "Show challenges",
		"since=yesterday&amp;until=yesterday"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q %v", want, err)
		}
	}
}

// A time within a text is shown like all others.
func TestTimesInTextsAreTimes(t *testing.T) {
	t.Parallel()
	pieces := newLine("blocked until 2026-11-24 03:15:00 UTC, by eve").Pieces
	if len(pieces) != 3 || pieces[1].At.ISO != "2026-11-24T03:15:00Z" || pieces[0].Text != "blocked until " ||
		pieces[2].Text != ", by eve" {
		t.Errorf("%+v", pieces)
	}
}
