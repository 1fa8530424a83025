package control

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/gaissmai/bart"

	"authguard/internal/audit"
	"authguard/internal/lists"
)

// ImportLists allows or blocks many ranges in one change, with one row in the audit log. DryRun only returns the plan. An
// invalid line stops the import unless SkipBad skips such lines; a range with every address is an invalid line.
type ImportLists struct {
	Text    string        `json:"text"` // see lists.ReadImport
	Verdict lists.Verdict `json:"verdict"`
	For     string        `json:"for"`  // a duration or "forever"; default lists.DefaultFor
	Note    string        `json:"note"` // of ranges without one
	SkipBad bool          `json:"skip_bad"`
	DryRun  bool          `json:"dry_run"`
	From    string        `json:"from"` // the IP address that must not lock itself out; empty if unknown
}

// A ListPlan is the effect of a ListImport.
type ListPlan struct {
	Verdict  lists.Verdict       `json:"verdict"`
	Expires  time.Time           `json:"expires,omitzero"` // zero: never
	New      int                 `json:"new"`
	Replaced int                 `json:"replaced"` // entries of exactly the same range
	Twice    int                 `json:"twice"`    // duplicates within the text
	Bad      int                 `json:"bad"`
	Problems []lists.LineProblem `json:"problems"` // the first invalid lines
	Warned   int                 `json:"warned"`
	Warnings []lists.LineProblem `json:"warnings"` // the first lines to review
	Imported bool                `json:"imported"` // false for a preview

	requests []lists.Request
}

// Ranges returns how many entries are added or replaced.
func (p *ListPlan) Ranges() int { return p.New + p.Replaced }

const shownLines = 100

func (q ImportLists) request(who string) (r lists.Request, err error) {
	r = lists.Request{Verdict: q.Verdict, Note: q.Note, By: who, Prefix: netip.MustParsePrefix("192.0.2.0/24")}
	if q.Verdict != lists.Allow && q.Verdict != lists.Block {
		return r, fmt.Errorf("%w: verdict: must be allow or block, not %.20q", ErrAsked, q.Verdict)
	}
	if r.For, r.Forever, err = listedFor(q.For); err != nil {
		return r, err
	}
	if err := r.Validate(); err != nil {
		return r, fmt.Errorf("%w: %w", ErrAsked, err)
	}
	return r, nil
}

// PlanLists previews an import and changes nothing.
func (c *Control) PlanLists(ctx context.Context, who string, q ImportLists) (*ListPlan, error) {
	one, err := q.request(who)
	if err != nil {
		return nil, err
	}
	from, err := AddressOf(q.From)
	if err != nil {
		return nil, err
	}
	entries, err := c.Listings(ctx)
	if err != nil {
		return nil, err
	}
	read := lists.ReadImport(q.Text)
	p := &ListPlan{Verdict: q.Verdict, Twice: read.Twice, Bad: len(read.Problems), Warnings: []lists.LineProblem{},
		Problems: append([]lists.LineProblem{}, read.Problems[:min(len(read.Problems), shownLines)]...)}
	if !one.Forever {
		p.Expires = c.config.Now().Add(cmp.Or(one.For, lists.DefaultFor))
	}
	known := newListed(entries)
	for _, item := range read.Items {
		one.Prefix, one.Note = item.Prefix, cmp.Or(item.Note, q.Note)
		p.requests = append(p.requests, one)
		if _, replaced := known.all.Get(item.Prefix); replaced {
			p.Replaced++
		} else {
			p.New++
		}
		if why := c.doubts(known, one, from); why != "" {
			if p.Warned++; len(p.Warnings) < shownLines {
				p.Warnings = append(p.Warnings, lists.LineProblem{Line: item.Line, Text: item.Prefix.String() + " " + why})
			}
		}
	}
	return p, nil
}

type listed struct{ all bart.Table[lists.Entry] }

func newListed(entries []lists.Entry) *listed {
	l := new(listed)
	for _, e := range entries {
		l.all.Insert(e.Prefix, e)
	}
	return l
}

func (c *Control) doubts(known *listed, r lists.Request, from netip.Addr) string {
	var all []string
	add := func(text string, args ...any) { all = append(all, fmt.Sprintf(text, args...)) }
	if from = from.Unmap().WithZone(""); r.Verdict == lists.Block && r.Prefix.Contains(from) {
		add("contains your own IP address %s: you would lock yourself out of the site", from)
	}
	if c.config.Direct != nil {
		for _, proxy := range c.config.Direct() {
			if proxy.Overlaps(r.Prefix) {
				add("contains the configured proxy %s", proxy)
			}
		}
	}
	for p, e := range known.all.Supernets(r.Prefix) {
		if e.Verdict == r.Verdict && p != r.Prefix {
			continue
		}
		switch {
		case p == r.Prefix && e.Verdict != r.Verdict:
			add("replaces the %s entry of the same range", e.Verdict)
		case p != r.Prefix:
			add("is within %s, which is on the other list (%s): the more specific entry applies", p, e.Verdict)
		}
	}
	others := 0
	for p, e := range known.all.Subnets(r.Prefix) {
		if e.Verdict != r.Verdict && p != r.Prefix {
			if others++; others <= 3 {
				add("contains %s, which stays on the other list (%s)", p, e.Verdict)
			}
		}
	}
	if others > 3 {
		add("and %d more entries of the other list", others-3)
	}
	return strings.Join(all, "; ")
}

// Do implements Request.
func (q ImportLists) Do(ctx context.Context, c *Control, by By) (*Change, error) {
	p, err := c.PlanLists(ctx, by.Who, q)
	switch {
	case err != nil:
		return nil, err
	case q.DryRun:
		return &Change{Answer: p, Preview: true}, nil
	case p.Bad > 0 && !q.SkipBad:
		return nil, fmt.Errorf("%w: nothing was imported: %s", ErrAsked, badLines(p))
	case len(p.requests) == 0:
		return nil, fmt.Errorf("%w: no ranges to import", ErrAsked)
	}
	if _, err := c.config.Listings.AddAll(ctx, p.requests, c.config.Now()); err != nil {
		return nil, err
	}
	p.Imported = true
	detail := fmt.Sprintf("%d ranges, %s", len(p.requests), until(p.Expires))
	if p.Bad > 0 {
		detail += fmt.Sprintf(", %d invalid lines skipped", p.Bad)
	}
	return &Change{Answer: p, Action: audit.Action{What: string(q.Verdict) + "-import", Detail: detail, Why: q.Note}},
		c.listsChanged(ctx, "the entries are saved and apply")
}

func badLines(p *ListPlan) string {
	var all []string
	for _, one := range p.Problems[:min(len(p.Problems), 5)] {
		all = append(all, fmt.Sprintf("line %d %s", one.Line, one.Text))
	}
	text := strings.Join(all, "; ")
	if more := p.Bad - len(all); more > 0 {
		text += fmt.Sprintf("; and %d more lines are invalid", more)
	}
	return text
}
