package pages

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"authguard/internal/audit"
	"authguard/internal/control"
	"authguard/internal/events"
)

// AuditView is the page of the audit log. It asks for itself with what control.AuditQuery
// has.
type AuditView struct {
	Admin
	Query control.AuditQuery
	control.AuditPage
	// Problem is what is wrong with the query.
	Problem string
}

// AuditRows is how many rows the page shows.
const AuditRows = 25

// RenderAudit draws the page.
func RenderAudit(v AuditView) ([]byte, error) { return render("audit", v) }

// Asked reports whether not all rows are shown.
func (v AuditView) Asked() bool {
	q := v.Query
	q.OldestFirst = false
	return q.String() != ""
}

// Further reports whether older ones were not looked for.
func (v AuditView) Further() bool { return !v.Searched.IsZero() }

// at is a path with the query, and what else.
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

// Older is the page with what came before; empty: nothing did.
func (v AuditView) Older() string {
	if v.Next == 0 {
		return ""
	}
	return v.at("/audit", "realm", v.Elsewhere(), "before", strconv.FormatInt(v.Next, 10))
}

// Newest is the page with the newest of them; empty: this is it.
func (v AuditView) Newest() string {
	if v.Query.Before == 0 {
		return ""
	}
	return v.at("/audit", "realm", v.Elsewhere())
}

// File is all that matches as a file, of the realm that is shown, the newest or the oldest
// first.
func (v AuditView) File(format, order string) string {
	return v.at("/api/audit", "realm", v.Realm, "format", format, "order", order)
}

// Kinds are what may be chosen, in groups.
func (v AuditView) Kinds() []choice {
	return []choice{
		{audit.KindAdmin, "Administrator actions"}, {audit.KindMode, "CAPTCHA mode"}, {audit.KindEvent, "Event limits"}, {audit.KindAttempt, "All attempts"},
		{events.Succeeded.String(), "Signed in"}, {events.Failed.String(), "Wrong passwords"}, {events.Challenged.String(), "Challenged"},
		{events.Refused.String(), "Blocked"}, {events.Waited.String(), "Delayed"}, {events.FakeFailure.String(), "Fake failure (password not checked)"}, {events.Abandoned.String(), "Abandoned"},
	}
}

// Events are the rows.
func (v AuditView) Events() (all []auditRow) {
	for _, e := range v.Rows {
		all = append(all, auditRow{e, v})
	}
	return all
}

// An auditRow is one event.
type auditRow struct {
	control.Event
	view AuditView
}

// Moment is when it was, in UTC.
func (r auditRow) Moment() moment {
	m := newMoment(r.view.Now, r.At)
	m.Text = r.At.UTC().Format("2 Jan 2006 15:04:05")
	return m
}

// Until is the last of several; empty for one.
func (r auditRow) Until() string {
	if r.Last.IsZero() || r.Last.Sub(r.At) < time.Second {
		return ""
	}
	return r.Last.UTC().Format("15:04:05")
}

// To is where the account is looked up, with the address if it is one.
func (r auditRow) To() string { return r.view.LookUpOf(r.Account, r.address()) }

func (r auditRow) address() string {
	if _, err := netip.ParseAddr(r.Address); err != nil {
		return ""
	}
	return r.Address
}

// From is where the address is looked up: of a network, what else is on record.
func (r auditRow) From() string {
	if r.address() != "" {
		return r.view.LookUpOf("", r.Address)
	}
	if _, err := netip.ParsePrefix(r.Address); err != nil {
		return ""
	}
	return AuditView{Admin: r.view.Admin, Query: control.AuditQuery{Address: r.Address}}.at("/audit", "realm", r.view.Elsewhere())
}

// Note is what else is known, without what What and Why say.
func (r auditRow) Note() string {
	if r.Kind == audit.KindAttempt {
		_, note, _ := strings.Cut(strings.TrimSuffix(r.Detail, ", summed up"), ", ")
		if r.Sprayed() || r.AtDevice() {
			return ""
		}
		return strings.NewReplacer("privileged place", "known client", "new place", "unknown client").Replace(note)
	}
	return r.Detail
}
