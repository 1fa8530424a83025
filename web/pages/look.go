package pages

import "authguard/web/texts"

// A Look is a site's brand, and the languages that it speaks. It does not change,
// and is safe for concurrent use.
type Look struct {
	brand     Brand
	languages *texts.Set
	assets    map[string]Asset
}

// NewLook returns the look of a site. The error says what is wrong with its brand.
func NewLook(brand Brand, languages *texts.Set) (l *Look, err error) {
	l = &Look{brand: brand, languages: languages}
	l.assets, err = brand.assets()
	return l, err
}

// Asset is the file /static/NAME of the site's brand.
func (l *Look) Asset(name string) (a Asset, ok bool) {
	a, ok = l.assets[name]
	return a, ok
}

// For is what pages have for somebody who sends an Accept-Language header.
func (l *Look) For(accept string) Page {
	return Page{Look: l, Language: l.languages.For(accept)}
}

// A Page is what every page for the public has. The zero Page is in English,
// has no look of its own, and is right where our own paths are at the root.
type Page struct {
	Look     *Look
	Language *texts.Language
	// Base stands in front of all paths of ours: "/.authguard" before an
	// application, where /static/… and the rest are the application's.
	Base string
}

// language is the page's, and English where it has none.
func (p Page) language() *texts.Language {
	if p.Language == nil {
		return texts.English()
	}
	return p.Language
}

// Lang and Dir are the page's attributes of those names.
func (p Page) Lang() string { return p.language().Tag() }

// Dir is "rtl" or "ltr".
func (p Page) Dir() string { return p.language().Direction() }

// Site is the name of the site that the page is of.
func (p Page) Site() string {
	if p.Look == nil || p.Look.brand.Name == "" {
		return "authguard"
	}
	return p.Look.brand.Name
}

// Branded reports whether the page bears the site's name and not ours.
func (p Page) Branded() bool { return p.Look != nil && p.Look.brand.Name != "" }

// Help is the URL of help; empty: there is none.
func (p Page) Help() string {
	if p.Look == nil {
		return ""
	}
	return p.Look.brand.Help
}

// Logo and Colours are the paths of the site's logo and style sheet; empty where it
// has none.
func (p Page) Logo() string { return p.asset(logoFile) }

// Colours is the path of the site's style sheet.
func (p Page) Colours() string { return p.asset(coloursFile) }

func (p Page) asset(name string) string {
	if p.Look == nil || p.Look.assets[name].Body == nil {
		return ""
	}
	return p.Base + "/static/" + name
}

// T is a text in the page's language; see texts.Language.Say.
func (p Page) T(key string, values ...string) string { return p.language().Say(key, values...) }

// Count is a text about a number.
func (p Page) Count(key string, n int) string { return p.language().Count(key, n) }

// Parts is a text in pieces, for markup at its placeholders.
func (p Page) Parts(key string) []texts.Part { return p.language().Parts(key) }

// Script is the texts of a script of the page.
func (p Page) Script(prefix string) (string, error) { return p.language().Script(prefix) }
