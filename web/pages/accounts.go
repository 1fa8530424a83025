package pages

import (
	"net/url"
	"strings"

	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/control"
	"authguard/internal/events"
)

// AccountsView is one page of a realm's accounts. Its forms post to /accounts/….
type AccountsView struct {
	Admin
	Query    control.AccountsQuery
	Accounts control.Accounts
}

// RenderAccounts draws the page.
func RenderAccounts(v AccountsView) ([]byte, error) { return render("accounts", v) }

// Here reports whether the accounts are in authguard's own table.
func (v AccountsView) Here() bool { return v.Accounts.Kept == "authguard" }

// Where explains where the accounts are if Here is false.
func (v AccountsView) Where() string {
	switch v.Accounts.Kept {
	case accounts.InApp:
		return "The app keeps the accounts and checks their passwords. This page lists the names that were tried, existing " +
			"or not. Manage the accounts in the app."
	case "htpasswd":
		return "The accounts are in an htpasswd file (accounts.source). This page lists the names that were tried. Manage " +
			"the accounts in the file."
	case "ldap":
		return "The accounts are in a directory (accounts.source is ldap). This page lists the names that were tried. " +
			"Manage the accounts there."
	}
	return "The accounts are in another program's table (accounts.source is " + v.Accounts.Kept +
		"). This page lists the names that were tried. Manage the accounts there."
}

// Sorted reports whether the rows are in this order.
func (v AccountsView) Sorted(by string) bool {
	return v.Query.Sort == by || !v.Here() && v.Query.Sort == control.ByName && by == control.ByLast
}

type accountRow struct {
	control.ListedAccount
	View AccountsView
	// States are the account's states, worst first.
	States []accountState
	Groups string
}

type accountState struct{ Words, Class string }

// Chips returns the numbers of accounts by state, as links to these accounts.
func (v AccountsView) Chips() (all []spanLink) {
	n := v.Accounts.Counts
	for _, one := range []struct {
		n           int
		state, name string
	}{
		{n.All, "", events.Count(n.All, "account")}, {n.MustChange, "must-change", comma(n.MustChange) + " must change their password"},
		{n.NeedsCode, "needs-code", comma(n.NeedsCode) + " must enter a verification code"},
		{n.Disabled, "disabled", comma(n.Disabled) + " disabled"},
	} {
		if one.n > 0 && v.Here() {
			path := v.At("/accounts")
			if one.state != "" {
				path = v.link(map[string]string{"state": one.state})
			}
			all = append(all, spanLink{path, one.name, v.Query.State == one.state})
		}
	}
	return all
}

// Rows returns the table's rows.
func (v AccountsView) Rows() (all []accountRow) {
	for _, a := range v.Accounts.All {
		row := accountRow{ListedAccount: a, View: v, Groups: strings.Join(a.Account.Groups, ", ")}
		for _, one := range []struct {
			is    bool
			state accountState
		}{
			{a.Disabled, accountState{"disabled", "calm"}}, {a.NeedsCode, accountState{"verification code required", "wait"}},
			{a.MustChange, accountState{"password change required", "wait"}},
			{a.Code, accountState{"verification code issued", "calm"}},
		} {
			if one.is {
				row.States = append(row.States, one.state)
			}
		}
		all = append(all, row)
	}
	return all
}

// Partial returns how many wrong passwords were counted if there were more, else 0.
func (v AccountsView) Partial() int {
	if v.Accounts.Partial {
		return audit.MostFailing
	}
	return 0
}

// Link returns the URL of the page in another order, or of the following page.
func (v AccountsView) Link(sort, after string) string {
	return v.link(map[string]string{"find": v.Query.Find, "sort": sort, "state": v.Query.State, "after": after})
}

func (v AccountsView) link(fields map[string]string) string {
	q := url.Values{}
	fields["realm"] = v.Elsewhere()
	for name, value := range fields {
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return "/accounts"
	}
	return "/accounts?" + q.Encode()
}
