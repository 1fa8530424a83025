package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/passwords"
	"authguard/internal/testing/apitest"
	"authguard/internal/testing/world"
	"authguard/trusted"
	"authguard/web"
)

// A back end is what calls the decision API, with the API's timers in its hand.
type backEnd struct {
	leaked *passwords.LeakedList
	*world.World
	doors http.Handler // every call is held against the API's document
	echo  *echo.Echo
	later []func()
}

// away is a store on the network: it does nothing for a caller who has gone.
type away struct{ challenge.Spent }

func (a away) Spend(ctx context.Context, id [16]byte, until time.Time) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return a.Spent.Spend(ctx, id, until)
}

func newBackEnd(t *testing.T) *backEnd {
	t.Helper()
	return newBackEndOf(t, world.Options{})
}

func newBackEndOf(t *testing.T, o world.Options) *backEnd {
	t.Helper()
	b := &backEnd{World: world.New(t, o), echo: web.NewEcho("", nil, quiet), leaked: &passwords.LeakedList{Log: quiet}}
	b.doors = apitest.Handler(t, b.echo)
	api := &web.API{
		Guard: b.Guard, Settled: away{challenge.NewMemorySpent(0, b.Clock.Now)}, Tokens: oneToken(), Media: b.Challenges.Media, Leaked: b.leaked,
		Later: func(_ time.Duration, f func()) { b.later = append(b.later, f) },
	}
	api.Routes(b.echo)
	return b
}

// oneToken is "token", for APIs of no realm in particular.
func oneToken() *web.Tokens {
	t := new(web.Tokens)
	t.SetConfigured([]web.Token{{Sum: web.SumToken("token")}})
	return t
}

func (b *backEnd) post(t *testing.T, path string, in any, out any) (status int) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer token")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.doors.ServeHTTP(w, r)
	if out != nil {
		if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
	}
	return w.Code
}

func (b *backEnd) begin(t *testing.T) (ticket string) {
	t.Helper()
	var out struct{ Decision, Ticket string }
	b.post(t, "/v1/attempts", map[string]string{"account": "alice", "address": "192.0.2.1"}, &out)
	if out.Decision != "proceed" {
		t.Fatalf("the attempt was answered %q", out.Decision)
	}
	return out.Ticket
}

func (b *backEnd) settle(t *testing.T, ticket, outcome string) {
	t.Helper()
	if status := b.post(t, "/v1/attempts/settle", map[string]string{"ticket": ticket, "outcome": outcome}, nil); status != http.StatusNoContent {
		t.Fatalf("settling was answered %d", status)
	}
}

// pass lets the longest password check go by.
func (b *backEnd) pass() {
	b.Clock.Advance(b.Policy().CheckTimeout + time.Second)
	for _, f := range b.later {
		f()
	}
	b.later = nil
}

func TestR20ATicketThatNobodySettlesIsPressure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after string // outcomes, before and after the longest check has gone by
		pressure      int
		shed          int
	}{
		"never":              {"", "", 1, 0},
		"failed":             {"failed", "", 1, 0},
		"succeeded":          {"succeeded", "", 0, 0},
		"abandoned":          {"abandoned", "", 0, 1},
		"failed too late":    {"", "failed", 1, 0},
		"succeeded too late": {"", "succeeded", 1, 0},
		"abandoned too late": {"", "abandoned", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackEnd(t)
			ticket := b.begin(t)
			if c.before != "" {
				b.settle(t, ticket, c.before)
			}
			b.pass()
			if c.after != "" {
				b.settle(t, ticket, c.after)
			}
			if got := b.Mode.State().FailureRate; got[captchamode.Failure] != c.pressure || got[captchamode.Overload] != c.shed {
				t.Errorf("the pressure is %v, not %d failures and %d shed", got, c.pressure, c.shed)
			}
			if c.before != "abandoned" {
				return
			}
			e, err := b.Explain(t.Context(), "alice", netip.MustParseAddr("192.0.2.1"))
			for _, line := range e.Lines {
				if line.Used != 0 || err != nil {
					t.Errorf("an abandoned attempt left %d charges of the %s (%v)", line.Used, line.Subject, err)
				}
			}
		})
	}
}

// A back end that is cut off and asks again must find all done or nothing.
func TestACutOffSettleIsSettled(t *testing.T) {
	t.Parallel()
	b := newBackEnd(t)
	body, err := json.Marshal(map[string]string{"ticket": b.begin(t), "outcome": "succeeded"})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(gone, "POST", "/v1/attempts/settle", bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer token")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.doors.ServeHTTP(w, r)
	if w.Code != http.StatusNoContent {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
	b.pass()
	if got := b.Mode.State().FailureRate[captchamode.Failure]; got != 0 {
		t.Errorf("the success counts as %d failures", got)
	}
}

// ask sends a body as it is, with the token and with HTML preferred.
func (b *backEnd) ask(method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer token")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", page)
	w := httptest.NewRecorder()
	b.doors.ServeHTTP(w, r)
	return w
}

func TestR11AmbiguousJSONIsRefused(t *testing.T) {
	t.Parallel()
	b := newBackEnd(t)
	for body, says := range map[string]string{
		`{"account":"alice","account":"bob","address":"192.0.2.1"}`:                                  `Send the field "account" only once.`,
		`{"account":"alice","ACCOUNT":"bob","address":"192.0.2.1"}`:                                  `Unknown field "ACCOUNT".`,
		`{"Account":"alice","address":"192.0.2.1"}`:                                                  `Unknown field "Account".`,
		`{"account":"alice","addre\u017fs":"192.0.2.1"}`:                                             `Unknown field "addreſs".`,
		`{"account":"alice","address":"192.0.2.1","addre\u017fs":"192.0.2.2"}`:                       `Unknown field "addreſs".`,
		`{"account":"alice","address":"192.0.2.1","challenge":{"id":"a","id":"b","answer":"c"}}`:     `Send the field "id" only once.`,
		`{"account":"alice","address":"192.0.2.1","challenge":{"id":"a","answer":"c","strength":0}}`: `Unknown field "strength".`,
		`{"account":["alice"],"address":"192.0.2.1"}`:                                                `The field "account" must not be a JSON list.`,
		`{"account":"alice","address":7}`:                                                            `The field "address" must not be a JSON number.`,
		`["alice"]`:                                                                                  "Send one JSON object.",
		`"alice"`:                                                                                    "Send one JSON object.",
		`null`:                                                                                       "Send one JSON object.",
		``:                                                                                           "Send one JSON object.",
		`{"account":"alice","address":"192.0.2.1"} {}`:                                               "Send a single JSON object with nothing after it.",
		`{"account":"alice",`:                                                                        "Invalid JSON: unexpected EOF.",
		`{"account":"alice","address":"nowhere"}`:                                                    "address: send the client's IP address, such as 192.0.2.1 or 2001:db8::1.",
		`{"account":"","address":"192.0.2.1"}`:                                                       "account: send 1 to 256 bytes of UTF-8 without control, invisible or ambiguous characters.",
	} {
		kind := web.InvalidRequest
		if strings.HasPrefix(says, "account:") {
			kind = web.BadAccount
		}
		if p := problem(t, b.ask("POST", "/v1/attempts", body), http.StatusBadRequest, kind); p.Detail != says {
			t.Errorf("%s: %q, not %q", body, p.Detail, says)
		}
	}
}

func TestEveryErrorOfTheDecisionAPIIsAProblem(t *testing.T) {
	t.Parallel()
	b := newBackEnd(t)
	problem(t, b.ask("GET", "/v1/nothing", ""), http.StatusNotFound, "about:blank")
	problem(t, b.ask("GET", "/v1", ""), http.StatusNotFound, "about:blank")
	problem(t, b.ask("GET", "/api", ""), http.StatusNotFound, "about:blank")
	problem(t, b.ask("GET", "/v1/attempts", ""), http.StatusMethodNotAllowed, "about:blank")
	problem(t, b.ask("POST", "/v1/attempts", `{"account":"`+strings.Repeat("x", 17<<10)+`"}`), http.StatusRequestEntityTooLarge, web.InvalidRequest)
	problem(t, b.ask("POST", "/v1/attempts/settle", `{"ticket":"x","outcome":"failed"}`), http.StatusBadRequest, web.InvalidRequest)
	r := httptest.NewRequest("POST", "/v1/attempts", nil)
	r.Header.Set("Accept", page)
	w := httptest.NewRecorder()
	b.doors.ServeHTTP(w, r)
	problem(t, w, http.StatusUnauthorized, "unauthorized")
	ticket := b.begin(t)
	b.settle(t, ticket, "failed")
	problem(t, b.ask("POST", "/v1/attempts/settle", `{"ticket":"`+ticket+`","outcome":"failed"}`), http.StatusConflict, "already-settled")
}

// A codebook knows one code.
type codebook struct{ used int }

func (*codebook) Show(_ context.Context, p guard.Code) (bool, error) { return p.Text == "good", nil }

func (c *codebook) Settle(_ context.Context, _ guard.Code, o guard.Outcome) error {
	if o == guard.Succeeded {
		c.used++
	}
	return nil
}

func TestR29TheDecisionAPITakesACode(t *testing.T) {
	t.Parallel()
	codes, policy := new(codebook), guard.DefaultPolicy()
	policy.Account = []guard.Limit{{Failures: 1, Window: time.Hour, Action: guard.Block}}
	b := newBackEndOf(t, world.Options{Codes: codes, Policy: &policy})
	b.Wrong(t, "alice", "198.51.100.1")
	for _, try := range [][2]string{{"", "block"}, {"bad", "block"}, {"good", "proceed"}} {
		var answer struct{ Decision, Ticket string }
		b.post(t, "/v1/attempts", map[string]string{"account": "alice", "address": "192.0.2.77", "code": try[0]}, &answer)
		if answer.Decision != try[1] {
			t.Errorf("%q: %+v", try[0], answer)
		}
		if answer.Ticket != "" {
			b.settle(t, answer.Ticket, "succeeded")
		}
	}
	if codes.used != 1 {
		t.Errorf("used %d times", codes.used)
	}
}

// A wrong code is charged to the IP address, not to the account, and makes no client known.
func TestR29AVerifiedCodeHasToBeValid(t *testing.T) {
	t.Parallel()
	b := newBackEnd(t)
	var out struct{ Decision string }
	in := map[string]any{"account": "alice", "address": "192.0.2.1", "code": "AAAA-AAAA-AAAA-AAAA"}
	if status := b.post(t, "/v1/codes/verify", in, &out); status != http.StatusOK || out.Decision != "block" {
		t.Errorf("%d %q", status, out.Decision)
	}
	e, err := b.Explain(t.Context(), "alice", netip.MustParseAddr("192.0.2.1"))
	for _, line := range e.Lines {
		if want := map[guard.SubjectKind]int{guard.OnAddress: 1, guard.OnNetwork: 1}[line.Subject]; line.Used != want || err != nil {
			t.Errorf("%s has %d failures, want %d (%v)", line.Subject, line.Used, want, err)
		}
	}
	if st := b.Status(t, "alice", "192.0.2.1"); st != trusted.Unknown {
		t.Errorf("the client is %v", st)
	}
}
