package pages

import (
	"net/url"
	"time"

	"authguard/internal/events"
)

// Admin is what surrounds every page of the administration. A page's view embeds
// it, its template stands between "admin-top" and "admin-bottom", and what it posts
// begins with {{template "form" .Admin}}. The handler gets it from chrome.
type Admin struct {
	// CSRF goes into every form, as a hidden field named csrf.
	CSRF string
	// Path is the page's own; it is marked in the navigation.
	Path string
	// Back is the page as it was asked for: its forms come back to it.
	Back string
	// Realm is the one that is shown, and Realms are the names of all.
	Realm  string
	Realms []string
	// User is who is signed in.
	User string
	// Now is the moment that the page shows; times are in its location.
	Now time.Time
	// Notice is the outcome of the form that was sent last; zero at first.
	Notice Notice
}

// A Notice is the outcome of a form.
type Notice struct {
	// Text is a sentence of the handler's own; empty shows nothing.
	Text string
	// Subject is the account or address it is about, as it was typed; shown
	// after the text.
	Subject string
	// Bad marks an outcome that needs another try.
	Bad bool
}

// A link is one page in the navigation.
type link struct{ Path, Name string }

// Pages are those of the navigation, one a question.
func (a Admin) Pages() []link {
	return []link{
		{"/", "Dashboard"},
		{"/attacks", "Attacks"},
		{"/accounts", "Accounts"},
		{"/lists", "IP lists"},
		{"/policy", "Limits"},
		{"/audit", "Audit log"},
		{"/alerts", "Alerts"},
	}
}

// Frame is what surrounds the page, titled by its name. A view that wants another
// title, or a script, has a Frame of its own.
func (a Admin) Frame() frame {
	title := "Admin console"
	for _, one := range a.Pages() {
		if one.Path == a.Path {
			title = one.Name + " · " + title
		}
	}
	return frame{Title: title, Wide: true}
}

// At is a path of the administration, for the realm that is shown.
func (a Admin) At(path string) string { return At(path, a.Realm) }

// Of is the same page about another realm.
func (a Admin) Of(realm string) string { return At(a.Path, realm) }

// Elsewhere is the realm that is shown, if that is not the default one.
func (a Admin) Elsewhere() string { return events.RealmName(a.Realm) }

// LookUpOf is the look-up of an account, an address or both; each may be empty.
func (a Admin) LookUpOf(account, address string) string {
	q := url.Values{}
	for name, value := range map[string]string{"account": account, "address": address, "realm": a.Elsewhere()} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return "/lookup?" + q.Encode()
}

// Others reports whether there is more than one realm to choose from.
func (a Admin) Others() bool { return len(a.Realms) > 1 }

// At is a path of the administration, for a realm.
func At(path, realm string) string {
	if realm = events.RealmName(realm); realm == "" {
		return path
	}
	return path + "?realm=" + url.QueryEscape(realm)
}
