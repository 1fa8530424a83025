package lists

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/gaissmai/bart"

	"authguard/internal/events"
	"authguard/internal/operation"
	"authguard/internal/times"
)

// The limits of an import.
const (
	// MaxImport is the maximum size of the text, in bytes.
	MaxImport = 1 << 20
	// MaxImported is the maximum number of ranges.
	MaxImported = 10_000
)

// An Import is a parsed text with one range per line and optional notes.
type Import struct {
	Items    []Item
	Problems []LineProblem // of all invalid lines
	Twice    int           // duplicates of earlier ranges
}

// An Item is one range of an Import.
type Item struct {
	Line   int
	Prefix netip.Prefix
	Note   string
}

// ReadImport parses a text in the format Plain. Lines beyond MaxImported are invalid.
func ReadImport(text string) (i Import) {
	if len(text) > MaxImport {
		i.Problems = []LineProblem{{1,
			fmt.Sprintf("the text is larger than %d KiB: import it in parts, or configure the file as a named list",
				MaxImport>>10)}}
		return i
	}
	seen := map[netip.Prefix]bool{}
	_ = eachLine(strings.NewReader(text), Layout{Format: Plain}, true, func(l line, err error) { // a string has no errors
		switch {
		case err == nil && len(l.note) > MaxNote:
			err = fmt.Errorf("its note is longer than %d bytes", MaxNote)
		case err == nil:
			err = Request{Prefix: netip.MustParsePrefix("0.0.0.0/1"), Verdict: Block, Note: l.note}.Validate()
		}
		if err == nil && len(i.Items)+len(l.ranges) > MaxImported {
			err = fmt.Errorf("exceeds the %d ranges that can be imported at once: configure the file as a named list",
				MaxImported)
		}
		if err != nil {
			i.Problems = append(i.Problems, LineProblem{l.number, Words(err)})
			return
		}
		for _, p := range l.ranges {
			if seen[p] {
				i.Twice++
				continue
			}
			seen[p] = true
			i.Items = append(i.Items, Item{l.number, p, l.note})
		}
	})
	return i
}

// ImportLists allows or blocks many ranges in one change, with one row in the audit log. DryRun only returns the plan. An
// invalid line stops the import unless SkipBad skips such lines; a range with every address is an invalid line.
type ImportLists struct {
	Text    string  `json:"text"` // see ReadImport
	Verdict Verdict `json:"verdict"`
	For     string  `json:"for"`  // a duration or "forever"; default DefaultFor
	Note    string  `json:"note"` // of ranges without one
	SkipBad bool    `json:"skip_bad"`
	// SkipDoubtful leaves out ranges that block From or a configured proxy.
	SkipDoubtful bool   `json:"skip_doubtful"`
	DryRun       bool   `json:"dry_run"`
	From         string `json:"from"` // the IP address that must not lock itself out; default: the administrator's
}

// A Plan is the effect of ImportLists.
type Plan struct {
	Verdict  Verdict       `json:"verdict"`
	Expires  time.Time     `json:"expires,omitzero"` // zero: never
	New      int           `json:"new"`
	Replaced int           `json:"replaced"` // entries of exactly the same range
	Twice    int           `json:"twice"`    // duplicates within the text
	Bad      int           `json:"bad"`
	Problems []LineProblem `json:"problems"` // the first invalid lines
	Doubtful int           `json:"doubtful"` // ranges that block From or a configured proxy
	Own      bool          `json:"own"`      // one of them blocks From
	Warned   int           `json:"warned"`
	Warnings []LineProblem `json:"warnings"` // the first lines to review
	Imported bool          `json:"imported"` // false for a preview

	requests []Request
}

// Ranges returns how many entries are added or replaced.
func (p *Plan) Ranges() int { return p.New + p.Replaced }

// Only returns the range of a plan that has just one; invalid otherwise.
func (p *Plan) Only() (one netip.Prefix) {
	if len(p.requests) == 1 {
		one = p.requests[0].Prefix
	}
	return one
}

const shownLines = 100

func (q ImportLists) request(who string) (r Request, err error) {
	r = Request{Verdict: q.Verdict, Note: q.Note, By: who, Prefix: netip.MustParsePrefix("192.0.2.0/24")}
	if q.Verdict != Allow && q.Verdict != Block {
		return r, fmt.Errorf("%w: verdict: must be allow or block, not %.20q", operation.ErrAsked, q.Verdict)
	}
	if r.For, r.Forever, err = listedFor(q.For); err != nil {
		return r, err
	}
	if err := r.Validate(); err != nil {
		return r, fmt.Errorf("%w: %w", operation.ErrAsked, err)
	}
	return r, nil
}

// plan previews an import and changes nothing.
func (t *Table) plan(ctx context.Context, by operation.By, q ImportLists) (*Plan, error) {
	one, err := q.request(by.Who)
	if err != nil {
		return nil, err
	}
	from, err := operation.AddressOf(q.From)
	if err != nil {
		return nil, err
	}
	if !from.IsValid() {
		from = by.Address
	}
	entries, err := t.All(ctx, by.Now)
	if err != nil {
		return nil, err
	}
	read := ReadImport(q.Text)
	p := &Plan{Verdict: q.Verdict, Twice: read.Twice, Bad: len(read.Problems), Warnings: []LineProblem{},
		Problems: append([]LineProblem{}, read.Problems[:min(len(read.Problems), shownLines)]...)}
	if !one.Forever {
		p.Expires = by.Now.Add(cmp.Or(one.For, DefaultFor))
	}
	known := newListed(entries)
	for _, item := range read.Items {
		one.Prefix, one.Note = item.Prefix, cmp.Or(item.Note, q.Note)
		own := one.locksOut(from)
		doubtful := own || one.Verdict == Block && len(t.proxiesIn(one.Prefix)) > 0
		if doubtful {
			p.Doubtful++
			p.Own = p.Own || own
		}
		_, replaced := known.all.Get(item.Prefix)
		switch {
		case doubtful && q.SkipDoubtful:
		case replaced:
			p.Replaced++
			p.requests = append(p.requests, one)
		default:
			p.New++
			p.requests = append(p.requests, one)
		}
		if why := t.doubts(known, one, from); why != "" {
			if p.Warned++; len(p.Warnings) < shownLines {
				p.Warnings = append(p.Warnings, LineProblem{Line: item.Line, Text: item.Prefix.String() + " " + why})
			}
		}
	}
	return p, nil
}

type listed struct{ all bart.Table[Entry] }

func newListed(entries []Entry) *listed {
	l := new(listed)
	for _, e := range entries {
		l.all.Insert(e.Prefix, e)
	}
	return l
}

func (t *Table) doubts(known *listed, r Request, from netip.Addr) string {
	var all []string
	add := func(text string, args ...any) { all = append(all, fmt.Sprintf(text, args...)) }
	if r.locksOut(from) {
		add("contains your own IP address %s: you would lock yourself out of the site", from.Unmap().WithZone(""))
	}
	for _, proxy := range t.proxiesIn(r.Prefix) {
		add("contains the configured proxy %s", proxy)
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

// proxiesIn returns the configured proxies within a range.
func (t *Table) proxiesIn(p netip.Prefix) (all []netip.Prefix) {
	if t.Direct == nil {
		return nil
	}
	for _, proxy := range t.Direct() {
		if proxy.Overlaps(p) {
			all = append(all, proxy)
		}
	}
	return all
}

// Do implements Request.
func (q ImportLists) Do(ctx context.Context, t *Table, by operation.By) (*operation.Change, error) {
	p, err := t.plan(ctx, by, q)
	switch {
	case err != nil:
		return nil, err
	case q.DryRun:
		return &operation.Change{Answer: p, Preview: true}, nil
	case p.Bad > 0 && !q.SkipBad:
		return nil, fmt.Errorf("%w: nothing was imported: %s", operation.ErrAsked, badLines(p))
	case len(p.requests) == 0:
		return nil, fmt.Errorf("%w: no ranges to import", operation.ErrAsked)
	}
	undo, note, err := t.undoImport(ctx, p, by)
	if err != nil {
		return nil, err
	}
	if _, err := t.AddAll(ctx, p.requests, by.Now); err != nil {
		return nil, err
	}
	p.Imported = true
	left := p.LeftOut(q.SkipDoubtful)
	notice := p.notice(by.Now, left)
	notice.Note = strings.TrimSpace(notice.Note + " " + note)
	detail := fmt.Sprintf("%d ranges, %s", len(p.requests), until(p.Expires))
	if left != "" {
		detail += ", " + left + " skipped"
	}
	return &operation.Change{Answer: p, Undo: undo, Notice: notice, Action: operation.Action{What: string(q.Verdict) + "-import", Detail: detail,
			Why: q.Note}},
		t.applied(ctx, by.Now, "the entries are saved and apply")
}

func badLines(p *Plan) string {
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

// undoImport returns the request that removes what an import added, and what it does not restore.
func (t *Table) undoImport(ctx context.Context, p *Plan, by operation.By) (undo any, note string, err error) {
	if len(p.requests) == 1 {
		undo, err = t.restoring(ctx, p.requests[0].Prefix, by.Now)
		return undo, "", err
	}
	if p.Replaced > 0 {
		note = "Undo does not restore " + events.Count(p.Replaced, "replaced entry") + "."
	}
	return &UnlistMany{Created: times.RFC3339(by.Now), Who: by.Who, Because: operation.Because{Reason: operation.Undone}},
		note, nil
}

// notice is the outcome of an import.
func (p *Plan) notice(now time.Time, leftOut string) (n operation.Notice) {
	did := listedWords(p.Verdict, p.Expires, now)
	n.Text = did + ": " + events.Count(len(p.requests), "range") + "."
	if len(p.requests) == 1 {
		n.Text, n.Subject = did+":", p.requests[0].Prefix.String()
	}
	if leftOut != "" {
		n.Note = "Left out: " + leftOut + "."
	}
	return n
}

// LeftOut names what an import skips, with the doubtful ranges or without; empty for nothing.
func (p *Plan) LeftOut(doubtful bool) string {
	var all []string
	if p.Bad > 0 {
		all = append(all, events.Count(p.Bad, "invalid line"))
	}
	if doubtful && p.Doubtful > 0 {
		all = append(all, events.Count(p.Doubtful, "doubtful range"))
	}
	return strings.Join(all, " and ")
}
