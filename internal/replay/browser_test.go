package replay_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"authguard/internal/replay"
	"authguard/internal/testing/browsertest"
)

// A report with everything in it, and strangers' names wherever there is a text: axe-core
// finds nothing, and nothing is wider than a phone.
func TestAReportIsAccessibleAndFitsAPhoneInABrowser(t *testing.T) {
	t.Parallel()
	const hostile = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>\u202egpj"
	noon := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	buckets := []replay.Bucket{
		{At: noon, Guesses: 9, Checked: 5, Logins: 3, Hindered: 1},
		{At: noon.Add(time.Hour), Guesses: 90, Checked: 7, Logins: 4, Hindered: 2, Mode: true, Nearest: replay.Nearest{Pressure: 3, Threshold: 30}},
		{At: noon.Add(2 * time.Hour), Logins: 2},
	}
	sheet := replay.Sheet{Title: hostile, Lead: hostile, Notes: []string{hostile}, Foot: hostile, Names: []string{"as it is", hostile}}
	sheet.Add("wrong passwords", "1,234", "1,234")
	sheet.Add("  looked at", "12", hostile)
	table := replay.Table{Name: "addresses", Heads: []string{"address", "guesses"}, Rows: [][]string{{"203.0.113.9", "99"}, {strings.Repeat("wide", 40), hostile}}}
	for _, name := range sheet.Names {
		sheet.Sections = append(sheet.Sections, replay.Section{
			Name: name, Lines: []string{hostile}, Tables: []replay.Table{table}, Paste: "limits:\n  address: [10/1m challenge]",
			Charts: replay.Charts(buckets, hostile),
		})
	}
	page := new(bytes.Buffer)
	if err := sheet.Page(page); err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page.Bytes())
	}))
	defer site.Close()
	tab := browsertest.Open(t)
	if err := chromedp.Do(tab, chromedp.Navigate(site.URL)); err != nil {
		t.Fatal(err)
	}
	browsertest.Look(t, tab, "report")
	if found, err := chromedp.Run(tab, browsertest.FitsAPhone()); err != nil || found != "" {
		t.Errorf("on a phone: %s %v", found, err)
	}
}
