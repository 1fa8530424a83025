package pages

import (
	"net/netip"
	"net/url"
	"slices"

	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/internal/lists"
)

// The operations of an ActView.
const (
	ActBlock  = "block"
	ActAllow  = "allow"
	ActRemove = "remove"
	ActUnlock = "unlock"
)

// ActView is the dialog for operations on an IP address, a network or an account's counters. Its form posts to /list,
// /lists/remove or /unlock, and returns to Back.
type ActView struct {
	Admin
	What string
	// CIDR is the range, Account the account whose counters to reset, Address a client of the account; each may be empty.
	CIDR, Account, Address string
	// Problem is the handler's sentence about an invalid subject.
	Problem  string
	Affected control.Affected
	// Client is the administrator's IP address.
	Client netip.Addr
	// Counters are the limits that have counted failures, and Missing that there is no such account.
	Counters []string
	Missing  bool
}

// RenderAct draws the page.
func RenderAct(v ActView) ([]byte, error) { return render("act", v) }

// Frame returns the page's title and layout.
func (v ActView) Frame() frame { return frame{Title: v.Title() + " · Admin console", Wide: true} }

var actWords = map[string]string{ActBlock: "Block", ActAllow: "Allow", ActRemove: "Remove entry of",
	ActUnlock: "Reset failure counters of"}

// Title returns the operation, with its subject unless that is as typed.
func (v ActView) Title() string {
	switch {
	case v.Subject() == "":
		return "Block or allow"
	case v.What == ActUnlock:
		return "Reset failure counters"
	}
	return actWords[v.What] + " " + v.Subject()
}

// Subject returns what the operation changes.
func (v ActView) Subject() string {
	switch {
	case v.What == ActUnlock && v.Account != "" && v.Address != "":
		return v.Account + " from " + v.Address
	case v.What == ActUnlock && v.Account+v.Address != "":
		return v.Account + v.Address
	}
	if v.Affected.Range.IsSingleIP() {
		return v.Affected.Range.Addr().String()
	}
	return v.CIDR
}

// Words returns the operations in words.
func (ActView) Words() map[string]string { return actWords }

// Action returns the path of the form.
func (v ActView) Action() string {
	return map[string]string{ActBlock: "/list", ActAllow: "/list", ActRemove: "/lists/remove", ActUnlock: "/unlock"}[v.What]
}

// Replaces reports whether a new entry replaces an overlapping one.
func (v ActView) Replaces(e lists.Entry) bool {
	return v.What != ActRemove && e.Prefix == v.Affected.Range
}

// Kinds returns links to the other operations on the same range.
func (v ActView) Kinds() (all []turn) {
	for _, what := range []string{ActBlock, ActAllow, ActRemove, ActUnlock} {
		exists := what != ActRemove || v.Affected.Exactly != nil
		if counted := v.counted(); what == ActUnlock && counted == "" {
			exists = false
		}
		if v.CIDR != "" && exists && what != v.What {
			all = append(all, turn{v.Admin.act(what, v.Account, v.Address, v.CIDR, v.Back), map[string]string{
				ActBlock: "Block", ActAllow: "Allow", ActRemove: "Remove entry", ActUnlock: "Reset failure counters"}[what]})
		}
	}
	return all
}

// counted returns the field of /unlock for the range; empty if no counters are of exactly this range.
func (v ActView) counted() string {
	r := v.Affected.Range
	if !r.IsValid() {
		return ""
	}
	address, network := events.PrefixesOf(r.Addr())
	switch r {
	case network:
		return "network"
	case address:
		return "address"
	}
	return ""
}

// Field returns the name and the value of the subject's field of /unlock.
func (v ActView) Field() (f struct{ Name, Value string }) {
	switch f.Name = v.counted(); f.Name {
	case "network":
		f.Value = v.CIDR
	case "address":
		f.Value = v.Affected.Range.Addr().String()
	}
	return f
}

// LocksOut reports whether the range contains the administrator's own IP address.
func (v ActView) LocksOut() bool { return v.Client.IsValid() && v.Affected.Range.Contains(v.Client) }

// Possible reports whether the operation can be carried out, and helps.
func (v ActView) Possible() bool {
	switch v.What {
	case ActBlock:
		return v.Problem == "" && v.CIDR != "" && !v.LocksOut()
	case ActRemove:
		return v.Affected.Exactly != nil
	case ActUnlock:
		return v.Problem == "" && v.Subject() != "" && !v.Missing
	}
	return v.Problem == "" && v.CIDR != ""
}

const (
	shownAffected = 5
	shownEntries  = 20
)

// Overlapping returns the widest overlapping entries, and MoreEntries counts the others.
func (v ActView) Overlapping() []lists.Entry {
	return v.Affected.Entries[:min(shownEntries, len(v.Affected.Entries))]
}
func (v ActView) MoreEntries() int { return len(v.Affected.Entries) - len(v.Overlapping()) }

// First returns the newest accounts that sign in from the range; More counts the others.
func (v ActView) First() []string {
	return v.Affected.Accounts[:min(shownAffected, len(v.Affected.Accounts))]
}
func (v ActView) More() int { return len(v.Affected.Accounts) - len(v.First()) }

// Act returns the URL of the dialog, which returns to this page. An empty account, address or cidr is left out.
func (a Admin) Act(what, account, address, cidr string) string {
	return a.act(what, account, address, cidr, a.Back)
}

func (a Admin) act(what, account, address, cidr, back string) string {
	q := url.Values{"what": {what}, "back": {back}}
	for name, value := range map[string]string{"account": account, "address": address, "cidr": cidr,
		"realm": a.Elsewhere()} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return "/act?" + q.Encode()
}

// ActKnown reports whether there is such an operation.
func ActKnown(what string) bool {
	return slices.Contains([]string{ActBlock, ActAllow, ActRemove, ActUnlock}, what)
}
