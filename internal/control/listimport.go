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

// A ListImport allows or blocks many ranges at once.
type ListImport struct {
	// Request applies to every range; its Prefix, By and Force are ignored, since a range with every address is an invalid
	// line here. Its Note is the default.
	lists.Request
	Text    string     // see lists.ReadImport
	SkipBad bool       // skip invalid lines instead of rejecting the import
	From    netip.Addr // the sender's IP address; zero if unknown
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

// PlanLists previews an import and changes nothing.
func (c *Control) PlanLists(ctx context.Context, q ListImport) (*ListPlan, error) {
	entries, err := c.Listings(ctx)
	if err != nil {
		return nil, err
	}
	read := lists.ReadImport(q.Text)
	p := &ListPlan{Verdict: q.Verdict, Twice: read.Twice, Bad: len(read.Problems),
		Problems: read.Problems[:min(len(read.Problems), shownLines)], Warnings: []lists.LineProblem{}}
	if p.Problems == nil {
		p.Problems = []lists.LineProblem{}
	}
	if !q.Forever {
		p.Expires = c.config.Now().Add(cmp.Or(q.For, lists.DefaultFor))
	}
	one := q.Request
	if one.Prefix = netip.MustParsePrefix("192.0.2.0/24"); one.Validate() != nil {
		return nil, fmt.Errorf("%w: %w", ErrAsked, one.Validate())
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
		if why := c.doubts(known, one, q.From); why != "" {
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

// ImportLists adds all ranges of a text in one change, with one row in the audit log. Without SkipBad an invalid line
// stops it; the error is then ErrAsked with the first such lines.
func (c *Control) ImportLists(ctx context.Context, who string, q ListImport) (*ListPlan, error) {
	q.By = who
	p, err := c.PlanLists(ctx, q)
	switch {
	case err != nil:
		return nil, err
	case p.Bad > 0 && !q.SkipBad:
		return p, fmt.Errorf("%w: nothing was imported: %s", ErrAsked, badLines(p))
	case len(p.requests) == 0:
		return p, fmt.Errorf("%w: no ranges to import", ErrAsked)
	}
	if _, err := c.config.Listings.AddAll(ctx, p.requests, c.config.Now()); err != nil {
		return nil, err
	}
	p.Imported = true
	detail := fmt.Sprintf("%d ranges, %s", len(p.requests), until(p.Expires))
	if p.Bad > 0 {
		detail += fmt.Sprintf(", %d invalid lines skipped", p.Bad)
	}
	recorded := c.record(ctx, audit.Action{Who: who, What: string(q.Verdict) + "-import", Detail: detail, Why: q.Note})
	if err := c.reloadLists(ctx); err != nil {
		return p, fmt.Errorf("control: the entries are saved and apply when the lists can be read again: %w", err)
	}
	return p, recorded
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
