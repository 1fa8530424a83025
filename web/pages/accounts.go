package pages

import (
	"net/url"
	"strings"

	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/control"
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
	case control.InApp:
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
	States []string
	Groups string
	// User is set if this page can change the account.
	User bool
}

// Rows returns the table's rows.
func (v AccountsView) Rows() (all []accountRow) {
	for _, a := range v.Accounts.All {
		row := accountRow{ListedAccount: a, View: v, Groups: strings.Join(a.Account.Groups, ", "), User: a.ID != "" &&
			a.Role != accounts.Admin}
		for _, one := range []struct {
			is    bool
			words string
		}{
			{a.Disabled, "disabled"}, {a.NeedsCode, "verification code required"}, {a.MustChange, "password change required"},
			{a.Code, "verification code issued"},
		} {
			if one.is {
				row.States = append(row.States, one.words)
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
	q := url.Values{}
	for name, value := range map[string]string{"find": v.Query.Find, "sort": sort, "after": after,
		"realm": v.Elsewhere()} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return "/accounts"
	}
	return "/accounts?" + q.Encode()
}
