// Package texts holds what the pages for the public say, in every language there
// is: English, German, French and Spanish, and whatever the site's people add.
//
// A language is one file of keys and texts, named by its tag: de.yaml. en.yaml
// says which keys there are. A text may have placeholders in braces, and one
// about a number has a text for each plural form of its language (CLDR's). A text
// is text: whoever draws a page escapes it like everything else, so that a file
// can break no page. What a language lacks comes from the language that it is a
// variant of, or from English.
//
// Which language somebody gets is decided by golang.org/x/text/language, from
// what the browser asks for.
package texts

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/text/language"
)

//go:embed *.yaml
var builtIn embed.FS

var standard = func() *Set {
	set, err := New(nil)
	if err != nil {
		panic(err) // a mistake in this package
	}
	return set
}()

// Standard is the built-in languages alone.
func Standard() *Set { return standard }

// English is the language of those who ask for none, and says which texts there are.
func English() *Language { return standard.languages[0] }

// A Set is the languages that a site speaks. It is safe for concurrent use.
type Set struct {
	languages []*Language // English first
	matcher   language.Matcher
	missing   []string
	chosen    *lru.Cache[string, *Language] // by header: choosing takes 4 µs, a fifth of a refusal
}

// New returns the built-in languages, changed and added to by the files in
// added, which may be nil. The error joins everything that is wrong with those,
// each with its file and line.
func New(added fs.FS) (*Set, error) {
	en, err := read(builtIn, "en.yaml", nil)
	if err != nil {
		return nil, err
	}
	read := map[string]*Language{"en": {tag: en.tag, texts: map[string]forms{}}}
	err = readAll(read, builtIn, en)
	if added != nil {
		err = errors.Join(err, readAll(read, added, en))
	}
	if err != nil {
		return nil, err
	}
	s := &Set{}
	if s.chosen, err = lru.New[string, *Language](headersKept); err != nil {
		return nil, err
	}
	tags := slices.SortedFunc(maps.Keys(read), func(a, b string) int {
		return cmp.Or(cmp.Compare(depth(a), depth(b)), strings.Compare(a, b)) // de before de-AT
	})
	var offered []language.Tag
	for _, tag := range tags {
		l := read[tag]
		if lacks := l.inherit(read); len(lacks) > 0 {
			s.missing = append(s.missing, fmt.Sprintf("%s.yaml lacks %s", tag, strings.Join(lacks, ", ")))
		}
		s.languages, offered = append(s.languages, l), append(offered, l.tag)
	}
	s.matcher = language.NewMatcher(offered)
	return s, nil
}

// depth is 0 for English, where matching ends when nothing else fits.
func depth(tag string) int {
	if tag == "en" {
		return 0
	}
	return 1 + strings.Count(tag, "-")
}

// readAll reads a folder's languages over those that there are.
func readAll(all map[string]*Language, folder fs.FS, en *Language) (err error) {
	names, globErr := fs.Glob(folder, "*.yaml")
	if globErr == nil && len(names) == 0 {
		globErr = errors.New("has no file such as it.yaml")
	}
	if globErr != nil {
		return globErr
	}
	for _, name := range names {
		l, one := read(folder, name, en)
		if one != nil {
			err = errors.Join(err, one)
			continue
		}
		if before := all[l.tag.String()]; before != nil {
			maps.Copy(before.texts, l.texts)
			continue
		}
		all[l.tag.String()] = l
	}
	return err
}

// inherit fills in what a language lacks. It returns the keys for which there
// was nothing but English.
func (l *Language) inherit(all map[string]*Language) (lacks []string) {
	for parent := l.tag.Parent(); !parent.IsRoot(); parent = parent.Parent() {
		if p := all[parent.String()]; p != nil {
			l.adopt(p)
		}
	}
	if en := all["en"]; en != l {
		lacks = l.adopt(en)
	}
	return lacks
}

// adopt takes over what there is in other and not here, and returns its keys.
func (l *Language) adopt(other *Language) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(other.texts)) {
		if _, has := l.texts[key]; !has {
			l.texts[key] = other.texts[key]
			keys = append(keys, key)
		}
	}
	return keys
}

// Missing says, a line for each language, which texts it lacks and shows in
// English.
func (s *Set) Missing() []string { return s.missing }

// All is every language, English first.
func (s *Set) All() []*Language { return s.languages }

// How much of an Accept-Language header is read, and how many are remembered.
// Browsers send less; the parser's time grows with what strangers send.
const (
	longestHeader = 256
	headersKept   = 256
)

// For is the language for somebody who sends an Accept-Language header; English
// when there is none that fits.
func (s *Set) For(accept string) *Language {
	if len(accept) > longestHeader {
		accept = accept[:strings.LastIndexByte(accept[:longestHeader], ',')+1]
	}
	l, ok := s.chosen.Get(accept)
	if !ok {
		l = s.choose(strings.TrimSuffix(accept, ","))
		s.chosen.Add(accept, l)
	}
	return l
}

func (s *Set) choose(accept string) *Language {
	wanted, _, err := language.ParseAcceptLanguage(accept)
	if err != nil || len(wanted) == 0 {
		return s.languages[0]
	}
	_, i, _ := s.matcher.Match(wanted...)
	return s.languages[i]
}
