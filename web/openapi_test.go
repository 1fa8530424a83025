package web_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/testing/apitest"
	"authguard/internal/testing/world"
	"authguard/trusted"
	"authguard/web"
)

func TestTheDocumentHasEveryPathOfTheAPI(t *testing.T) {
	t.Parallel()
	b, served := newBackEnd(t), map[string]bool{}
	for _, r := range b.echo.Routes() {
		if strings.HasPrefix(r.Path, "/v1/") && r.Method != http.MethodHead {
			served[r.Method+" "+r.Path] = true
		}
	}
	written := map[string]bool{}
	for path, item := range apitest.Document(t).Paths.Map() {
		for method := range item.Operations() {
			written[method+" "+regexp.MustCompile(`\{(\w+)\}`).ReplaceAllString(path, ":$1")] = true
		}
	}
	if !maps.Equal(served, written) {
		t.Errorf("served: %v\nin the document: %v", served, written)
	}
}

func TestTheDocumentIsServedToAnybody(t *testing.T) {
	t.Parallel()
	b := newBackEnd(t)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		w := apitest.Do(t, b.doors, httptest.NewRequest(method, "/v1/openapi.json", nil))
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || method == http.MethodGet && w.Body.String() != string(web.OpenAPI) {
			t.Errorf("%s: %d %s", method, w.Code, w.Header())
		}
	}
}

// Every reason that a decision can have is in the document.
func TestTheDocumentHasEveryReason(t *testing.T) {
	t.Parallel()
	reasons := apitest.Document(t).Components.Schemas["Reasons"].Value.Items.Value
	known := regexp.MustCompile(reasons.Pattern)
	never := map[guard.Cause]string{guard.BadAccountName: "400", guard.StoreFailed: "503"}
	for c := guard.NoCause + 1; c <= guard.SprayedAsks; c++ {
		subjects := []guard.SubjectKind{guard.NoSubject}
		if c == guard.LimitReached {
			subjects = []guard.SubjectKind{guard.OnPair, guard.OnAddress, guard.OnNetwork, guard.OnAccount, guard.OnKnownClient, guard.OnSite, guard.OnSubject, guard.OnIdentity}
		}
		for _, on := range subjects {
			for _, monitored := range []bool{false, true} {
				code := guard.Reason{Cause: c, Subject: on, Monitored: monitored}.Code()
				if known.MatchString(code) == (never[c] != "") {
					t.Errorf("%q matches: %v", code, known.MatchString(code))
				}
			}
		}
	}
}

// cut is a store that does not answer.
type cut struct{ challenge.Spent }

func (cut) Spend(context.Context, [16]byte, time.Time) (bool, error) {
	return false, errors.New("on purpose")
}

// promised is every answer of the document: path, status, and the decision or the
// problem's type.
func promised(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for path, item := range apitest.Document(t).Paths.Map() {
		for _, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				kinds := []string{""}
				if problem := response.Value.Content["application/problem+json"]; problem != nil {
					kind := problem.Schema.Value.AllOf[1].Value.Properties["type"].Value
					kinds = []string{fmt.Sprint(kind.Const)}
					if len(kind.Enum) > 0 {
						kinds = strings.Fields(strings.Trim(fmt.Sprint(kind.Enum), "[]"))
					}
				} else if body := response.Value.Content["application/json"]; body != nil && body.Schema.Value.Discriminator != nil {
					kinds = slices.Collect(maps.Keys(body.Schema.Value.Discriminator.Mapping))
				}
				for _, kind := range kinds {
					all[strings.TrimSpace(path+" "+status+" "+kind)] = true
				}
			}
		}
	}
	return all
}

// TestEveryAnswerOfTheDocumentIsGiven holds the document against the handlers the
// other way round: what it tells of happens.
func TestEveryAnswerOfTheDocumentIsGiven(t *testing.T) {
	t.Parallel()
	const begin, settle, batch, event = "/v1/attempts", "/v1/attempts/settle", "/v1/attempts/settle/batch", "/v1/events/"
	const verify, check = "/v1/codes/verify", "/v1/passwords/check"
	given := map[string]bool{}
	send := func(to http.Handler, path, body string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		for header := range slices.Chunk(append([]string{"Authorization", "Bearer token", "Content-Type", "application/json"}, headers...), 2) {
			r.Header.Set(header[0], header[1])
		}
		w := apitest.Do(t, to, r)
		var said struct{ Decision, Type string }
		_ = json.Unmarshal(w.Body.Bytes(), &said)
		if strings.HasPrefix(path, event) {
			path = event + "{name}"
		}
		given[strings.TrimSpace(fmt.Sprint(path, " ", w.Code, " ", said.Decision+said.Type))] = true
		return w
	}
	policy := guard.DefaultPolicy()
	policy.Events = map[string][]guard.EventLimit{
		"block":     {{Count: 1, Window: time.Hour, Action: guard.Block, By: guard.OnSubject}},
		"delay":     {{Count: 1, Window: time.Hour, Action: guard.Delay, By: guard.OnSubject}},
		"challenge": {{Count: 1, Window: time.Hour, Action: guard.Challenge, By: guard.OnSubject}},
		"account":   {{Count: 1, Window: time.Hour, Action: guard.Block, By: guard.OnAccount}},
	}
	b := newBackEndOf(t, world.Options{Policy: &policy})
	attempt := func(account, address, more string) string {
		return fmt.Sprintf(`{"account":%q,"address":%q%s}`, account, address, more)
	}
	ask := func(account, address, more string) (ticket string) {
		var d struct{ Ticket string }
		_ = json.Unmarshal(send(b.doors, begin, attempt(account, address, more)).Body.Bytes(), &d)
		return d.Ticket
	}
	outcome := func(ticket, outcome string) string { return fmt.Sprintf(`{"ticket":%q,"outcome":%q}`, ticket, outcome) }

	for range 3 {
		b.Wrong(t, "carol", "192.0.2.3")
	}
	ask("carol", "192.0.2.3", "") // delay
	for i := range 5 {
		b.Wrong(t, "bob", fmt.Sprintf("198.51.100.%d", i))
	}
	ask("bob", "192.0.2.1", "") // challenge
	b.Lists.Set([]guard.Listing{{Prefix: netip.MustParsePrefix("203.0.113.7/32"), Verdict: guard.Blocked}})
	ask("dora", "203.0.113.7", "") // block
	usual := b.Policy()
	hole := usual
	hole.Account = []guard.Limit{{Failures: 1, Window: time.Hour, Action: guard.FakeFailure}}
	if err := b.SetPolicy(hole); err != nil {
		t.Fatal(err)
	}
	b.Wrong(t, "frank", "192.0.2.8")
	send(b.doors, settle, outcome(ask("frank", "192.0.2.9", ""), "succeeded")) // fake-failure, and insufficient
	if err := b.SetPolicy(usual); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"block", "delay", "challenge", "block", "delay", "challenge", "unknown"} {
		send(b.doors, event+name, `{"subject":"room 12","inline":["image"]}`)
	}
	ask("", "192.0.2.2", "")
	send(b.doors, event+"account", `{"account":"a\u0000b"}`)
	once := ask("alice", "192.0.2.1", "")
	send(b.doors, settle, outcome(once, "succeeded"))
	send(b.doors, settle, outcome(once, "succeeded")) // settled already
	for i := range 10 {
		send(b.doors, settle, outcome(ask(fmt.Sprint("victim", i), fmt.Sprintf("198.51.%d.1", i), `,"password_tag":"common"`), "failed"))
	}
	ask("eve", "203.0.113.1", `,"password_tag":"common"`) // challenge
	last := ask("alice", "192.0.2.1", "")
	b.Clock.Advance(guard.TicketTTL - time.Millisecond)
	if w := send(b.doors, settle, outcome(last, "failed")); w.Code != http.StatusNoContent || guard.TicketTTL != 5*time.Minute {
		t.Errorf("in its last moment a ticket is answered %d, and it lives for %v", w.Code, guard.TicketTTL)
	}
	late := ask("alice", "192.0.2.1", "")
	b.Clock.Advance(guard.TicketTTL)
	send(b.doors, settle, outcome(late, "failed")) // expired
	send(b.doors, batch, `{"attempts":[`+outcome(late, "failed")+`]}`)
	stuffed := newBackEnd(t)
	for i := range 11 {
		stuffed.Mode.Observe(captchamode.Failure, [16]byte{byte(i)})
	}
	var begun struct{ Ticket string }
	var required struct{ Code string }
	one := attempt("erin", "192.0.2.21", `,"sends_code":true`)
	_ = json.Unmarshal(send(stuffed.doors, begin, one).Body.Bytes(), &begun)
	_ = json.Unmarshal(send(stuffed.doors, settle, outcome(begun.Ticket, "succeeded")).Body.Bytes(), &required)
	for _, code := range []string{"AAAA-AAAA-AAAA-AAAA", required.Code, required.Code} { // the second time it is known
		stuffed.Clock.Advance(5 * time.Second)
		w := send(stuffed.doors, verify, attempt("erin", "192.0.2.21", fmt.Sprintf(`,"code":%q`, code)))
		valid := code == required.Code
		if said := strings.Contains(w.Body.String(), `"proceed"`); said != valid || (w.Header().Get("Authguard-Device") != "") != valid {
			t.Errorf("%q is answered %s %v", code, w.Body, w.Header())
		}
	}
	if st := stuffed.Status(t, "erin", "192.0.2.21"); st != trusted.Known {
		t.Errorf("after the code the client is %v", st)
	}
	send(stuffed.doors, verify, attempt("", "192.0.2.21", ""))
	const hash = `{"sha1":"5baa61e4c9b93f3f0682250b6cf8331b7ee68fd8"}`
	send(b.doors, check, hash) // there is no list
	b.leaked.Configure(leakedList(t, "password"), true)
	send(b.doors, check, hash)
	cutOff := web.NewEcho("", nil, quiet)
	(&web.API{Guard: b.Guard, Settled: cut{}, Tokens: oneToken(), Later: func(time.Duration, func()) {}, Media: func(context.Context, string, string) (challenge.Media, error) {
		return challenge.Media{}, challenge.ErrBusy
	}}).Routes(cutOff)
	send(cutOff, begin, attempt("bob", "192.0.2.1", `,"inline":["image"]`))
	send(cutOff, event+"challenge", `{"subject":"room 12","inline":["audio"]}`)
	noStore := web.NewEcho("", nil, quiet)
	(&web.API{Guard: b.Second(t, func(c *guard.Config) { c.Store = deaf{c.Store} }).Guard, Tokens: oneToken()}).Routes(noStore)
	send(noStore, verify, attempt("alice", "192.0.2.1", ""))
	send(cutOff, settle, outcome(ask("alice", "192.0.2.1", ""), "failed"))
	broken := web.NewEcho("", nil, quiet)
	(&web.API{Tokens: oneToken()}).Routes(broken)
	for path, body := range map[string]string{
		begin: attempt("alice", "192.0.2.1", ""), verify: attempt("alice", "192.0.2.1", ""), event + "block": `{"subject":"room 12"}`, settle: outcome("xxxx", "failed"), batch: `{"attempts":[` + outcome("xxxx", "failed") + `]}`, check: hash,
	} {
		send(broken, path, body)
		send(b.doors, path, `{"no":"field"}`)
		send(b.doors, path, `{"account":"`+strings.Repeat("x", 130<<10)+`"}`)
		send(b.doors, path, body, "Content-Type", "application/x-www-form-urlencoded")
		send(b.doors, path, body, "Authorization", "Bearer another")
		send(b.doors, path, body, "Sec-Fetch-Site", "cross-site")
	}
	w := apitest.Do(t, b.doors, httptest.NewRequest(http.MethodGet, "/v1/openapi.json", nil))
	given[fmt.Sprint("/v1/openapi.json ", w.Code)] = true
	for answer := range promised(t) {
		if !given[answer] {
			t.Errorf("the document tells of %q, which nobody was answered", answer)
		}
	}
}

// settled is what a batch is answered.
func (b *backEnd) settleBatch(t *testing.T, attempts ...map[string]string) (results []struct {
	Status       int
	Type, Device string
}) {
	t.Helper()
	out := struct{ Results any }{&results}
	if status := b.post(t, "/v1/attempts/settle/batch", map[string]any{"attempts": attempts}, &out); status != http.StatusOK {
		t.Fatalf("answered %d", status)
	}
	return results
}

func TestABatchIsSettledInItsOrderEachForItself(t *testing.T) {
	t.Parallel()
	b := newBackEnd(t)
	of := func(ticket, outcome string) map[string]string {
		return map[string]string{"ticket": ticket, "outcome": outcome}
	}
	one, two, three := b.begin(t), b.begin(t), b.begin(t)
	mistaken := fmt.Sprintf(`{"attempts":[{"ticket":%q,"outcome":"succeeded"},{"ticket":%q,"outcome":"perhaps"}]}`, one, two)
	problem(t, b.ask("POST", "/v1/attempts/settle/batch", mistaken), http.StatusBadRequest, web.InvalidRequest) // and settles nothing
	results := b.settleBatch(t, of(one, "failed"), of("nonsense", "failed"), of(two, "succeeded"), of(two, "failed"), of(three, "abandoned"))
	want := []string{"204 ", "400 invalid-request", "204 ", "409 already-settled", "204 "}
	for i, r := range results {
		if got := fmt.Sprintf("%d %s", r.Status, r.Type); got != want[i] || (r.Device != "") != (i == 2) {
			t.Errorf("the %d. is answered %s with device %q", i+1, got, r.Device)
		}
	}
	e, err := b.Explain(t.Context(), "alice", netip.MustParseAddr("192.0.2.1"))
	for _, line := range e.Lines {
		if line.Subject == guard.OnAddress && line.Used != 1 || err != nil {
			t.Errorf("%d failures are counted for the address, not the one (%v)", line.Used, err)
		}
	}
}

func TestABatchIsBoundedAndEndsWithTheStore(t *testing.T) {
	t.Parallel()
	b := newBackEnd(t)
	for _, n := range []int{0, 101} {
		body := `{"attempts":[` + strings.TrimSuffix(strings.Repeat(`{"ticket":"x","outcome":"failed"},`, n), ",") + `]}`
		if p := problem(t, b.ask("POST", "/v1/attempts/settle/batch", body), http.StatusBadRequest, web.InvalidRequest); p.Detail != "attempts: send 1 to 100 of them." {
			t.Errorf("%d: %q", n, p.Detail)
		}
	}
	longest := `{"ticket":"` + strings.Repeat("x", guard.MaxTicket) + `","outcome":"succeeded"},`
	if w := b.ask("POST", "/v1/attempts/settle/batch", `{"attempts":[`+strings.TrimSuffix(strings.Repeat(longest, 100), ",")+`]}`); w.Code != http.StatusOK {
		t.Errorf("a hundred of the longest tickets: %d %s", w.Code, w.Body)
	}
	tries := 0
	e := web.NewEcho("", nil, quiet)
	(&web.API{Guard: b.Guard, Settled: counted{n: &tries}, Tokens: oneToken()}).Routes(e)
	b.doors = apitest.Handler(t, e)
	results := b.settleBatch(t, map[string]string{"ticket": "x", "outcome": "failed"},
		map[string]string{"ticket": seal(t, b), "outcome": "failed"}, map[string]string{"ticket": seal(t, b), "outcome": "failed"})
	if tries != 1 || results[0].Status != 400 || results[1].Status != 503 || results[2].Status != 503 {
		t.Errorf("the store was asked %d times: %+v", tries, results)
	}
}

// counted is a store that does not answer, and how often it was asked.
type counted struct {
	cut
	n *int
}

func (c counted) Spend(context.Context, [16]byte, time.Time) (bool, error) {
	*c.n++
	return false, errors.New("on purpose")
}

// seal is a ticket that was given elsewhere.
func seal(t *testing.T, b *backEnd) string {
	t.Helper()
	d, err := b.Begin(t.Context(), guard.Attempt{Account: "alice", Address: netip.MustParseAddr("192.0.2.1")})
	if err != nil || d.Action != guard.Proceed {
		t.Fatal(d, err)
	}
	return b.Seal(&d.Ticket)
}

func TestAChallengeComesInlineForThoseWhoCannotPassItOn(t *testing.T) {
	t.Parallel()
	b := newBackEnd(t)
	for i := range 5 {
		b.Wrong(t, "alice", fmt.Sprintf("198.51.100.%d", i))
	}
	for inline, want := range map[string][2]string{
		`null`: {"/captcha/", "/captcha/"}, `[]`: {"/captcha/", "/captcha/"}, `["image"]`: {"data:image/png;base64,", "/captcha/"},
		`["audio"]`: {"/captcha/", "data:audio/wav;base64,"}, `["audio","image","image"]`: {"data:image/png;base64,", "data:audio/wav;base64,"},
	} {
		var out struct {
			Challenge struct{ ID, Image, Audio string }
		}
		b.post(t, "/v1/attempts", map[string]any{"account": "alice", "address": "192.0.2.1", "inline": json.RawMessage(inline)}, &out)
		if c := out.Challenge; !strings.HasPrefix(c.Image, want[0]) || !strings.HasPrefix(c.Audio, want[1]) {
			t.Errorf("%s: %.40s, %.40s", inline, c.Image, c.Audio)
		}
		if encoded, ok := strings.CutPrefix(out.Challenge.Image, "data:image/png;base64,"); ok {
			m, err := b.Challenges.Media(t.Context(), out.Challenge.ID, "png")
			if got, _ := base64.StdEncoding.DecodeString(encoded); err != nil || !bytes.Equal(got, m.Body) {
				t.Errorf("the picture is another one than %s has (%v)", out.Challenge.ID, err)
			}
		}
	}
	problem(t, b.ask("POST", "/v1/attempts", `{"account":"alice","address":"192.0.2.1","inline":["video"]}`), http.StatusBadRequest, web.InvalidRequest)
}

// Programs that were made from the document may send null for what they leave out.
func TestWhatIsOptionalMayBeNull(t *testing.T) {
	t.Parallel()
	b := newBackEnd(t)
	body := map[string]any{"account": "alice", "address": "192.0.2.1"}
	for name, of := range apitest.Document(t).Components.Schemas["Attempt"].Value.Properties {
		if of.Value.Type.Includes("null") {
			body[name] = nil
		}
	}
	var out struct{ Decision string }
	if b.post(t, "/v1/attempts", body, &out); out.Decision != "proceed" || len(body) != 11 {
		t.Errorf("%v is answered %q", body, out.Decision)
	}
}

func TestTheAPITakesWhatSaysThatItIsJSONAlone(t *testing.T) {
	t.Parallel()
	b := newBackEnd(t)
	for kind, want := range map[string]int{
		"": 415, "text/plain": 415, "application/x-www-form-urlencoded": 415, "application/jsonp": 415, "application/json, text/plain": 415,
		"application/json": 200, "application/json; charset=utf-8": 200, "Application/JSON": 200,
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/attempts", strings.NewReader(`{"account":"alice","address":"192.0.2.1"}`))
		r.Header.Set("Authorization", "bearer token")
		if kind != "" {
			r.Header.Set("Content-Type", kind)
		}
		if w := apitest.Do(t, b.doors, r); w.Code != want {
			t.Errorf("%q: %d", kind, w.Code)
		}
	}
}
