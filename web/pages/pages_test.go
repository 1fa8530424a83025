package pages

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"authguard/internal/control"
	"authguard/internal/metrics"
)

func TestNothingInlineThatThePolicyForbids(t *testing.T) {
	t.Parallel()
	eachPage(t, func(t *testing.T, doc *html.Node) {
		for _, n := range elements(doc) {
			for _, a := range n.Attr {
				if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
					t.Errorf("<%s> has the attribute %s", n.Data, a.Key)
				}
			}
			if n.Data == "style" || n.Data == "script" && (inner(n) != "" || !has(n, "src")) {
				t.Errorf("inline <%s>: %s", n.Data, inner(n))
			}
		}
	})
}

func TestEverythingComesFromThisSite(t *testing.T) {
	t.Parallel()
	eachPage(t, func(t *testing.T, doc *html.Node) {
		for _, n := range elements(doc) {
			for _, key := range []string{"href", "src", "action"} {
				v := attr(n, key)
				if n.Data == "img" && strings.HasPrefix(v, "data:image/png;base64,") || has(n, "download") && strings.HasPrefix(v, "data:text/plain") || n.Data == "a" && strings.HasPrefix(v, "http://localhost:8081/") {
					continue // a picture in the page itself, and the same server by another name
				}
				if has(n, key) && !strings.HasPrefix(v, "#") && (!strings.HasPrefix(v, "/") || strings.HasPrefix(v, "//")) {
					t.Errorf("<%s %s=%q>", n.Data, key, v)
				}
			}
		}
	})
}

func TestEveryControlHasALabel(t *testing.T) {
	t.Parallel()
	eachPage(t, func(t *testing.T, doc *html.Node) {
		labelled := map[string]bool{}
		for _, n := range elements(doc, "label") {
			labelled[attr(n, "for")] = true
		}
		for _, n := range elements(doc, "input", "select") {
			inLabel := n.Parent.Data == "label" && inner(n.Parent) != ""
			if attr(n, "type") != "hidden" && !labelled[attr(n, "id")] && !has(n, "aria-label") && !has(n, "aria-labelledby") && !inLabel { // TestIDsAreUniqueAndFound
				t.Errorf("no label for the input %q", attr(n, "name"))
			}
		}
		for _, n := range elements(doc, "button", "a") {
			if inner(n) == "" && !has(n, "aria-label") {
				t.Errorf("nothing to read on <%s %v>", n.Data, n.Attr)
			}
		}
	})
}

func TestIDsAreUniqueAndFound(t *testing.T) {
	t.Parallel()
	eachPage(t, func(t *testing.T, doc *html.Node) {
		ids := map[string]bool{}
		for _, n := range elements(doc) {
			if id := attr(n, "id"); id != "" {
				if ids[id] {
					t.Errorf("two elements have the id %q", id)
				}
				ids[id] = true
			}
		}
		for _, n := range elements(doc) {
			refs := attr(n, "for") + " " + attr(n, "aria-describedby") + " " + attr(n, "aria-labelledby") + " " + attr(n, "aria-controls")
			if target, ok := strings.CutPrefix(attr(n, "href"), "#"); ok {
				refs += " " + target
			}
			for _, ref := range strings.Fields(refs) {
				if !ids[ref] {
					t.Errorf("<%s> points at %q, which is not there", n.Data, ref)
				}
			}
		}
	})
}

func TestOneHeadingOneMainOneLanguage(t *testing.T) {
	t.Parallel()
	eachPage(t, func(t *testing.T, doc *html.Node) {
		for _, tag := range []string{"h1", "main"} {
			if n := len(elements(doc, tag)); n != 1 {
				t.Errorf("%d <%s>", n, tag)
			}
		}
		if attr(elements(doc, "html")[0], "lang") != "en" {
			t.Error("the page does not say its language")
		}
	})
}

func TestAtMostOneElementTakesTheFocus(t *testing.T) {
	t.Parallel()
	eachPage(t, func(t *testing.T, doc *html.Node) {
		n := 0
		for _, e := range elements(doc) {
			if has(e, "autofocus") {
				n++
			}
		}
		if n > 1 {
			t.Errorf("%d elements want the focus", n)
		}
	})
}

// Signing in and out needs no token: where such a request comes from is checked
// instead, and where a link is asked for or a challenge is solved; the link of a letter has a token of its own. What the page before an application holds is sealed.
func TestEveryOtherPostCarriesTheToken(t *testing.T) {
	t.Parallel()
	eachPage(t, func(t *testing.T, doc *html.Node) {
		for _, form := range elements(doc, "form") {
			tokens := 0
			for _, in := range elements(form, "input") {
				if attr(in, "name") == "csrf" && attr(in, "value") == "token" {
					tokens++
				}
			}
			action := attr(form, "action")
			free := attr(form, "method") != "post" || action == "/login" || action == "/login/code" || action == "/login/passkey" || action == "/logout" || action == "/login/forgot" || action == "/.authguard/solve" || strings.HasPrefix(action, "/login/reset/") || strings.HasPrefix(action, "/login/not-me/") || len(named(form, "authguard_form")) == 1
			if !free && tokens != 1 {
				t.Errorf("form to %s: %d tokens", action, tokens)
			}
		}
	})
}

func TestWhatStrangersTypeStaysData(t *testing.T) {
	t.Parallel()
	for name, draw := range samples() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := text(t, draw)
			if strings.Contains(page, "<script>") || strings.Contains(page, "<img src=x") || strings.Contains(page, "alert(1)</script") {
				t.Error("markup went through")
			}
			doc := parse(t, draw)
			for n := range doc.Descendants() {
				if n.Type == html.TextNode && strings.ContainsAny(n.Data, "\u202e\u200b") {
					t.Errorf("an invisible character is drawn in %q", n.Data)
				}
			}
			for _, a := range elements(doc, "a") {
				u, err := url.Parse(attr(a, "href"))
				asked := u.Query()
				asked.Del("realm")
				asked.Del("address")
				if u.Path == "/act" {
					for _, fixed := range []string{"what", "back", "cidr"} {
						if strings.Contains(asked.Get(fixed), "gpj") && !strings.HasPrefix(name, "look up") {
							t.Errorf("a name got into %s: %s", fixed, attr(a, "href"))
						}
						asked.Del(fixed)
					}
				}
				if strings.HasSuffix(u.Path, "/audit") { // which has filters of several
					for _, filter := range []string{"account", "who", "what", "since", "until"} {
						_, no := time.Parse(time.RFC3339, asked.Get(filter)) // of an attack, which nobody typed
						if filter == "what" && strings.HasPrefix(name, "policy") || slices.Contains([]string{"1h", "today", "yesterday", "7d"}, asked.Get(filter)) {
							continue // a reason, or a link to a usual range
						}
						if asked.Get(filter) != "" && asked.Get(filter) != hostile && no != nil {
							t.Errorf("%s got out of its parameter: %s", filter, attr(a, "href"))
						}
					}
					if asked.Has("account") && len(asked) > 10 {
						t.Errorf("a name got out of its parameter: %s", attr(a, "href"))
					}
					continue
				}
				if err != nil || asked.Has("account") && len(asked) != 1 || strings.Contains(u.Fragment, "gpj") {
					t.Errorf("a name got out of its parameter: %s", attr(a, "href"))
				}
			}
		})
	}
}

func TestARowLeadsToItsNameAsItIs(t *testing.T) {
	t.Parallel()
	v := attacked()
	v.Overview.Accounts = []control.Subject{{Top: metrics.Top{Name: "bob\u202e\"<>&"}}}
	doc := parse(t, func() ([]byte, error) { return RenderNow(v) })
	for _, a := range elements(doc, "a") {
		if to, err := url.Parse(attr(a, "href")); err == nil && to.Query().Get("account") == "bob\u202e\"<>&" {
			return
		}
	}
	t.Error("no link carries the name as it is")
}

func TestTheUnlockFormSendsTheNameBack(t *testing.T) {
	t.Parallel()
	v := ActView{Admin: around("/act"), What: ActUnlock, Account: "bob\u202e\"<>&"}
	doc := parse(t, func() ([]byte, error) { return RenderAct(v) })
	for _, in := range elements(doc, "input") {
		if attr(in, "name") == "account" && attr(in, "value") == "bob\u202e\"<>&" {
			return
		}
	}
	t.Error("no form carries the name as it is")
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, status := range []int{0, 400, 403, 404, 405, 413, 415, 418, 500, 503} {
		v := ErrorView{Status: status}
		if v.Title() == "" || v.Text() == "" {
			t.Errorf("%d: %q, %q", status, v.Title(), v.Text())
		}
	}
}

func TestThePageIsMarkedInTheNavigationAndKeptForAnotherRealm(t *testing.T) {
	t.Parallel()
	doc := parse(t, func() ([]byte, error) { return RenderNow(attacked()) })
	current := map[string]string{}
	for _, a := range elements(elements(doc, "header")[0], "a") {
		if where := attr(a, "aria-current"); where != "" {
			current[where] = attr(a, "href") + " " + inner(a)
		}
	}
	if current["page"] != "/?realm=shop Overview" || current["true"] != "/?realm=shop shop" || len(current) != 2 {
		t.Errorf("marked: %q", current)
	}
	if a := around("/"); a.At("/administrators#tokens") != "/administrators?realm=shop#tokens" || !around("/attacks/:id").Marked("/attacks") || around("/attacks").Marked("/") {
		t.Error("the menu under the name, or the page of one attack")
	}
	if badge := elements(doc, "header")[0]; !strings.Contains(inner(badge), "3 to secure") {
		t.Errorf("no count of open accounts in %q", inner(badge))
	}
	if other := around("/lists").Of("blog"); other != "/lists?realm=blog" {
		t.Errorf("the page of another realm is %s", other)
	}
}

// Ensure that whoever changes accounts, administrators, tokens, attacks or the policy on a
// page can say why.
func TestEveryFormThatChangesSomethingAsksWhy(t *testing.T) {
	t.Parallel()
	asks := regexp.MustCompile(`^/(accounts/(add|password)|administrators|attacks|policy(/limits)?($|\?))`) // /policy/try changes nothing
	eachPage(t, func(t *testing.T, doc *html.Node) {
		for _, form := range elements(doc, "form") {
			action := attr(form, "action")
			if attr(form, "method") == "post" && asks.MatchString(action) && len(named(form, "reason"))+len(named(form, "note")) == 0 {
				t.Errorf("the form of %s does not ask why", action)
			}
		}
	})
}
