package pages

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"authguard/internal/audit"
	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/internal/times"
)

// AuditView is the page of the audit log. Its parameters are those of control.AuditQuery.
type AuditView struct {
	Admin
	Query control.AuditQuery
	control.AuditPage
	// Problem is the error in the query.
	Problem string
}

// AuditRows is how many rows the page shows.
const AuditRows = 25

// RenderAudit draws the page.
func RenderAudit(v AuditView) ([]byte, error) { return render("audit", v) }

// Asked reports whether a filter is set.
func (v AuditView) Asked() bool {
	q := v.Query
	q.OldestFirst = false
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
	if v.Next == 0 {
		return ""
	}
	return v.at("/audit", "realm", v.Elsewhere(), "before", strconv.FormatInt(v.Next, 10))
}

// Newest returns the URL of the newest matching rows; empty on that page itself.
func (v AuditView) Newest() string {
	if v.Query.Before == 0 {
		return ""
	}
	return v.at("/audit", "realm", v.Elsewhere())
}

// File returns the URL of all matching rows as a file in this format and order.
func (v AuditView) File(format, order string) string {
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

// Events returns the rows.
func (v AuditView) Events() (all []auditRow) {
	for _, e := range v.Rows {
		all = append(all, auditRow{e, v})
	}
	return all
}

type auditRow struct {
	control.Event
	view AuditView
}

// Moment returns the time of the event in UTC.
func (r auditRow) Moment() moment {
	m := newMoment(r.view.Now, r.At)
	m.Text = times.Text(r.At.UTC())
	return m
}

// Until returns the time of the last of several attempts; empty for one.
func (r auditRow) Until() string {
	if r.Last.IsZero() || r.Last.Sub(r.At) < time.Second {
		return ""
	}
	return times.Text(r.Last.UTC())
}

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
	if r.Kind == audit.KindAttempt {
		_, note, _ := strings.Cut(strings.TrimSuffix(r.Detail, ", summed up"), ", ")
		if r.Sprayed() || r.AtDevice() {
			return ""
		}
		return note
	}
	return r.Detail
}
