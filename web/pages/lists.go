package pages

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"authguard/guard"
	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/internal/lists"
)

// ListsView is the page of the allow and block lists, and the named lists. It asks for
// itself with find, verdict, soon and page; its forms post to /lists/import,
// /lists/prolong and /lists/remove.
type ListsView struct {
	Admin
	Query control.ListQuery
	control.Listed
	Page int // from 1
	// Add is what stands in the form for new entries.
	Add ListsForm
	// Plan is what an import would do; nil: none was asked for.
	Plan *control.ListPlan
	// Problem is what is wrong with the form as a whole.
	Problem string
}

// A ListsForm is what was typed into the form for new entries.
type ListsForm struct{ Text, Verdict, For, Note string }

// RenderLists draws the page.
func RenderLists(v ListsView) ([]byte, error) { return render("lists", v) }

// perPage is how many entries one page shows.
const perPage = 15

// Shown are the entries of the page.
func (v ListsView) Shown() (all []listEntry) {
	first := min((v.page()-1)*perPage, len(v.Entries))
	for _, e := range v.Entries[first:min(first+perPage, len(v.Entries))] {
		all = append(all, listEntry{e, v.Admin})
	}
	return all
}

func (v ListsView) page() int { return min(max(v.Page, 1), v.last()) }

// last is how many pages there are.
func (v ListsView) last() int { return max(1, (len(v.Entries)+perPage-1)/perPage) }

// A listEntry is one row.
type listEntry struct {
	lists.Entry
	Admin Admin
}

// Blocks reports whether it is on the block list.
func (e listEntry) Blocks() bool { return e.Verdict == lists.Block }

// Range is the range as people write it: an address alone without its length.
func (e listEntry) Range() string { return rangeText(e.Prefix) }

func rangeText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// A turn is a link to another page of the table.
type turn struct{ URL, Text string }

// Turns lead to the pages before and after.
func (v ListsView) Turns() (all []turn) {
	if p := v.page(); p > 1 {
		all = append(all, turn{v.at(p - 1), "Previous"})
	}
	if p := v.page(); p < v.last() {
		all = append(all, turn{v.at(p + 1), "Next"})
	}
	return all
}

// Where says which part of the table is shown.
func (v ListsView) Where() string { return fmt.Sprintf("Page %d of %d", v.page(), v.last()) }

// at is the page's own URL, of another part of the table.
func (v ListsView) at(page int) string {
	q := url.Values{}
	for name, value := range map[string]string{"realm": events.RealmName(v.Realm), "find": v.Query.Find, "verdict": string(v.Query.Verdict)} {
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

// Asked reports whether not all entries are shown.
func (v ListsView) Asked() bool { return v.Query != control.ListQuery{} }

// Answer says what decides for the address that was looked for; empty if none was.
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

// Lists are the named lists.
func (v ListsView) Lists() (all []NamedListView) {
	for _, l := range v.Named {
		all = append(all, NamedListView{l})
	}
	return all
}

// Broken reports whether the file of a named list is not in force.
func (v ListsView) Broken() bool {
	for _, l := range v.Named {
		if l.Kept != "" {
			return true
		}
	}
	return false
}

// Outcome is what an import would do, in a sentence.
func (v ListsView) Outcome() string {
	p := v.Plan
	does, until := "blocked", "permanently"
	if p.Verdict == lists.Allow {
		does = "allowed"
	}
	if !p.Expires.IsZero() {
		until = "for " + guard.Spell(p.Expires.Sub(v.Now))
	}
	text := fmt.Sprintf("%s will be %s %s", countWords(p.Ranges(), "range"), does, until)
	if p.Replaced > 0 {
		text += fmt.Sprintf(": %d new, %d replacing an existing entry", p.New, p.Replaced)
	}
	if p.Twice > 0 {
		text += "; " + countWords(p.Twice, "duplicate") + " skipped"
	}
	return text + "."
}

// MoreBad and MoreWarned are how many lines are not named one by one.
func (v ListsView) MoreBad() int { return v.Plan.Bad - len(v.Plan.Problems) }

// MoreWarned is how many further lines there is a doubt about.
func (v ListsView) MoreWarned() int { return v.Plan.Warned - len(v.Plan.Warnings) }

// Count is a number of things in words: "1 range", "2 ranges".
func Count(n int, noun string) string { return countWords(n, noun) }

// A choice is one option of how long.
type choice struct{ Value, Text string }

// Times are how long an entry may last, the usual one first.
func (Admin) Times() []choice {
	return []choice{{"168h", "1 week"}, {"24h", "1 day"}, {"720h", "30 days"}, {"8760h", "1 year"}, {"forever", "permanent"}}
}

// A NamedListView is one named list.
type NamedListView struct {
	control.NamedList
}

// Does is what becomes of logins from there.
func (l NamedListView) Does() string {
	switch l.Then {
	case "block":
		return "blocks every attempt"
	case "allow":
		return "exempt from IP address and network limits and from CAPTCHA mode"
	}
	return strings.Join(l.Limits, ", ")
}
