package control

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"authguard/internal/audit"
	"authguard/internal/lists"
	"authguard/internal/operation"
	"authguard/internal/times"
)

// An AuditQuery is a query of the audit log as typed. Empty fields match everything.
type AuditQuery struct {
	Account, Address, Who, Kind, What string
	Since, Until                      string // see times.Parse; the end of Until is exclusive
	Challenges                        string // "hide" leaves out challenged attempts
	Zone                              string // of Since and Until: UTC by default, "Local" for the server's
	OldestFirst                       bool
	Before                            int64
	Limit                             int
}

// AuditQueryOf parses the query of a request. The error is ErrAsked.
func AuditQueryOf(v url.Values) (q AuditQuery, err error) {
	get := func(name string) string { return strings.TrimSpace(v.Get(name)) }
	q = AuditQuery{Account: get("account"), Address: get("address"), Who: get("who"), Kind: get("kind"), What: get("what"),
		Since: get("since"), Until: get("until"), Zone: get("zone"), Challenges: get("challenges")}
	if c := q.Challenges; c != "" && c != "show" && c != "hide" {
		return q, fmt.Errorf("%w: challenges: must be show or hide, not %.20q", operation.ErrAsked, c)
	}
	switch order := get("order"); order {
	case "", "newest":
	case "oldest":
		q.OldestFirst = true
	default:
		return q, fmt.Errorf("%w: order: must be newest or oldest, not %.20q", operation.ErrAsked, order)
	}
	limit := int64(0)
	for name, to := range map[string]*int64{"before": &q.Before, "limit": &limit} {
		if text := get(name); text != "" {
			if *to, err = strconv.ParseInt(text, 10, 63); err != nil || *to < 1 {
				return q, fmt.Errorf("%w: %s: %.20q is not a positive integer", operation.ErrAsked, name, text)
			}
		}
	}
	q.Limit = int(min(limit, audit.MaxLimit))
	return q, nil
}

// An AuditPage is a page of the audit log in the requested order. Its JSON is the answer of GET /api/audit.
type AuditPage struct {
	Rows []Event `json:"audit"`
	// Next is the parameter before of the next page; 0 for none.
	Next int64 `json:"next,omitempty,string"`
}

// Audit returns a page of the audit log, of the realm or of all. Errors are ErrAsked and guard.ErrAccountName.
func (c *Control) Audit(ctx context.Context, q AuditQuery, all bool) (p AuditPage, err error) {
	p.Rows = []Event{}
	f, err := c.auditFilter(q, all)
	if err != nil {
		return p, err
	}
	page, err := c.config.Audit.Page(ctx, f)
	if errors.Is(err, audit.ErrSlow) {
		err = fmt.Errorf("%w: %w", operation.ErrAsked, err)
	}
	for _, row := range page.Rows {
		p.Rows = append(p.Rows, eventOf(row))
	}
	p.Next = page.Next
	return p, err
}

// ExportAudit calls row for every matching row in order, until row fails. The audit log records the export.
func (c *Control) ExportAudit(ctx context.Context, who, format string, q AuditQuery, all bool,
	row func(Event) error) error {
	f, err := c.auditFilter(q, all)
	if err != nil {
		return err
	}
	if err := c.record(ctx, operation.Action{Who: who, What: "audit-export", Detail: strings.TrimSpace(format + " " +
		q.String())}); err != nil {
		return err
	}
	return c.config.Audit.Each(ctx, f, func(r audit.Row) error { return row(eventOf(r)) })
}

// Values returns the query for a URL, without the page.
func (q AuditQuery) Values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"account": q.Account, "address": q.Address, "who": q.Who, "kind": q.Kind,
		"what": q.What, "since": q.Since, "until": q.Until,
		"challenges": q.Challenges} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.OldestFirst {
		v.Set("order", "oldest")
	}
	if q.Zone != "" && q.Since+q.Until != "" {
		v.Set("zone", q.Zone)
	}
	return v
}

// String returns the query on one line.
func (q AuditQuery) String() string {
	var all []string
	for name, values := range q.Values() {
		all = append(all, name+"="+values[0])
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (c *Control) auditFilter(q AuditQuery, all bool) (f audit.Filter, err error) {
	f = audit.Filter{Who: q.Who, Kind: q.Kind, What: q.What, Limit: q.Limit, OldestFirst: q.OldestFirst,
		Unchallenged: q.Challenges == "hide"}
	if f.Before = q.Before; q.OldestFirst { // the page after this one
		f.Before, f.After = 0, q.Before
	}
	if !all {
		f.Realm = c.config.Realm
	}
	if q.Account != "" {
		if f.Account, err = c.Accounts.Canonical(q.Account); err != nil {
			return f, err
		}
	}
	if q.Address != "" {
		if f.Network, err = lists.ParsePrefix(q.Address); err != nil {
			return f, fmt.Errorf("%w: %.60q is not an IP address or network; write it like 203.0.113.9, 203.0.113.0/24 or "+
				"2001:db8::/48", operation.ErrAsked, q.Address)
		}
	}
	if q.Kind != "" && !slices.Contains(audit.Kinds(), q.Kind) {
		return f, fmt.Errorf("%w: unknown kind %.40q; the kinds are: %s", operation.ErrAsked, q.Kind,
			strings.Join(audit.Kinds(), ", "))
	}
	now, err := c.nowIn(q.Zone)
	if err != nil {
		return f, err
	}
	since, err := spanOf("since", q.Since, now)
	if err != nil {
		return f, err
	}
	until, err := spanOf("until", q.Until, now)
	f.Since, f.Until = since.From, until.To
	return f, err
}

// nowIn returns the current time in a zone; see AuditQuery.
func (c *Control) nowIn(zone string) (time.Time, error) {
	now := c.config.Now()
	if zone == "Local" {
		return now, nil
	}
	in, err := time.LoadLocation(zone)
	if err != nil {
		return now, fmt.Errorf("%w: zone: unknown time zone %.40q; write it like Europe/Berlin", operation.ErrAsked, zone)
	}
	return now.In(in), nil
}

func spanOf(name, text string, now time.Time) (times.Span, error) {
	if text == "" {
		return times.Span{}, nil
	}
	span, err := times.Parse(text, now)
	if err != nil {
		err = fmt.Errorf("%w: %s: %w", operation.ErrAsked, name, err)
	}
	return span, err
}

// AuditColumns are the columns of an export.
func AuditColumns() []string {
	return []string{"time", "last", "times", "realm", "kind", "what", "code", "account", "address", "why", "reasons",
		"who", "summed_up", "detail", "id", "fingerprint"}
}

// Cells returns the event as a row of an export. The writer has to defuse spreadsheet formulas.
func (e Event) Cells() []string {
	return []string{
		times.RFC3339(e.At), times.RFC3339(e.Last), strconv.FormatInt(e.Count, 10), e.Realm, e.Kind, e.What, e.Decision,
		e.Account, e.Address,
		strings.Join(e.Why, "; "), e.Reasons, e.Who, strconv.FormatBool(e.Summed), e.Detail, strconv.FormatInt(e.ID, 10),
		e.Identity,
	}
}
