package texts

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"

	"authguard/guard"
)

// A Language is all texts in one language. It is immutable once it is in a Set.
type Language struct {
	tag   language.Tag
	texts map[string]forms
}

// forms are the texts of a key by plural form; without plural forms the text is under "other".
type forms map[string]text

// Tag returns the tag for the attribute lang and the header Content-Language.
func (l *Language) Tag() string { return l.tag.String() }

// rightToLeft are the right-to-left scripts in use.
var rightToLeft = []string{"Adlm", "Arab", "Hebr", "Mand", "Mend", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa"}

// Direction returns "rtl" or "ltr", for the attribute dir.
func (l *Language) Direction() string {
	if script, _ := l.tag.Script(); slices.Contains(rightToLeft, script.String()) {
		return "rtl"
	}
	return "ltr"
}

// Has reports whether the key exists.
func (l *Language) Has(key string) bool { return l.texts[key] != nil }

// Say returns a text with values for its placeholders: name, value, name, value; for an unknown key the key.
func (l *Language) Say(key string, values ...string) string {
	all, ok := l.texts[key]
	if !ok {
		return key
	}
	return all["other"].fill(values)
}

// Count returns a text about a number, which replaces {n}.
func (l *Language) Count(key string, n int) string {
	form := formNames[plural.Cardinal.MatchPlural(l.tag, n, 0, 0, 0, 0)]
	all, ok := l.texts[key]
	if !ok {
		return key
	}
	one, ok := all[form]
	if !ok {
		one = all["other"]
	}
	return one.fill([]string{"n", strconv.Itoa(n)})
}

// formNames are CLDR's names of the plural forms.
var formNames = map[plural.Form]string{
	plural.Zero: "zero", plural.One: "one", plural.Two: "two", plural.Few: "few", plural.Many: "many",
	plural.Other: "other",
}

// Parts returns a text in pieces, for a page with markup at a placeholder.
func (l *Language) Parts(key string) []Part { return l.texts[key]["other"] }

// Script returns the texts whose keys begin with prefix as a JSON object for a script, without the prefix. A text about
// a number is an object by plural form, as Intl.PluralRules names them.
func (l *Language) Script(prefix string) (string, error) {
	out := map[string]any{}
	for key, all := range l.texts {
		name, ok := strings.CutPrefix(key, prefix)
		switch {
		case !ok:
		case len(all) == 1:
			out[name] = all["other"].String()
		default:
			by := map[string]string{}
			for form, one := range all {
				by[form] = one.String()
			}
			out[name] = by
		}
	}
	b, err := json.Marshal(out)
	return string(b), err
}

// A Part is a run of text or a placeholder.
type Part struct {
	Text string
	Slot string // the name of a placeholder; empty for text
}

type text []Part

var placeholder = regexp.MustCompile(`\{([a-z]+)\}`)

// newText splits a text at its placeholders.
func newText(s string) (t text, err error) {
	rest := 0
	for _, at := range placeholder.FindAllStringSubmatchIndex(s, -1) {
		if at[0] > rest {
			t = append(t, Part{Text: s[rest:at[0]]})
		}
		t, rest = append(t, Part{Slot: s[at[2]:at[3]]}), at[1]
	}
	if rest < len(s) || len(t) == 0 {
		t = append(t, Part{Text: s[rest:]})
	}
	for _, p := range t {
		if strings.ContainsAny(p.Text, "{}") {
			return nil, errors.New("has a brace that belongs to no placeholder: {name} is one")
		}
	}
	return t, nil
}

// slots returns the names of a text's placeholders, sorted.
func (t text) slots() (names []string) {
	for _, p := range t {
		if p.Slot != "" {
			names = append(names, p.Slot)
		}
	}
	slices.Sort(names)
	return names
}

// String returns the text as in its file.
func (t text) String() string {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.Text)
		if p.Slot != "" {
			b.WriteString("{" + p.Slot + "}")
		}
	}
	return b.String()
}

// fill replaces the placeholders by values: name, value, name, value.
func (t text) fill(values []string) string {
	if len(t) == 1 && t[0].Slot == "" {
		return t[0].Text
	}
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.Text)
		for i := 0; i+1 < len(values); i += 2 {
			if values[i] == p.Slot {
				b.WriteString(values[i+1])
			}
		}
	}
	return b.String()
}

// Spell writes a duration as guard.Spell does in English.
func (l *Language) Spell(d time.Duration) string {
	var words []string
	for _, p := range guard.Parts(d) {
		words = append(words, l.Count("unit."+p.Unit, p.N))
	}
	if len(words) == 0 {
		return l.Say("unit.moment")
	}
	return strings.Join(words, " ")
}
