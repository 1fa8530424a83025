package pages

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"authguard/internal/config"
	"authguard/web/texts"
)

// A Look is a site's brand and languages. It is immutable and safe for concurrent use.
type Look struct {
	brand     Brand
	languages *texts.Set
	assets    map[string]Asset
}

// NewLook returns the look of a site, or an error about its brand.
func NewLook(brand Brand, languages *texts.Set) (l *Look, err error) {
	l = &Look{brand: brand, languages: languages}
	l.assets, err = brand.assets()
	return l, err
}

// Asset returns the brand's file /static/NAME.
func (l *Look) Asset(name string) (a Asset, ok bool) {
	a, ok = l.assets[name]
	return a, ok
}

// For returns the page in the language of an Accept-Language header.
func (l *Look) For(accept string) Page {
	return Page{Look: l, Language: l.languages.For(accept)}
}

// Languages returns the site's languages.
func (l *Look) Languages() *texts.Set { return l.languages }

// A Page is what all public pages have in common. The zero Page is English, without brand and Base.
type Page struct {
	Look     *Look
	Language *texts.Language
	// Base precedes all of authguard's paths: "/.authguard" in front of an app that owns /static/….
	Base string
}

func (p Page) language() *texts.Language {
	if p.Language == nil {
		return texts.English()
	}
	return p.Language
}

// Lang returns the attribute lang.
func (p Page) Lang() string { return p.language().Tag() }

// Dir returns "rtl" or "ltr".
func (p Page) Dir() string { return p.language().Direction() }

// Site returns the name of the site.
func (p Page) Site() string {
	if p.Look == nil || p.Look.brand.Name == "" {
		return "authguard"
	}
	return p.Look.brand.Name
}

// Branded reports whether the page shows the site's name instead of authguard's.
func (p Page) Branded() bool { return p.Look != nil && p.Look.brand.Name != "" }

// Help returns the URL of the help link; empty for none.
func (p Page) Help() string {
	if p.Look == nil {
		return ""
	}
	return p.Look.brand.Help
}

// Forgot returns the URL of the link "Forgot your password?"; empty for none.
func (p Page) Forgot() string {
	if p.Look == nil {
		return ""
	}
	return p.Look.brand.Forgot
}

// Logo returns the path of the site's logo; empty for none.
func (p Page) Logo() string { return p.asset(logoFile) }

// Colours returns the path of the site's style sheet; empty for none.
func (p Page) Colours() string { return p.asset(coloursFile) }

func (p Page) asset(name string) string {
	if p.Look == nil || p.Look.assets[name].Body == nil {
		return ""
	}
	return p.Base + "/static/" + name
}

// T returns a text in the page's language; see texts.Language.Say.
func (p Page) T(key string, values ...string) string { return p.language().Say(key, values...) }

// Count returns a text about a number.
func (p Page) Count(key string, n int) string { return p.language().Count(key, n) }

// Parts returns a text in pieces, for markup at its placeholders.
func (p Page) Parts(key string) []texts.Part { return p.language().Parts(key) }

// Script returns the texts of a script on the page.
func (p Page) Script(prefix string) (string, error) { return p.language().Script(prefix) }

// CheckFiles reads the files of every realm and returns the missing translations.
func CheckFiles(c config.Config) (missing []string, err error) {
	_, missing, err = OpenLook(c.Pages)
	for _, r := range c.Realms {
		_, own, one := OpenLook(r.Pages)
		if one != nil {
			err = errors.Join(err, fmt.Errorf("realms.%s: %w", r.Name, one))
		}
		missing = append(missing, own...)
	}
	slices.Sort(missing)
	return slices.Compact(missing), err
}

// OpenLook reads the files of the settings. missing has one line per language.
func OpenLook(p config.Pages) (look *Look, missing []string, err error) {
	languages := texts.Standard() // shared by all realms: half a megabyte
	if p.Texts != "" {
		if languages, err = texts.New(os.DirFS(p.Texts)); err != nil {
			return nil, nil, fmt.Errorf("pages.texts: the texts in %s cannot be used:\n%w", p.Texts, err)
		}
	}
	brand := Brand{Name: p.Name, Colour: p.Color, Help: p.HelpURL, Forgot: p.ForgotURL}
	if p.Logo != "" {
		if brand.Logo, err = readAtMost(p.Logo, LargestLogo); err != nil {
			return nil, nil, fmt.Errorf("pages.logo: %w", err)
		}
	}
	if look, err = NewLook(brand, languages); err != nil {
		return nil, nil, err
	}
	return look, languages.Missing(), nil
}

// readAtMost reads a file, up to one byte more than most.
func readAtMost(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	body, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(body) == 0 {
		err = errors.New(path + " is empty")
	}
	return body, err
}
