package pages

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"
	"golang.org/x/net/html"

	"authguard/guard"
	"authguard/web/texts"
)

// pseudo is a language whose every text is its key and its placeholders in
// brackets, and which is written from right to left.
func pseudo(t *testing.T) (*Look, []string) {
	t.Helper()
	english := read(t, "../texts/en.yaml")
	all := map[string]any{}
	if err := yaml.Unmarshal([]byte(english), &all); err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	var keys []string
	for key, text := range all {
		slots := regexp.MustCompile(`\{[a-z]+\}`).FindAllString(fmt.Sprint(text), -1)
		slices.Sort(slots)
		fmt.Fprintf(&file, "%s: \"⟦%s %s⟧\"\n", key, key, strings.Join(slices.Compact(slots), " "))
		keys = append(keys, key)
	}
	set, err := texts.New(fstest.MapFS{"fa.yaml": {Data: []byte(file.String())}})
	if err != nil {
		t.Fatal(err)
	}
	return newLook(t, Brand{Help: "mailto:help@example.org", Forgot: "https://example.org/forgot"}, set), keys
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func newLook(t *testing.T, b Brand, set *texts.Set) *Look {
	t.Helper()
	look, err := NewLook(b, set)
	if err != nil {
		t.Fatal(err)
	}
	return look
}

// more is what samples leave out: every message and every error.
func more(p Page, do func(name string, draw func() ([]byte, error))) {
	message := func(m Message) {
		name := fmt.Sprintf("%+v", m)
		do(name, func() ([]byte, error) {
			return render("login", LoginView{Page: p, Message: m, Challenge: Challenge{Kind: ChallengeImage, Image: "/a"}})
		})
		if m.Kind != NoMessage && m.Kind != WrongCredentials && m.Kind != SignedOut {
			do("gate "+name, func() ([]byte, error) {
				return RenderGate(GateView{Page: p, Message: m, Sealed: "x", Challenge: digits()})
			})
		}
	}
	for kind := NoMessage; kind <= SignedOut; kind++ {
		message(Message{Kind: kind})
	}
	for _, done := range accountDone {
		do("done "+done, func() ([]byte, error) { return RenderAccount(AccountView{Page: p, Username: hostile, Done: done}) })
	}
	do("one place", func() ([]byte, error) {
		v := AccountView{Page: p, Username: hostile}
		v.Own.Unnamed = 1
		return RenderAccount(v)
	})
	for why := WhyUnusual; why <= WhyElsewhere; why++ {
		message(Message{Kind: ChallengeRequired, Why: why})
	}
	for _, wait := range []time.Duration{time.Second, time.Minute, time.Hour, 50 * time.Hour} {
		message(Message{Kind: SlowDown, RetryAfter: wait})
	}
	for _, status := range []int{0, 400, 401, 403, 404, 405, 413, 415, 418, 421, 429, 500, 503} {
		do(fmt.Sprint(status), func() ([]byte, error) { return RenderError(ErrorView{Page: p, Status: status, Login: "/login"}) })
	}
}

// A page in another language has nothing left in English, and every text that a
// translator writes is somewhere.
func TestEverythingOnAPageIsInItsLanguage(t *testing.T) {
	t.Parallel()
	look, keys := pseudo(t)
	seen := map[string]bool{}
	page := look.For("fa")
	check := func(name string, draw func() ([]byte, error)) {
		doc := parse(t, draw)
		if root := elements(doc, "html")[0]; attr(root, "lang") != "fa" || attr(root, "dir") != "rtl" {
			t.Errorf("%s: %v", name, root.Attr)
		}
		for _, said := range spoken(doc) {
			for _, key := range regexp.MustCompile(`⟦([a-z0-9.-]+)`).FindAllStringSubmatch(said, -1) {
				seen[key[1]] = true
			}
			if left := strings.TrimFunc(untranslated(said), func(r rune) bool { return !unicode.IsLetter(r) }); left != "" {
				t.Errorf("%s: %q is in no language file", name, left)
			}
		}
	}
	for name, draw := range public(page) {
		check(name, draw)
	}
	more(page, check)
	seen["message.code.title"], seen["gate.code"] = true, true // on the page of mw, and in client.js
	for _, key := range keys {
		if !seen[key] && !strings.HasPrefix(key, "problem.") && !strings.HasPrefix(key, "mail.") && !strings.HasPrefix(key, "script.") {
			t.Errorf("%s is on no page", key)
		}
	}
}

// spoken is what a page says to eyes, ears and scripts: each attribute, and its
// text.
func spoken(doc *html.Node) (all []string) {
	for _, n := range elements(doc) {
		for _, a := range n.Attr {
			if slices.Contains([]string{"alt", "aria-label", "data-busy", "data-hide", "data-not-loaded", "data-meanwhile", "data-texts", "data-units", "data-with-code"}, a.Key) {
				all = append(all, a.Val)
			}
		}
	}
	return append(all, inner(doc))
}

// untranslated is a text without tags (those in <noscript>), what language files say, names, times, and what
// JSON calls them.
func untranslated(said string) string {
	said = regexp.MustCompile(`</?p[^>]*>`).ReplaceAllString(said, "")
	for inmost := regexp.MustCompile(`⟦[^⟦⟧]*⟧`); inmost.MatchString(said); {
		said = inmost.ReplaceAllString(said, "")
	}
	for _, name := range newName(hostile).Pieces {
		said = strings.ReplaceAll(said, name.Text, "")
	}
	return regexp.MustCompile(`authguard|alice|route-[ab]|UTC|"[a-z-]+":`).ReplaceAllString(said, "")
}

func TestEveryPageIsDrawnInEveryLanguage(t *testing.T) {
	t.Parallel()
	key := regexp.MustCompile(`(page|login|code|account|not-me|password|message|why|wait|unit|challenge|work|gate|down|error|problem)\.[a-z-]+[.a-z]`)
	set := texts.Standard()
	for _, l := range set.All() {
		page := newLook(t, Brand{}, set).For(l.Tag())
		check := func(name string, draw func() ([]byte, error)) {
			doc := parse(t, draw)
			if root := elements(doc, "html")[0]; attr(root, "lang") != l.Tag() || has(root, "dir") {
				t.Errorf("%s in %s: %v", name, l.Tag(), root.Attr)
			}
			if said := inner(doc); key.MatchString(said) || strings.ContainsAny(strings.ReplaceAll(said, hostile, ""), "{}") {
				t.Errorf("%s in %s shows a key or a placeholder:\n%s", name, l.Tag(), said)
			}
		}
		for name, draw := range public(page) {
			check(name, draw)
		}
		more(page, check)
	}
}

func TestLengthsOfTimeAreSpeltAsTheGuardSpellsThem(t *testing.T) {
	t.Parallel()
	for d := -time.Second; d < 100*time.Hour; d += 7*time.Second + d/40 {
		if got, want := texts.English().Spell(d), guard.Spell(d); got != want {
			t.Errorf("%v is %q, not %q", d, got, want)
		}
	}
	set := texts.Standard()
	for tag, want := range map[string]string{"de": "1 Stunde 5 Minuten", "fr": "1 heure 5 minutes", "es": "1 hora 5 minutos"} {
		if got := set.For(tag).Spell(65 * time.Minute); got != want {
			t.Errorf("%s says %q", tag, got)
		}
	}
}
