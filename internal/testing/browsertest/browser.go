// Package browsertest opens a real Chromium and has axe-core look at what it shows. For
// tests only.
package browsertest

import (
	"cmp"
	"compress/gzip"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// shared is the Chromium of a package's tests, between Share and Close.
var shared struct {
	mu   sync.Mutex
	on   bool
	ctx  context.Context
	stop []context.CancelFunc
}

// Share lets the tabs of a package's tests share one Chromium, until Close. It is for TestMain.
func Share() { shared.on = true }

// Close ends the Chromium that Share asked for.
func Close() {
	for _, stop := range slices.Backward(shared.stop) {
		stop()
	}
}

// Open opens a tab with an empty profile, which the context stands for. It ends with the test. With options, the tab
// has a Chromium of its own.
func Open(t testing.TB, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	if !shared.on || len(more) > 0 {
		ctx, stop, err := start(more...)
		for _, one := range stop {
			t.Cleanup(one)
		}
		if err != nil {
			t.Fatal(err)
		}
		return ctx
	}
	ctx, cancel := chromedp.NewContext(browser(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, focused()); err != nil {
		t.Fatalf("a new tab: %v", err)
	}
	return ctx
}

// focused gives a tab the focus, whichever other one has it too.
func focused() chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(
			ctx, t, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true},
		)
		return err
	})
}

// browser is the shared Chromium, which the first test starts.
func browser(t testing.TB) context.Context {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.ctx == nil {
		ctx, stop, err := start()
		shared.stop = stop
		if err != nil {
			t.Fatal(err)
		}
		shared.ctx = ctx
	}
	return shared.ctx
}

// start starts a Chromium with one tab. stop ends it, the last first.
func start(more ...chromedp.ExecAllocatorOption) (ctx context.Context, stop []context.CancelFunc, err error) {
	options := append(
		chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox,
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.WindowSize(1280, 900),
		chromedp.WSURLReadTimeout(time.Hour),
	)
	ctx, end := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
	ctx, leave := chromedp.NewContext(ctx)
	if err = chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		err = fmt.Errorf("starting Chromium (apt-get install chromium): %w", err)
	}
	return ctx, []context.CancelFunc{end, leave}, err
}

// Scripts says whether the pages of a tab run scripts of their own.
func Scripts(run bool) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(
			ctx,
			t,
			emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: !run},
		)
		return err
	})
}

// Zone sets the time zone of a tab, such as Europe/Berlin.
func Zone(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name})
		return err
	})
}

// PhoneHeight is how high the screen of a phone is, in pixels.
const PhoneHeight = 844

// Look has axe-core look at the page that a tab shows, by day, by night and on a phone, and
// keeps a picture of each if PICTURES names a folder. The tab still shows the last.
func Look(t testing.TB, tab context.Context, name string) {
	t.Helper()
	for _, shape := range []struct {
		name, scheme  string
		width, height int64
		look          func(context.Context) (string, error)
	}{
		{"light", "light", 1280, 900, Axe}, {"dark", "dark", 1280, 900, contrast}, {"phone", "light", 360, PhoneHeight, Axe},
	} {
		found := ""
		err := cmp.Or(
			chromedp.Do(tab, scheme(shape.scheme)),
			chromedp.Do(tab, chromedp.EmulateViewport(shape.width, shape.height)),
		)
		if err == nil {
			found, err = shape.look(tab)
		}
		if folder := os.Getenv("PICTURES"); err == nil && folder != "" {
			err = picture(tab, filepath.Join(folder, name+"-"+shape.name+".png"))
		}
		if err != nil {
			t.Fatalf("%s, %s: %v", name, shape.name, err)
		}
		if found != "" {
			t.Errorf("%s, %s: axe-core finds %s", name, shape.name, found)
		}
	}
}

// scheme has a tab show its pages in the colours of the day or of the night, and no colour
// half way.
func scheme(of string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: of},
				{Name: "prefers-reduced-motion", Value: "reduce"},
			},
		})
		return err
	})
}

func picture(tab context.Context, file string) error {
	shot, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
	if err != nil {
		return err
	}
	return os.WriteFile(file, shot, 0o600)
}

//go:embed axe.min.js.gz
var files embed.FS

// AxeText is the text of axe-core.
func AxeText() (string, error) {
	file, err := files.Open("axe.min.js.gz")
	if err != nil {
		return "", err
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(unpacked)
	return string(text), err
}

// LoadAxe has every page that a tab opens from now on bring axe-core along. Without it Axe
// sends the text anew to each page, which costs more than looking.
func LoadAxe() chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		text, err := AxeText()
		if err == nil {
			_, err = cdp.Call(
				ctx,
				t,
				page.AddScriptToEvaluateOnNewDocument,
				page.AddScriptToEvaluateOnNewDocumentParams{Source: text},
			)
		}
		return err
	})
}

// everything is WCAG 2.2 AA, and what axe-core holds to be good practice.
const everything = `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`

// Axe is what axe-core finds wrong with the page that a tab shows; empty if nothing is. It
// comes in past the Content-Security-Policy, as the debugger does.
func Axe(ctx context.Context) (found string, err error) {
	return run(ctx, everything)
}

// contrast is Axe for the colours alone: all that another colour scheme changes.
func contrast(ctx context.Context) (found string, err error) {
	return run(ctx, `{type: "rule", values: ["color-contrast", "link-in-text-block"]}`)
}

func run(ctx context.Context, only string) (string, error) {
	here, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`typeof axe == "object"`))
	if err == nil && !here {
		var text string
		if text, err = AxeText(); err == nil {
			err = chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](text+";undefined"))
		}
	}
	if err != nil {
		return "", err
	}
	// From the top: what stays in view hides nothing there.
	found, err := chromedp.Run(
		ctx,
		chromedp.Evaluate[[]string](`(scrollTo(0, 0), axe).run({runOnly: `+only+`, resultTypes: ["violations"]}).then(all =>
		all.violations.map(v => v.id + ": " + v.nodes.map(n => n.html.slice(0, 200)).join(" ")))`, chromedp.EvalAwaitPromise),
	)
	return strings.Join(found, "; "), err
}

// FitsAPhone is what a page in the shape of a phone does wrong: wider than the screen, or
// higher than three of them without links to its parts that stay in view. Empty: nothing.
func FitsAPhone() chromedp.Action[string] {
	return chromedp.Evaluate[string](`(() => {
		scrollTo(0, document.body.scrollHeight)
		const page = document.documentElement, jumps = document.querySelector("nav.jumps"), said = []
		const clipped = e => { while (e = e.parentElement) if (e != document.body && getComputedStyle(e).overflowX != "visible") return true }
		if (page.scrollWidth > innerWidth) said.push(page.scrollWidth + " pixels wide: " + [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !clipped(e)).slice(0, 3).map(e => e.outerHTML.slice(0, 120)).join(" "))
		if (page.scrollHeight > 3 * innerHeight && !(jumps && jumps.querySelector("a[href^='#']") && jumps.getBoundingClientRect().top > -2 && jumps.getBoundingClientRect().top < innerHeight)) said.push(page.scrollHeight + " pixels high, and nothing to jump with")
		return said.join("; ")
	})()`)
}

// Left reports whether an expression got no value because its page was being left.
func Left(err error) bool {
	gone, ok := errors.AsType[*cdproto.Error](err)
	return ok && gone.Code == -32000 // Inspected target navigated or closed
}
