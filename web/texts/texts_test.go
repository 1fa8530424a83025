package texts_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"authguard/web/texts"
)

func set(t *testing.T, files map[string]string) *texts.Set {
	t.Helper()
	s, err := texts.New(folder(files))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func folder(files map[string]string) fs.FS {
	if files == nil {
		return nil
	}
	f := fstest.MapFS{}
	for name, text := range files {
		f[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return f
}

func TestEveryBuiltInLanguageIsWhole(t *testing.T) {
	t.Parallel()
	s := set(t, nil)
	var tags []string
	for _, l := range s.All() {
		tags = append(tags, l.Tag())
	}
	if !slices.Equal(tags, []string{"en", "de", "es", "fr"}) || len(s.Missing()) > 0 {
		t.Errorf("there are %v, and %v", tags, s.Missing())
	}
}

func TestTheBrowserChoosesTheLanguage(t *testing.T) {
	t.Parallel()
	s := set(t, map[string]string{"de-AT.yaml": "login.title: Servus", "fa.yaml": "login.title: ورود"})
	for accept, want := range map[string]string{
		"": "en", "*": "en", "de": "de", "de-CH,de;q=0.9,en;q=0.8": "de", "fr-CA": "fr", "es-419,es;q=0.9": "es", "en-GB,de": "en",
		"de-AT": "de-AT", "fa-IR": "fa", "ja": "en", "ja,es;q=0.1": "es", "en;q=0.1,fr;q=0.2": "fr", "de;q=0,fr": "fr",
		"not a language": "en", "\x00": "en", strings.Repeat("xx,", 100) + "de": "en", strings.Repeat("x", 100_000): "en",
		"fr," + strings.Repeat("en-x-a-b-c-d-e-f-g,", 100): "fr",
	} {
		if got := s.For(accept).Tag(); got != want {
			t.Errorf("%.60q gets %s, not %s", accept, got, want)
		}
	}
}

func TestWhatALanguageLacksIsItsParentsOrEnglish(t *testing.T) {
	t.Parallel()
	s := set(t, map[string]string{"de-AT.yaml": "login.title: Servus", "it.yaml": "login.title: Accedi", "de.yaml": "login.button: Rein"})
	for accept, want := range map[string]string{"de-AT": "Servus Rein Passwort", "it": "Accedi Sign in Password", "de": "Anmelden Rein Passwort", "en": "Sign in Sign in Password"} {
		l := s.For(accept)
		if got := l.Say("login.title") + " " + l.Say("login.button") + " " + l.Say("login.password"); got != want {
			t.Errorf("%s says %q, not %q", accept, got, want)
		}
	}
	if m := s.Missing(); len(m) != 1 || !strings.HasPrefix(m[0], "it.yaml lacks account.administrator, ") || strings.Contains(m[0], "login.title") {
		t.Errorf("missing: %q", m)
	}
	if set(t, nil).For("de").Say("login.button") != "Anmelden" {
		t.Error("one set has changed another")
	}
}

func TestNumbersHaveTheirForms(t *testing.T) {
	t.Parallel()
	polish := "unit.minute: {one: '{n} minuta', few: '{n} minuty', many: '{n} minut', other: '{n} minuty'}\nunit.hour: {one: godzina, other: '{n} h'}\n"
	pl := set(t, map[string]string{"pl.yaml": polish}).For("pl")
	for n, want := range map[int]string{1: "1 minuta", 2: "2 minuty", 5: "5 minut", 22: "22 minuty", 25: "25 minut"} {
		if got := pl.Count("unit.minute", n); got != want {
			t.Errorf("%d is %q", n, got)
		}
	}
	if pl.Count("unit.hour", 1) != "godzina" || pl.Count("unit.hour", 2) != "2 h" {
		t.Error("a number that is spelt out, or a form that is left out, is lost")
	}
}

func TestDirection(t *testing.T) {
	t.Parallel()
	s := set(t, map[string]string{"ar.yaml": "login.title: دخول", "he.yaml": "login.title: כניסה", "az-Arab.yaml": "login.title: گیرش"})
	for tag, want := range map[string]string{"ar": "rtl", "he": "rtl", "az-Arab": "rtl", "de": "ltr"} {
		if got := s.For(tag).Direction(); got != want {
			t.Errorf("%s runs %s", tag, got)
		}
	}
}

func TestABadFileSaysWhatIsWrongAndWhere(t *testing.T) {
	t.Parallel()
	for want, file := range map[string]string{
		"it.yaml:2: \"login.titel\" is no text":                            "login.title: Accedi\nlogin.titel: Accedi",
		"it.yaml:1: login.as: must have {name}, as in English, and has {n": "login.as: come {nome}",
		"and has no placeholder":                                           "login.as: come lui",
		"it.yaml:1: login.title: must have no placeholder":                 "login.title: Accedi {name}",
		"has a brace that belongs to no placeholder":                       "login.as: come {name}}",
		"it.yaml:2: login.title is there twice":                            "login.title: a\nlogin.title: b",
		"it.yaml:1: login.title: must be a text on one line":               "login.title: ''",
		"of 1 to 1024 bytes":                                               "login.title: " + strings.Repeat("a", 1025),
		"it.yaml:1: unit.day: \"lots\" is no plural form":                  "unit.day: {lots: '{n}', other: '{n}'}",
		"unit.day: needs a text for other":                                 "unit.day: {one: '{n}'}",
		"login.title: is about no number":                                  "login.title: {one: a, other: b}",
		"login.title: must be a text;":                                     "login.title: [a]",
		"it.yaml:1: is not YAML":                                           "login.title: a: b",
		"it.yaml:1: must be lines such as":                                 "- a",
		"it.yaml: must be UTF-8":                                           "login.title: \xff",
		"it.yaml: must be a file of at most 128 KiB":                       strings.Repeat("#", 200<<10),
	} {
		_, err := texts.New(folder(map[string]string{"it.yaml": file}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v\nand not %s", file, err, want)
		}
	}
	for name, want := range map[string]string{"italiano-molto.yaml": "must be named by the tag", "EN.yaml": "must be named by the tag", "it.txt": "has no file such as"} {
		if _, err := texts.New(folder(map[string]string{name: "login.title: a"})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := texts.New(folder(map[string]string{"it.yaml": "a: b", "nl.yaml": "c: d"}))
	if err == nil || !strings.Contains(err.Error(), "it.yaml:1") || !strings.Contains(err.Error(), "nl.yaml:1") {
		t.Errorf("not all that is wrong is said: %v", err)
	}
}

func TestAScriptGetsItsTexts(t *testing.T) {
	t.Parallel()
	got, err := texts.English().Script("unit.m")
	if err != nil || got != `{"inute":{"one":"{n} minute","other":"{n} minutes"},"oment":"a moment"}` {
		t.Errorf("%s, %v", got, err)
	}
}

// What is not a language of this site must still be answered, and in no time.
func FuzzWhatABrowserAsksFor(f *testing.F) {
	s, err := texts.New(nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, accept := range []string{"de", "de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7", "*", "x-y-z", ";q=,"} {
		f.Add(accept)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		if s.For(accept).Say("login.title") == "login.title" {
			t.Errorf("%q gets a language without texts", accept)
		}
	})
}

func FuzzATextsFile(f *testing.F) {
	for _, file := range []string{"login.title: a", "unit.day: {one: '{n}', other: x}", "a: &b [*b]", "? x\n: y", "<<: {}", "login.title: |\n  a\n"} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file string) {
		s, err := texts.New(folder(map[string]string{"it.yaml": file}))
		if err == nil && s.For("it").Say("page.skip") == "page.skip" {
			t.Error("a file took a text away")
		}
	})
}

func BenchmarkFor(b *testing.B) {
	s, err := texts.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s.For("de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7")
	}
}
