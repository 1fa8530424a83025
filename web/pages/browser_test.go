package pages

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"authguard/internal/testing/browsertest"
	"authguard/web/static"
)

// Every page in every state: axe-core finds nothing on it by day, by night and on a phone.
// There it is no wider than the screen, and no higher than three without a way to jump.
func TestEveryPageIsAccessibleAndFitsAPhoneInABrowser(t *testing.T) {
	t.Parallel()
	all := samples()
	site := httptest.NewServer(shown(t, all))
	defer site.Close()
	tab := browsertest.Open(t)
	do := func(step chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(tab, step); err != nil {
			t.Fatal(err)
		}
	}
	do(browsertest.LoadAxe())
	for _, name := range slices.Sorted(maps.Keys(all)) {
		do(chromedp.Navigate(site.URL + "/sample/" + url.PathEscape(name)))
		if name == longWork {
			const long = `document.querySelector("[data-pow] [role=status]").textContent.includes("minutes in total")`
			if _, err := chromedp.Run(tab, chromedp.Poll[bool](long)); err != nil {
				t.Fatal(err)
			}
		}
		browsertest.Look(t, tab, "sample-"+strings.ReplaceAll(name, " ", "-"))
		if found, err := chromedp.Run(tab, browsertest.FitsAPhone()); err != nil || found != "" {
			t.Errorf("%s on a phone: %s %v", name, found, err)
		}
	}
}

// On a laptop no table of the Overview reaches into its panel's padding.
func TestTheOverviewsTablesFitTheirPanels(t *testing.T) {
	t.Parallel()
	all := samples()
	site := httptest.NewServer(shown(t, all))
	defer site.Close()
	tab := browsertest.Open(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(name, "now") {
			continue
		}
		err := errors.Join(chromedp.Do(tab, chromedp.EmulateViewport(1280, 800)),
			chromedp.Do(tab, chromedp.Navigate(site.URL+"/sample/"+url.PathEscape(name))))
		if err != nil {
			t.Fatal(err)
		}
		found, err := chromedp.Run(tab, chromedp.Evaluate[string](`[...document.querySelectorAll(".panel > table")].map(table =>
			[table.caption.textContent, table.offsetWidth - table.parentElement.clientWidth +
			2 * parseFloat(getComputedStyle(table.parentElement).paddingLeft)]).filter(of => of[1] > 0).join("; ")`))
		if err != nil || found != "" {
			t.Errorf("%s: wider than the panel: %s %v", name, found, err)
		}
	}
}

// Times are in the browser's zone, with UTC in the tooltip; so are the times that are typed.
func TestTimesAreInTheBrowsersZone(t *testing.T) {
	t.Parallel()
	all := samples()
	site := httptest.NewServer(shown(t, all))
	defer site.Close()
	tab := browsertest.Open(t)
	for _, page := range []struct{ sample, script, want string }{
		{"audit full", `document.querySelector("tbody time").textContent`, "2026-03-14 13:01:30 CET"},
		{"audit full", `document.querySelector("tbody time").title`, "2026-03-14 12:01:30 UTC"},
		{"audit full", `document.querySelector("[data-zone]").textContent`, "Europe/Berlin"},
		{"audit full", `document.getElementById("typed-zone").textContent + document.querySelector("input[name=zone]").value`,
			"Europe/BerlinEurope/Berlin"},
		{"audit full", `new URL(document.querySelector(".chips a").href).searchParams.get("zone")`, "Europe/Berlin"},
		{"now attacked", `document.querySelector("#live-clock").textContent`, "2026-03-14 13:00:30 CET"},
		{"lists full", `document.querySelector(".by time").title`, "2026-03-14 12:00:30 CET (2026-03-14 11:00:30 UTC)"},
		{"account all", `document.querySelector("time").textContent.slice(-4) + document.querySelector("time").title.slice(-4)`, " CET UTC"},
		// A part that the live page gets is changed as well, before it is compared.
		{"now attacked", `(() => {
			const part = document.createElement("p");
			part.innerHTML = '<time datetime="2026-07-14T22:30:00Z">22:30</time>';
			localTimes(part);
			return part.textContent;
		})()`, "2026-07-15 00:30"},
	} {
		if _, err := chromedp.Run(tab, browsertest.Zone("Europe/Berlin")); err != nil {
			t.Fatal(err)
		}
		if err := chromedp.Do(tab, chromedp.Navigate(site.URL+"/sample/"+url.PathEscape(page.sample))); err != nil {
			t.Fatal(err)
		}
		got, err := chromedp.Run(tab, chromedp.Evaluate[string](page.script))
		if err != nil || got != page.want {
			t.Errorf("%s: %s = %q, want %q %v", page.sample, page.script, got, page.want, err)
		}
	}
}

// The button beside a secret copies this secret, and says so.
func TestSecretsAreCopiedByTheirButton(t *testing.T) {
	t.Parallel()
	all := samples()
	site := httptest.NewServer(shown(t, all))
	defer site.Close()
	tab := browsertest.Open(t)
	const click = `(async () => {
		navigator.clipboard.writeText = async (text) => { window.copied = text; };
		const button = document.querySelector("[data-copy]");
		button.click();
		await new Promise(requestAnimationFrame);
		return [button.hidden, window.copied, button.textContent, button.nextElementSibling.textContent].join("|");
	})()`
	for sample, secret := range map[string]string{"security all": "abcd-efgh-ijkl-mnop", "accounts all": "abcdefgh"} {
		if err := chromedp.Do(tab, chromedp.Navigate(site.URL+"/sample/"+url.PathEscape(sample))); err != nil {
			t.Fatal(err)
		}
		got, err := chromedp.Run(tab, chromedp.Evaluate[string](click, chromedp.EvalAwaitPromise))
		if want := "false|" + secret + "|Copied|Copied"; err != nil || got != want {
			t.Errorf("%s: %q, want %q %v", sample, got, want, err)
		}
	}
}

// shown serves the samples, what they load, and pictures where theirs would be.
func shown(t *testing.T, all map[string]func() ([]byte, error)) http.Handler {
	t.Helper()
	dot := new(bytes.Buffer)
	if err := png.Encode(dot, image.NewGray(image.Rect(0, 0, 240, 80))); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, base := range []string{"", "/.authguard"} {
		mux.Handle(base+"/static/", http.StripPrefix(base+"/static", http.FileServerFS(static.Files)))
	}
	mux.HandleFunc("/sample/{name}", func(w http.ResponseWriter, r *http.Request) {
		page, err := all[r.PathValue("name")]()
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("/captcha/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".png") {
			_, _ = w.Write(dot.Bytes())
		}
	})
	return mux
}

var renders = regexp.MustCompile(`(?m)^func (Render\w+)\(`)

// Ensure that no page is left out of what is looked at.
func TestEveryPageHasASample(t *testing.T) {
	t.Parallel()
	samples, err := os.ReadFile("samples_test.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range renders.FindAllStringSubmatch(string(text), -1) {
			if found++; of[1] != "RenderLive" && !bytes.Contains(samples, []byte(of[1]+"(")) { // parts of the page Now
				t.Errorf("%s: no sample is drawn by %s", file, of[1])
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d pages", found)
	}
}
