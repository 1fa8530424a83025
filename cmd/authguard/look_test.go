package main

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"authguard/internal/testing/redistest"
)

// speaks makes the browser ask for pages in a language.
func (b *tab) speaks(language string) {
	b.t.Helper()
	b.do("speaking "+language, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": language}})
		return err
	}))
}

const hostileLogo = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 18 8"><script>document.documentElement.id = "ran"</script><circle cx="4" cy="4" r="4" fill="#e60"/></svg>`

// What the configuration says of a site's look and languages is what a browser
// shows, whose strict policy blocks nothing of it; a reload changes it.
func TestPagesBearTheSitesLookAndSpeakItsLanguagesInABrowser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("logo.svg", hostileLogo)
	write("texts/he.yaml", "login.title: כניסה\n")
	pages := "pages: {name: Müllers Kiosk, logo: " + dir + "/logo.svg, color: '#ffcc00', help_url: 'mailto:help@example.org', texts: " + dir + "/texts}\n"
	policy := "limits: {account: [2/1h block], pair_delay: off}\n"
	s := newServer(t, policy+pages, "alice")
	redistest.Until(t, "the log to say what is not translated", func() bool { return s.log.has("he.yaml lacks ") })

	b := openTab(t)
	b.speaks("de-AT,de;q=0.9")
	b.goTo(s.base + "/login")
	b.until("the logo", `document.querySelector(".logo").naturalWidth > 0`)
	for expression, want := range map[string]string{
		`document.title`:                      "Anmelden · Müllers Kiosk",
		`document.documentElement.lang`:       "de",
		`document.querySelector(".logo").alt`: "Müllers Kiosk",
		`document.querySelector(".logo").offsetWidth + "×" + document.querySelector(".logo").offsetHeight`: "126×56",
		`getComputedStyle(document.querySelector("form button[type=submit]")).backgroundColor`:             "rgb(255, 204, 0)",
		`getComputedStyle(document.querySelector("form button[type=submit]")).color`:                       "rgb(0, 0, 0)",
		`document.querySelector(".card-foot a").href`:                                                      "mailto:help@example.org",
	} {
		if got := b.eval(expression); got != want {
			t.Errorf("%s is %q, not %q", expression, got, want)
		}
	}
	b.picture("look")
	for range 2 {
		from("127.0.0.1").login(t, s, "alice", "wrong")
	}
	b.send("alice", "wrong")
	b.until("the wait to be counted down in German", `document.querySelector("[data-wait]")?.innerText.includes("Warten Sie noch") && /Minuten|Stunde/.test(document.querySelector("[data-wait-for]")?.innerText)`)
	b.picture("look-wait")
	b.speaks("he")
	b.goTo(s.base + "/login")
	b.until("a page from right to left", `document.dir === "rtl" && document.querySelector("h1")?.innerText === "כניסה"`)
	b.goTo(s.base + "/static/logo")
	if id := b.eval(`document.documentElement.id`); id != "" {
		t.Error("a script in the logo ran")
	}

	file := filepath.Join(s.dir, "authguard.yaml")
	config, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	reload := func(more string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.Replace(string(config), pages, more, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = s.cmd.Process.Signal(syscall.SIGHUP)
	}
	shows := func(want string) func() bool {
		return func() bool { return strings.Contains(from("127.0.0.1").get(t, s.base+"/login").body, want) }
	}
	reload("pages: {name: Other}\nrealms: [{name: blog, hosts: [blog.example], pages: {name: Blog, color: '#102030'}}]\n")
	redistest.Until(t, "the new name", shows("<title>Sign in · Other</title>"))
	reader := from("127.0.0.1")
	reader.host = "blog.example"
	redistest.Until(t, "the name of another realm", func() bool {
		return strings.Contains(reader.get(t, s.base+"/login").body, "<title>Sign in · Blog</title>")
	})
	if css := reader.get(t, s.base+"/static/colours.css"); !strings.Contains(css.body, "#102030") || shows("colours.css")() {
		t.Errorf("each realm has a look of its own: %d %s", css.status, css.body)
	}
	write("logo.svg", "GIF89a")
	reload(pages)
	redistest.Until(t, "the reload to be refused", func() bool { return s.log.has("must be an SVG, PNG or JPEG file") })
	if !shows("<title>Sign in · Other</title>")() {
		t.Error("a look that cannot be used changed what was there")
	}
	if got := from("127.0.0.1").get(t, s.base+"/static/logo").status; got != http.StatusNotFound {
		t.Errorf("/static/logo without a logo: %d", got)
	}
}

func TestALookThatCannotBeUsedIsToldBeforeTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"logo.txt": "a logo", "it.yaml": "login.title: Accedi\nwait.again: \"tra {attesa}\"\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ yaml, want string }{
		{"pages: {name: Shop, logo: " + dir + "/none.svg}", "pages.logo: open " + dir + "/none.svg: no such file or directory"},
		{"pages: {name: Shop, logo: " + dir + "/logo.txt}", "pages.logo: must be an SVG, PNG or JPEG file"},
		{"pages: {texts: " + dir + "}", "it.yaml:2: wait.again: must have {wait}, as in English, and has {attesa}"},
		{"pages: {texts: " + dir + "/none}", "pages.texts: "},
		{"realms: [{name: shop, hosts: [shop.example], pages: {texts: " + dir + "}}]", "realms.shop: pages.texts: "},
	} {
		file := filepath.Join(dir, "authguard.conf")
		if err := os.WriteFile(file, []byte("data: "+filepath.Join(dir, "data")+"\n"+tc.yaml+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"config", "validate"}, {"config", "validate", "--json"}} {
			said := say(t, exec.Command(product, append(args, "-c", file)...), "")
			if all := said.out + said.complaints; said.status == 0 || !strings.Contains(all, tc.want) {
				t.Errorf("%v with %s: %d %s", args, tc.yaml, said.status, all)
			}
		}
	}
}
