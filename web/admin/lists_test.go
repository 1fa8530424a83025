package admin_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/lists"
	"authguard/internal/operation"
)

// importing posts the form of the page Lists, with a file if there is one.
func (c *counter) importing(t *testing.T, file string, f url.Values) (status int, to, body string) {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for name := range f {
		_ = w.WriteField(name, f.Get(name))
	}
	if file != "" {
		part, _ := w.CreateFormFile("file", "list.txt")
		_, _ = part.Write([]byte(file))
	}
	_ = w.Close()
	return c.send(t, c.request(t, http.MethodPost, "/lists/import", form.String(), w.FormDataContentType()))
}

func TestTheListsPageShowsWhatWillHappenBeforeItDoes(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "admin", accounts.Admin, false)
	csrf := c.csrf(t, "/lists")
	form := func(more ...string) url.Values {
		f := url.Values{"csrf": {csrf}, "back": {"/lists"}, "verdict": {"block"}, "for": {"24h"}}
		for i := 0; i+1 < len(more); i += 2 {
			f.Set(more[i], more[i+1])
		}
		return f
	}
	file := "203.0.113.0/24 from the SOC\n<img src=x onerror=alert(1)>\n203.0.113.9 =cmd()\u202e\n127.0.0.0/8\n"
	status, _, body := c.importing(t, file, form("note", "a botnet"))
	for _, want := range []string{
		"3 ranges will be blocked for 24 hours", "1 invalid line", "<b>Line 2</b>", "not an address or range: &#34;&lt;img&#34;",
		"contains your own IP address 127.0.0.1: you would lock yourself out of the site", "<span>Block 2 ranges until <time", "</time>, leave out 1 invalid line and 1 doubtful range</span></button>", `name="lock_out" value="true"><span>Block 3 ranges until `, "and lock yourself out</span></button>",
	} {
		if !strings.Contains(body, want) || status != http.StatusOK {
			t.Errorf("%d: the preview lacks %q", status, want)
		}
	}
	if strings.Contains(body, "<img") || strings.Contains(body, "\u202e") && strings.Contains(body, ">203.0.113.9 =cmd()\u202e<") {
		t.Error("strangers' text is markup")
	}
	if all, _ := c.control.Lists.Entries(t.Context()); len(all) != 0 {
		t.Fatalf("a preview has listed %d ranges", len(all))
	}
	status, to, _ := c.importing(t, "", form("text", file, "note", "a botnet", "confirm", "true", "skip_bad", "true"))
	if status != http.StatusSeeOther || to != "/lists" {
		t.Fatalf("confirmed: %d to %s", status, to)
	}
	_, _, body = c.get(t, "/lists?find=203.0.113.9")
	for _, want := range []string{
		"Blocked until ", ": 2 ranges.", "Left out: 1 invalid line and 1 doubtful range.", "Blocked by 203.0.113.9.", "=cmd()", "U&#43;202E", "from the SOC", "2 entries",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Index(body, "<code>203.0.113.9</code>") > strings.Index(body, "<code>203.0.113.0/24</code>") || strings.Contains(body, "<code>127.0.0.0/8</code>") {
		t.Error("not what covers the address, the narrowest first")
	}
	c.undo(t, body) // of the whole import
	if all, _ := c.control.Lists.Entries(t.Context()); len(all) != 0 {
		t.Errorf("%d entries after Undo", len(all))
	}
	c.importing(t, "", form("text", file, "note", "a botnet", "confirm", "true", "skip_bad", "true", "lock_out", "true"))
	if c.Lists.Look(netip.MustParseAddr("127.0.0.9"), c.Clock.Now()) != guard.Blocked {
		t.Error("the second button leaves out the doubtful range")
	}
	if what, who, _ := c.recorded(t); what != "block-import" || who != "admin:admin" {
		t.Errorf("on record: %s by %s", what, who)
	}
	// One range has a preview as well, whose button says what it does.
	status, _, body = c.importing(t, "", form("text", "198.51.100.7", "verdict", "allow"))
	if status != http.StatusOK || !strings.Contains(body, "<span>Allow 198.51.100.7 until <time") ||
		c.Lists.Look(netip.MustParseAddr("198.51.100.7"), c.Clock.Now()) != guard.NotListed {
		t.Errorf("one range: %d %s", status, body)
	}
	if status, _, _ := c.importing(t, "", form("text", "198.51.100.7", "verdict", "allow", "confirm", "true")); status != http.StatusSeeOther {
		t.Errorf("one range, confirmed: %d", status)
	}
	if _, _, body := c.get(t, "/lists"); !strings.Contains(body, "Allowed until ") || !strings.Contains(body, "198.51.100.7/32") || !undoForm.MatchString(body) {
		t.Error("the notice does not say which range, or has no Undo")
	}
	if status, _, body := c.importing(t, "", form("text", "198.51.100.0/24")); status != http.StatusOK || !strings.Contains(body, "contains 198.51.100.7/32, which stays on the other list (allow)") {
		t.Errorf("one that overlaps the other list: %d", status)
	}
	c.changes(t, csrf)
	for name, one := range map[string]struct {
		form   url.Values
		file   string
		status int
	}{
		"without a token": {url.Values{"verdict": {"block"}, "text": {"192.0.2.1"}}, "", http.StatusForbidden},
		"no list":         {form("verdict", "maybe", "text", "192.0.2.1"), "", http.StatusUnprocessableEntity},
		"no time":         {form("for", "soon", "text", "192.0.2.1"), "", http.StatusUnprocessableEntity},
		"a long note":     {form("note", strings.Repeat("x", 501), "text", "192.0.2.1"), "", http.StatusUnprocessableEntity},
		"a large file":    {form(), strings.Repeat("192.0.2.1\n", lists.MaxImport/10+10), http.StatusRequestEntityTooLarge},
	} {
		if status, _, body := c.importing(t, one.file, one.form); status != one.status {
			t.Errorf("%s: %d, want %d: %.200s", name, status, one.status, body)
		}
	}
	if status, _, _ := c.post(t, "/lists/import", form("text", "192.0.2.1")); status != http.StatusUnsupportedMediaType {
		t.Errorf("another kind of form: %d", status)
	}
	if c.Lists.Look(netip.MustParseAddr("192.0.2.1"), c.Clock.Now()) != guard.NotListed {
		t.Error("a refused form has listed something")
	}
}

// changes prolongs and removes entries on the page.
func (c *counter) changes(t *testing.T, csrf string) {
	t.Helper()
	form := url.Values{"csrf": {csrf}, "back": {"/lists?find=203.0.113.9"}, "cidr": {"203.0.113.9/32"}, "for": {"forever"}}
	if status, to, _ := c.post(t, "/lists/prolong", form); status != http.StatusSeeOther || to != "/lists?find=203.0.113.9" {
		t.Errorf("prolonged: %d to %s", status, to)
	}
	if _, _, body := c.get(t, "/lists?find=203.0.113.9"); !strings.Contains(body, "Extended:") || strings.Count(body, `data-label="Until">permanent</td>`) != 1 {
		t.Error("it is not prolonged")
	}
	c.post(t, "/lists/remove", form)
	_, _, body := c.get(t, "/lists?find=203.0.113.9")
	if !strings.Contains(body, "Removed from the list:") || !strings.Contains(body, "Blocked by 203.0.113.0/24.") {
		t.Error("it is not removed")
	}
	c.post(t, "/lists/remove", form)
	if _, _, body = c.get(t, "/lists"); !strings.Contains(body, "Nothing was changed.") {
		t.Error("what was not there was removed")
	}
}

func TestTheListsPageHasPages(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "admin", accounts.Admin, false)
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, "203.0.113.%d note%d\n", i, i)
	}
	if _, err := c.control.Do(t.Context(), operation.By{Who: "x"}, lists.ImportLists{Verdict: lists.Block, Text: text.String()}); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for page, rows := range map[string]int{"": 25, "?page=2": 15, "?page=99": 15, "?find=note1&page=1": 11, "?verdict=allow": 0, "?page=x&verdict=maybe": 25} {
		_, _, body := c.get(t, "/lists"+page)
		if got := strings.Count(body, `<th scope="row">`); got != rows {
			t.Errorf("%q shows %d entries, want %d", page, got, rows)
		}
		for _, part := range strings.Split(body, "<code>203.0.113.")[1:] {
			seen[part[:3]] = true
		}
	}
	if _, _, body := c.get(t, "/lists"); strings.Index(body, ">203.0.113.2<") > strings.Index(body, ">203.0.113.10<") {
		t.Error("the entries are not sorted by address")
	}
	if len(seen) != 40 {
		t.Errorf("%d of 40 entries are on some page", len(seen))
	}
	if _, _, body := c.get(t, "/lists?find=note1&page=1"); !strings.Contains(body, `value="note1"`) {
		t.Error("what was looked for is forgotten")
	}
}

// Selected entries are removed after a preview that names and counts them. Undo restores them with note and expiry.
func TestSelectedEntriesAreRemovedAndRestored(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "admin", accounts.Admin, false)
	for _, q := range []any{lists.ListRange{CIDR: "192.0.2.1", Verdict: lists.Block, For: "24h", Note: "<one>"},
		lists.ListRange{CIDR: "192.0.2.2", Verdict: lists.Allow, For: "forever", Note: "two, \"quoted\""},
		lists.ListRange{CIDR: "192.0.2.3", Verdict: lists.Block}} {
		_, err := c.control.Do(t.Context(), operation.By{Who: "x"}, q)
		c.must(t, err)
	}
	before, err := c.control.Lists.Entries(t.Context())
	c.must(t, err)
	_, _, body := c.get(t, "/lists?remove=192.0.2.1/32&remove=192.0.2.2/32&remove=192.0.2.77/32")
	for _, want := range []string{"Remove 2 entries?", ">Remove 2 entries</button>", "&lt;one&gt;", `name="ranges" value="192.0.2.1/32 192.0.2.2/32"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the preview lacks %q", want)
		}
	}
	if all, _ := c.control.Lists.Entries(t.Context()); len(all) != 3 {
		t.Fatalf("the preview leaves %d entries", len(all))
	}
	page := c.submit(t, "/lists/unlist", url.Values{"ranges": {"192.0.2.1/32 192.0.2.2/32"}})
	if all, _ := c.control.Lists.Entries(t.Context()); len(all) != 1 || !strings.Contains(page, "Removed from the lists: 2 entries.") {
		t.Errorf("%d entries are left", len(all))
	}
	page = c.undo(t, page)
	after, err := c.control.Lists.Entries(t.Context())
	c.must(t, err)
	for _, one := range before {
		if !slices.ContainsFunc(after, func(e lists.Entry) bool {
			return e.Prefix == one.Prefix && e.Verdict == one.Verdict && e.Note == one.Note && e.ExpiresAt.Equal(one.ExpiresAt)
		}) {
			t.Errorf("%+v is not restored: %+v", one, after)
		}
	}
	c.undo(t, page) // and once more
	if all, _ := c.control.Lists.Entries(t.Context()); len(all) != 1 {
		t.Errorf("%d entries are left", len(all))
	}
	for _, form := range []url.Values{{}, {"ranges": {"nonsense"}}, {"created": {"soon"}}, {"ranges": {"192.0.2.99"}}} {
		if page := c.submit(t, "/lists/unlist", form); !strings.Contains(page, "Nothing was changed.") {
			t.Errorf("%v is accepted", form)
		}
	}
	for _, entries := range []string{"", "[{}]", `[{"cidr":"127.0.0.0/8","verdict":"block"}]`, `[{"cidr":"0.0.0.0/0","verdict":"allow"}]`} {
		if page := c.submit(t, "/lists/restore", url.Values{"entries": {entries}}); !strings.Contains(page, "Nothing was changed.") {
			t.Errorf("%q is accepted", entries)
		}
	}
}

func TestTheAPIImportsLists(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	bad := `{"text":"192.0.2.1\nnonsense\n","verdict":"block","note":"x","dry_run":true}`
	var plan lists.Plan
	o.mustAsk(t, "POST", "/api/lists/import", bad, &plan)
	if plan.Imported || plan.New != 1 || plan.Bad != 1 || plan.Problems[0].Line != 2 {
		t.Errorf("planned: %+v", plan)
	}
	if status, body := o.ask(t, "POST", "/api/lists/import", strings.Replace(bad, "true", "false", 1), nil); status != 400 || !strings.Contains(body, "nothing was imported: line 2 not an address") {
		t.Errorf("a bad line: %d %s", status, body)
	}
	o.mustAsk(t, "POST", "/api/lists/import", strings.Replace(bad, `"dry_run":true`, `"skip_bad":true`, 1), &plan)
	if !plan.Imported || plan.New != 1 {
		t.Errorf("imported: %+v", plan)
	}
	o.mustAsk(t, "POST", "/api/lists/prolong", `{"cidr":"192.0.2.1","for":"30d"}`, nil)
	if what, _, subject := o.recorded(t); what != "prolong" || subject != "192.0.2.1/32" {
		t.Errorf("on record: %s %s", what, subject)
	}
	var all lists.Listed
	o.mustAsk(t, "GET", "/api/lists?find=192.0.2.1&verdict=block", "", &all)
	if len(all.Entries) != 1 || all.Entries[0].ExpiresAt.Sub(o.Clock.Now()).Hours() != 720 || all.Total != 1 {
		t.Errorf("listed: %+v", all)
	}
	for question, want := range map[string]int{
		`{"text":"192.0.2.1","verdict":"maybe"}`: 400, `{"text":"192.0.2.1","verdict":"block","from":"me"}`: 400, `{"text":"# no","verdict":"block"}`: 400, `{"cidr":"192.0.2.1"}`: 400,
	} {
		if status, body := o.ask(t, "POST", "/api/lists/import", question, nil); status != want {
			t.Errorf("%s: %d %s", question, status, body)
		}
	}
	if status, body := o.ask(t, "POST", "/api/lists/prolong", `{"cidr":"192.0.2.9"}`, nil); status != 404 {
		t.Errorf("prolonged what is not there: %d %s", status, body)
	}
	if status, _ := o.ask(t, "GET", "/api/lists?verdict=x", "", nil); status != 400 {
		t.Errorf("a verdict that is none: %d", status)
	}
}
