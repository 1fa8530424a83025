package pages

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"authguard/internal/audit"
	"authguard/internal/control"
	"authguard/internal/events"
)

// AuditView is the page of the audit log. Its parameters are those of control.AuditQuery.
type AuditView struct {
	Admin
	Query control.AuditQuery
	control.AuditPage
	// Problem is the error in the query.
	Problem string
}

// AuditRows is how many rows the page reads. It shows repeats as one, and at most auditLines.
const (
	AuditRows  = 100
	auditLines = 25
)

// AuditProblem puts the label of a field before an error in it.
func AuditProblem(text string) string {
	return strings.NewReplacer("Since: ", "From: ", "Until: ", "To: ").Replace(text)
}

// RenderAudit draws the page.
func RenderAudit(v AuditView) ([]byte, error) { return render("audit", v) }

// Frame returns the page's title and script.
func (v AuditView) Frame() frame {
	f := v.Admin.Frame()
	f.Script = "zone.js"
	return f
}

// Asked reports whether a filter is set.
func (v AuditView) Asked() bool {
	q := v.Query
	q.OldestFirst, q.Challenges = false, ""
	return q.String() != ""
}

func (v AuditView) at(path string, more ...string) string {
	q := v.Query.Values()
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] != "" {
			q.Set(more[i], more[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// Older returns the URL of the preceding rows; empty if there are none.
func (v AuditView) Older() string {
	_, next := v.lines()
	if next == 0 {
		return ""
	}
	return v.at("/audit", "realm", v.Elsewhere(), "before", strconv.FormatInt(next, 10))
}

// Chips returns the links to usual ranges, with the other filters.
func (v AuditView) Chips() (all []link) {
	for _, one := range [...]struct{ name, since, until string }{
		{"1 h", "1h", ""}, {"today", "today", ""}, {"yesterday", "yesterday", "yesterday"}, {"7 d", "7d", ""},
	} {
		w := v
		w.Query.Since, w.Query.Until = one.since, one.until
		all = append(all, link{w.at("/audit", "realm", v.Elsewhere()), one.name})
	}
	return all
}

// Current reports whether a link is to this page.
func (v AuditView) Current(l link) bool { return l.Path == v.at("/audit", "realm", v.Elsewhere()) }

// Challenges returns the link that shows or hides challenged attempts; without a name if all rows have one kind.
func (v AuditView) Challenges() link {
	w, name := v, "Hide challenges"
	if w.Query.Challenges = "hide"; v.Query.Challenges == "hide" {
		w.Query.Challenges, name = "show", "Show challenges"
	}
	if v.Query.Kind+v.Query.What != "" && v.Query.Challenges == "" {
		name = ""
	}
	return link{w.at("/audit", "realm", v.Elsewhere()), name}
}

// TypedZone returns the zone of From and To.
func (v AuditView) TypedZone() string {
	if v.Query.Zone == "" || v.Query.Zone == "Local" {
		return v.Zone()
	}
	return v.Query.Zone
}

// Newest returns the URL of the newest matching rows; empty on that page itself.
func (v AuditView) Newest() string {
	if v.Query.Before == 0 {
		return ""
	}
	return v.at("/audit", "realm", v.Elsewhere())
}

// File returns the URL of all matching rows, with challenges, as a file in this format and order.
func (v AuditView) File(format, order string) string {
	v.Query.Challenges = ""
	return v.at("/api/audit", "realm", v.Realm, "format", format, "order", order)
}

// Kinds returns the options of the filter, in groups.
func (v AuditView) Kinds() []choice {
	return []choice{
		{audit.KindAdmin, "Administrator actions"}, {audit.KindMode, "CAPTCHA mode"}, {audit.KindAttack, "Attacks"},
		{audit.KindEvent, "Event limits"},
		{audit.KindAttempt, "All attempts"},
		{events.Succeeded.String(), "Signed in"}, {events.Failed.String(), "Wrong passwords"}, {events.Challenged.String(),
			"Challenged"},
		{events.Refused.String(), "Blocked"}, {events.Waited.String(), "Delayed"}, {events.FakeFailure.String(),
			"Fake failure (password not checked)"}, {events.Abandoned.String(), "Abandoned"},
	}
}

// Events returns the rows, repeats as one.
func (v AuditView) Events() []auditRow {
	all, _ := v.lines()
	return all
}

// lines also returns where the next page begins; 0 for none.
func (v AuditView) lines() (all []auditRow, next int64) {
	for i, e := range v.Rows {
		if last := len(all) - 1; last >= 0 && all[last].repeats(e) {
			all[last].add(e)
			continue
		}
		if len(all) == auditLines {
			return all, v.Rows[i-1].ID
		}
		all = append(all, auditRow{e, v})
	}
	return all, v.Next
}

type auditRow struct {
	control.Event
	view AuditView
}

// repeats reports whether an event differs only in its time.
func (r auditRow) repeats(e control.Event) bool {
	a, b := r.Row, e.Row
	a.ID, a.At, a.Last, a.Count = b.ID, b.At, b.Last, b.Count
	return a == b
}

func (r *auditRow) add(e control.Event) {
	first, last := r.At, cmp.Or(r.Last, r.At)
	for _, at := range []time.Time{e.At, cmp.Or(e.Last, e.At)} {
		if at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	r.At, r.Last, r.Count = first, last, r.Count+e.Count
}

// First returns the time of the first event.
func (r auditRow) First() moment { return newMoment(r.view.Now, r.At) }

// Newest returns the time of the last event.
func (r auditRow) Newest() moment { return newMoment(r.view.Now, cmp.Or(r.Last, r.At)) }

// Long reports whether there is time between the first and the last.
func (r auditRow) Long() bool { return r.Last.Sub(r.At) >= time.Second }

// To returns the look-up URL of the account, with the IP address if it is not a network.
func (r auditRow) To() string { return r.view.LookUpOf(r.Account, r.address()) }

func (r auditRow) address() string {
	if _, err := netip.ParseAddr(r.Address); err != nil {
		return ""
	}
	return r.Address
}

// From returns the look-up URL of the IP address; for a network, its rows in the audit log.
func (r auditRow) From() string {
	if r.address() != "" {
		return r.view.LookUpOf("", r.Address)
	}
	if _, err := netip.ParsePrefix(r.Address); err != nil {
		return ""
	}
	return AuditView{Admin: r.view.Admin, Query: control.AuditQuery{Address: r.Address}}.at("/audit", "realm",
		r.view.Elsewhere())
}

// Note returns the details that What and Why do not show.
func (r auditRow) Note() string {
	switch {
	case r.Kind != audit.KindAttempt:
		return r.Detail
	case r.Sprayed() || r.AtDevice():
		return ""
	}
	return r.Row.Note()
}
