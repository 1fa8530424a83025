package pages

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/lists"
	"authguard/internal/times"
)

// ListsView shows the allowlist, the blocklist and the IP lists from files. Its parameters are find, verdict, soon and
// page, and remove for a preview; its forms post to /lists/import, /lists/prolong, /lists/remove and /lists/unlist.
type ListsView struct {
	Admin
	Query lists.Query
	lists.Listed
	Page int // from 1
	// Add is the content of the form for new entries.
	Add ListsForm
	// Selected are the ranges whose removal is previewed.
	Selected []string
	// Plan is the preview of an import; nil for none.
	Plan *lists.Plan
	// Problem is the error in the whole form.
	Problem string
}

// A ListsForm is the input of the form for new entries.
type ListsForm struct{ Text, Verdict, For, Note string }

// RenderLists draws the page.
func RenderLists(v ListsView) ([]byte, error) { return render("lists", v) }

const perPage = 25

// Shown returns the entries of the page.
func (v ListsView) Shown() (all []listEntry) {
	first := min((v.page()-1)*perPage, len(v.Entries))
	for _, e := range v.Entries[first:min(first+perPage, len(v.Entries))] {
		all = append(all, listEntry{e, v.Admin})
	}
	return all
}

func (v ListsView) page() int { return min(max(v.Page, 1), v.last()) }

func (v ListsView) last() int { return max(1, (len(v.Entries)+perPage-1)/perPage) }

// Removed returns the selected entries of the whole result.
func (v ListsView) Removed() (all []listEntry) {
	for _, e := range v.Entries {
		if slices.Contains(v.Selected, e.Prefix.String()) {
			all = append(all, listEntry{e, v.Admin})
		}
	}
	return all
}

// Ranges returns the ranges of entries for a form.
func (v ListsView) Ranges(all []listEntry) string {
	var texts []string
	for _, e := range all {
		texts = append(texts, e.Prefix.String())
	}
	return strings.Join(texts, " ")
}

// Picked reports whether an entry is selected.
func (v ListsView) Picked(e listEntry) bool { return slices.Contains(v.Selected, e.Prefix.String()) }

type listEntry struct {
	lists.Entry
	Admin Admin
}

// Blocks reports whether the entry is on the blocklist.
func (e listEntry) Blocks() bool { return e.Verdict == lists.Block }

// Range returns the range; a single IP address without its prefix length.
func (e listEntry) Range() string { return rangeText(e.Prefix) }

func rangeText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

type turn struct{ URL, Text string }

// Turns returns the links to the previous and next page.
func (v ListsView) Turns() (all []turn) {
	if p := v.page(); p > 1 {
		all = append(all, turn{v.at(p - 1), "Previous"})
	}
	if p := v.page(); p < v.last() {
		all = append(all, turn{v.at(p + 1), "Next"})
	}
	return all
}

// Where returns the number of the page.
func (v ListsView) Where() string { return fmt.Sprintf("Page %d of %d", v.page(), v.last()) }

func (v ListsView) at(page int) string {
	q := url.Values{}
	for name, value := range map[string]string{"realm": events.RealmName(v.Realm), "find": v.Query.Find,
		"verdict": string(v.Query.Verdict)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if v.Query.Soon {
		q.Set("soon", "true")
	}
	if page > 1 {
		q.Set("page", fmt.Sprint(page))
	}
	if len(q) == 0 {
		return "/lists"
	}
	return "/lists?" + q.Encode()
}

// Asked reports whether a filter is set.
func (v ListsView) Asked() bool { return v.Query != lists.Query{} }

// Answer returns which entry decides for the IP address that was searched for; empty without one.
func (v ListsView) Answer() string {
	switch {
	case !v.Address.IsValid():
		return ""
	case len(v.Entries) > 0 && v.Query.Verdict == "" && !v.Query.Soon:
		e := v.Entries[0]
		if e.Verdict == lists.Block {
			return "Blocked by " + rangeText(e.Prefix) + "."
		}
		return "Allowed by " + rangeText(e.Prefix) + "."
	case len(v.Found) > 0:
		for _, l := range v.Named {
			if l.Name == v.Found[0] {
				return "On the list " + l.Name + ": " + NamedListView{l}.Does() + "."
			}
		}
	}
	return "Not on any list. The usual limits apply."
}

// Lists returns the IP lists from files.
func (v ListsView) Lists() (all []NamedListView) {
	for _, l := range v.Named {
		all = append(all, NamedListView{l})
	}
	return all
}

// Outcome describes what an import would do.
func (v ListsView) Outcome() string {
	p := v.Plan
	does, until := "blocked", "permanently"
	if p.Verdict == lists.Allow {
		does = "allowed"
	}
	if !p.Expires.IsZero() {
		until = "for " + guard.Spell(p.Expires.Sub(v.Now))
	}
	text := fmt.Sprintf("%s will be %s %s", events.Count(p.Ranges(), "range"), does, until)
	if p.Replaced > 0 {
		text += fmt.Sprintf(": %d new, %d replacing an existing entry", p.New, p.Replaced)
	}
	if p.Twice > 0 {
		text += "; " + events.Count(p.Twice, "duplicate") + " skipped"
	}
	return text + "."
}

// Safe returns how many ranges lock out neither the administrator nor the clients behind a proxy.
func (v ListsView) Safe() int { return v.Plan.Ranges() - v.Plan.Doubtful }

// Import names what the button of the preview does, with the doubtful ranges or without.
func (v ListsView) Import(all bool) string {
	p, does := v.Plan, "Block"
	if p.Verdict == lists.Allow {
		does = "Allow"
	}
	n := v.Safe()
	if all {
		n = p.Ranges()
	}
	text := does + " " + events.Count(n, "range")
	if one := p.Only(); one.IsValid() {
		text = does + " " + rangeText(one)
	}
	if !p.Expires.IsZero() {
		text += " until " + times.Text(p.Expires.In(v.Now.Location()))
	} else {
		text += " permanently"
	}
	if left := p.LeftOut(!all); left != "" {
		text += ", leave out " + left
	}
	switch {
	case all && p.Own:
		text += ", and lock yourself out"
	case all:
		text += ", and all clients behind your proxy"
	}
	return text
}

// MoreBad returns how many further lines have errors.
func (v ListsView) MoreBad() int { return v.Plan.Bad - len(v.Plan.Problems) }

// MoreWarned returns how many further lines have warnings.
func (v ListsView) MoreWarned() int { return v.Plan.Warned - len(v.Plan.Warnings) }

type choice struct{ Value, Text string }

// Times returns the lifetimes that an entry can have, the default first.
func (Admin) Times() []choice {
	return []choice{{"168h", "1 week"}, {"24h", "1 day"}, {"720h", "30 days"}, {"8760h", "1 year"},
		{"forever", "permanent"}}
}

// A NamedListView is one IP list from a file.
type NamedListView struct {
	lists.NamedList
}

// Does describes what the list does to logins from its ranges.
func (l NamedListView) Does() string {
	switch l.Then {
	case "block":
		return "blocks every attempt"
	case "allow":
		return "exempt from IP address and network limits and from CAPTCHA mode"
	}
	return strings.Join(l.Limits, ", ")
}
