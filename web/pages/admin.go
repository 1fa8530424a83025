package pages

import (
	"net/url"
	"strings"
	"time"

	"authguard/internal/events"
	"authguard/internal/times"
)

// Admin is what all pages of the admin console have in common. A view embeds it. Its template stands between
// "admin-top" and "admin-bottom"; its forms begin with {{template "form" .Admin}}.
type Admin struct {
	CSRF string
	// Path is the page's own path, marked in the navigation.
	Path string
	// Back is the URL of the page; its forms return to it.
	Back   string
	Realm  string
	Realms []string
	User   string
	// Open is the number of possibly compromised accounts that are not secured yet.
	Open int
	// Now is the time at which the page is drawn, in the time zone of all its times.
	Now time.Time
	// Notice is the outcome of the last form.
	Notice Notice
}

// A Notice is the outcome of a form. The zero Notice shows nothing.
type Notice struct {
	// Text is a sentence by the handler.
	Text string
	// Subject is the account or IP address as typed, shown after Text.
	Subject string
	// Bad marks a failure.
	Bad bool
	// Note says what Undo does not restore, or why there is no undo.
	Note string
	// Undo is the form of the inverse operation; nil if there is none.
	Undo *Undo
	// Secret is shown only once; nil if there is none.
	Secret *Secret
}

// A Secret is a temporary password, a code or a token. What begins a sentence that ends with Name.
type Secret struct{ What, Name, Text, Hint string }

// Undo is the form that undoes an operation. It comes from the session, never from a URL.
type Undo struct {
	Path   string
	Fields map[string]string
}

type link struct{ Path, Name string }

// Pages returns the pages of the navigation.
func (Admin) Pages() []link {
	return []link{
		{"/", "Overview"},
		{"/attacks", "Attacks"},
		{"/accounts", "People"},
		{"/policy", "Limits"},
		{"/lists", "IP lists"},
		{"/audit", "Log"},
	}
}

// Own returns the pages of the menu under the administrator's name.
func (Admin) Own() []link {
	return []link{
		{"/security", "My security"},
		{"/administrators", "Administrators"},
		{"/administrators#tokens", "Tokens"},
		{"/alerts", "Alerts"},
	}
}

// Marked reports whether the page belongs to a page of the navigation.
func (a Admin) Marked(path string) bool {
	return a.Path == path || path != "/" && strings.HasPrefix(a.Path, path+"/")
}

// Frame titles the page by its name. A view that needs another title or a script has its own Frame.
func (a Admin) Frame() frame {
	title := "Admin console"
	for _, one := range append(a.Pages(), a.Own()...) {
		if a.Marked(one.Path) {
			title = one.Name + " · " + title
		}
	}
	return frame{Title: title, Wide: true}
}

// Zone returns the abbreviation of the time zone of all times shown.
func (a Admin) Zone() string { return times.Zone(a.Now) }

// At returns a path of the admin console for the current realm.
func (a Admin) At(path string) string { return At(path, a.Realm) }

// Of returns the URL of this page for another realm.
func (a Admin) Of(realm string) string { return At(a.Path, realm) }

// Elsewhere returns the current realm, or an empty string for the default realm.
func (a Admin) Elsewhere() string { return events.RealmName(a.Realm) }

// LookUpOf returns the URL that looks up an account, an IP address or both; each may be empty.
func (a Admin) LookUpOf(account, address string) string {
	q := url.Values{}
	for name, value := range map[string]string{"account": account, "address": address, "realm": a.Elsewhere()} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return "/lookup?" + q.Encode()
}

// Others reports whether there is more than one realm.
func (a Admin) Others() bool { return len(a.Realms) > 1 }

// At returns a path of the admin console for a realm.
func At(path, realm string) string {
	if realm = events.RealmName(realm); realm == "" {
		return path
	}
	path, part, in := strings.Cut(path, "#")
	if path += "?realm=" + url.QueryEscape(realm); in {
		path += "#" + part
	}
	return path
}
