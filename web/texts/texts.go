// Package texts has the texts of the public pages in English, German, French and Spanish, and in the languages that the
// site adds.
//
// A language is a file of keys and texts named by its tag: de.yaml. en.yaml defines the keys. A text can have
// placeholders in braces; a text about a number has one text for each plural form (CLDR). Pages escape texts, so no
// file can inject markup. A missing text comes from the parent language or from English.
//
// golang.org/x/text/language chooses the language from the Accept-Language header.
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
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/text/language"
)

//go:embed *.yaml
var builtIn embed.FS

// standard is read at its first use: commands need no texts.
var standard = sync.OnceValue(func() *Set {
	set, err := New(nil)
	if err != nil {
		panic(err) // a bug in this package
	}
	return set
})

// Standard returns the built-in languages.
func Standard() *Set { return standard() }

// English returns the default language, which defines the keys.
func English() *Language { return standard().languages[0] }

// A Set is the languages of a site. It is safe for concurrent use.
type Set struct {
	languages []*Language // English first
	matcher   language.Matcher
	missing   []string
	chosen    *lru.Cache[string, *Language] // by header: choosing takes 4 µs, a fifth of a blocked attempt
}

// New returns the built-in languages, with those in added, which may be nil, merged in. The error joins all problems of
// those files, each with file and line.
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

// depth sorts English first, because the matcher falls back to the first language.
func depth(tag string) int {
	if tag == "en" {
		return 0
	}
	return 1 + strings.Count(tag, "-")
}

// readAll merges the languages of a folder into all.
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

// inherit fills in missing texts. It returns the keys that only English has.
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

// adopt copies the texts that l lacks and returns their keys.
func (l *Language) adopt(other *Language) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(other.texts)) {
		if _, has := l.texts[key]; !has {
			l.texts[key] = other.texts[key]
			keys = append(keys, key)
		}
	}
	return keys
}

// Missing returns a line for each language that shows some texts in English.
func (s *Set) Missing() []string { return s.missing }

// All returns every language, English first.
func (s *Set) All() []*Language { return s.languages }

// The limits of a parsed Accept-Language header, in bytes, and of the cache. Browsers send less; an attacker could make
// the parser slow with more.
const (
	longestHeader = 256
	headersKept   = 256
)

// For returns the language for an Accept-Language header; English if none matches.
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
