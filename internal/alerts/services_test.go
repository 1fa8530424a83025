package alerts

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"authguard/guard"
	"authguard/internal/outbox"
	"authguard/internal/testing/mailtest"
)

// hostile is an alert about an account whose name tries everything.
func hostile() message {
	d := digest{Kept: []Alert{{
		ID: 1, At: noon, Kind: AccountAttacked, Title: AccountAttacked.meaning().title,
		Body: bodyText("account " + Name("a\r\nBcc: all@example.org\u202e<img src=x onerror=alert(1)>@everyone [x](https://evil.test) =cmd()") + ": 5 wrong passwords"),
	}}}
	m := d.message()
	m.id, m.at = "msg_1", noon
	return m
}

// A seen is a request as a receiver got it.
type seen struct {
	*http.Request
	body []byte
}

// receiver is a real HTTP server, and answers what it is told to.
func receiver(t *testing.T, answer http.HandlerFunc) (url string, got chan seen) {
	t.Helper()
	got = make(chan seen, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r, body}
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

// rerouted sends everything to one server, whatever host it is for.
type rerouted string

func (to rerouted) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Wanted", r.URL.Scheme+"://"+r.URL.Host)
	r.URL.Scheme, r.URL.Host = "http", strings.TrimPrefix(string(to), "http://")
	return http.DefaultTransport.RoundTrip(r)
}

var here = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="

func TestEveryServiceGetsItsOwnForm(t *testing.T) {
	t.Parallel()
	url, got := receiver(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true}`) })
	title := "authguard: " + AccountAttacked.meaning().title
	text := func(of ...string) func(t *testing.T, body map[string]any) {
		return func(t *testing.T, body map[string]any) {
			var at any = body
			for _, key := range of {
				if list, is := at.([]any); is {
					at = list[len(list)-1]
				}
				at = at.(map[string]any)[key]
			}
			if s, _ := at.(string); !strings.Contains(s, `a\r\nBcc: all@example.org\u202e\x3cimg`) && !strings.Contains(s, `a\r\nBcc: all@example.org\u202e\x3c`) || strings.ContainsAny(s, "\r\u202e<") {
				t.Errorf("%q", s)
			}
		}
	}
	for address, want := range map[string]struct {
		url  string
		look func(*testing.T, map[string]any)
	}{
		"slack://hook:AAAAAAAAA-BBBBBBBBB-123456789123456789123456@webhook": {"https://hooks.slack.com/services/AAAAAAAAA/BBBBBBBBB/123456789123456789123456", text("text")},
		"slack+https://mattermost.example.org/hooks/abc":                    {"https://mattermost.example.org/hooks/abc", text("text")},
		"discord://token-1@123456":                                          {"https://discord.com/api/webhooks/123456/token-1", text("embeds", "description")},
		"telegram://123456:AAAAAAAAAAAAAAAAAAAAAAAA@telegram?chats=-100":    {"https://api.telegram.org/bot123456:AAAAAAAAAAAAAAAAAAAAAAAA/sendMessage", text("text")},
		"teams+https://prod.example.org/workflows/abc?sig=x":                {"https://prod.example.org/workflows/abc?sig=x", text("attachments", "content", "body", "text")},
		"ntfy://ntfy.example.org/topic?priority=high&tags=warning":          {"https://ntfy.example.org/", text("message")},
		"generic+https://hooks.example.org/a?template=json&x=y":             {"https://hooks.example.org/a?x=y", text("message")},
		"webhook+https://hooks.example.org/a?x=y#secret=" + hookSecret:      {"https://hooks.example.org/a?x=y", text("data", "message")},
	} {
		all, err := targets([]string{address})
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		to := all[0].make(&httpClient{http.Client{Transport: rerouted(url)}})
		if err := to.send(t.Context(), hostile()); err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		r, body := <-got, map[string]any{}
		if at := r.Header.Get("Wanted") + r.URL.String(); at != want.url {
			t.Errorf("%s went to %s", address, at)
		}
		if err := json.Unmarshal(r.body, &body); err != nil || !strings.Contains(string(r.body), title) {
			t.Errorf("%s: %v %s", address, err, r.body)
			continue
		}
		want.look(t, body)
		if all[0].scheme == "discord" && !strings.Contains(string(r.body), `"allowed_mentions":{"parse":[]}`) {
			t.Errorf("it may call everybody: %s", r.body)
		}
	}
}

// The library that receivers use takes what is signed, the ID is that of every try,
// and a changed body, ID or key is refused.
func TestAWebhookIsSignedAfterStandardWebhooks(t *testing.T) {
	t.Parallel()
	url, got := receiver(t, nil)
	all, err := targets([]string{"webhook+" + url + "/hook#secret=" + hookSecret + "&kinds=account-attacked"})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := standardwebhooks.NewWebhook(hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	stranger, _ := standardwebhooks.NewWebhookRaw([]byte("another key, of thirty-two bytes"))
	for range 2 {
		if err := dial(all[0], here).send(t.Context(), hostile()); err != nil {
			t.Fatal(err)
		}
		r := <-got
		if err := reader.Verify(r.body, r.Header); err != nil {
			t.Errorf("%v", err)
		}
		if reader.Verify(append(r.body, ' '), r.Header) == nil || stranger.Verify(r.body, r.Header) == nil {
			t.Error("something else is taken too")
		}
		var body hookBody
		if err := json.Unmarshal(r.body, &body); err != nil || body.Type != "authguard.alerts" || !body.Timestamp.Equal(noon) ||
			len(body.Data.Alerts) != 1 || body.Data.Alerts[0].Kind != AccountAttacked || r.Header.Get("Webhook-Id") != "msg_1" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%+v %v", body, r.Header)
		}
		if strings.Contains(r.URL.String()+string(r.body), "whsec") || r.URL.Path != "/hook" {
			t.Errorf("%v %s", r.URL, r.body)
		}
		r.Header.Set("Webhook-Id", "msg_2")
		if reader.Verify(r.body, r.Header) == nil {
			t.Error("another ID is taken")
		}
	}
}

func TestWebhooksReachTheInternetAlone(t *testing.T) {
	t.Parallel()
	allowed := []netip.Prefix{netip.MustParsePrefix("10.1.2.0/24"), netip.MustParsePrefix("fd00:1::/32")}
	for address, want := range map[string]bool{
		"1.1.1.1": true, "2606:4700::1111": true, "10.1.2.3": true, "::ffff:10.1.2.3": true, "fd00:1::7": true,
		"10.1.3.3": false, "127.0.0.1": false, "::1": false, "::ffff:127.0.0.1": false, "169.254.169.254": false, "192.168.1.1": false, "172.16.0.1": false,
		"100.64.0.1": false, "0.0.0.0": false, "::": false, "fe80::1": false, "fe80::1%eth0": false, "fd00:2::1": false, "fc00::1": false, "224.0.0.1": false, "ff02::1": false,
		"255.255.255.255": false, "240.0.0.1": false, "198.18.0.1": false, "64:ff9b::a00:1": false, "2002:a00:1::1": false, "2001::1": false, "fec0::1": false, "::10.0.0.1": false,
	} {
		if got := reachable(netip.MustParseAddr(address), allowed); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

// What is checked is the address that is dialled, after DNS: a name that looks
// harmless, and one that changes its mind (rebinding), end at the same check.
func TestAPrivateAddressIsRefusedWhenItIsDialled(t *testing.T) {
	t.Parallel()
	url, got := receiver(t, nil)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	for _, address := range []string{
		"generic+http://localhost:" + port + "/hunter22", "generic+http://127.0.0.1:" + port + "/", "webhook+http://[::ffff:127.0.0.1]:" + port + "/#secret=" + hookSecret,
		"ntfy://localhost:" + port + "/topic?scheme=http", "slack+http://localhost:" + port + "/x", "teams+http://0.0.0.0:" + port + "/x",
	} {
		err := tryOne(t, address, nil)
		if err == nil || !strings.Contains(err.Error(), "alerts.private_networks") || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if len(got) != 0 {
		t.Error("something arrived")
	}
	if err := tryOne(t, "generic+http://localhost:"+port+"/", append(here, netip.MustParsePrefix("::1/128"))); err != nil {
		t.Error(err)
	}
}

func TestNoRedirectIsFollowedAndNoAnswerIsReadWithoutEnd(t *testing.T) {
	t.Parallel()
	inner, reached := receiver(t, nil)
	for name, answer := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inner, http.StatusTemporaryRedirect) },
		"error":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"headers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		},
	} {
		url, _ := receiver(t, answer)
		if err := tryOne(t, "generic+"+url+"/", here); err == nil {
			t.Errorf("%s: taken for delivered", name)
		}
	}
	endless := make(chan struct{})
	url, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(endless)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	if err := tryOne(t, "generic+"+url+"/", here); err != nil {
		t.Errorf("what was taken with 200 counts as delivered: %v", err)
	}
	<-endless // the connection was ended, not read on
	if len(reached) != 0 {
		t.Error("the redirect was followed")
	}
}

// A mail server as people run it: STARTTLS that is demanded, a password, and a
// certificate that is checked. What arrives has no header of a stranger's.
func TestMailArrivesOverSTARTTLSAndNobodyAddsAHeader(t *testing.T) {
	t.Parallel()
	server := mailtest.Open(t)
	to, err := outbox.NewMailServer("smtp://alerts:"+mailtest.Password+"@"+server.Address, "Guard <guard@example.org>")
	if err != nil {
		t.Fatal(err)
	}
	letter := emails{to, "ops@example.org", "example.org"}
	if err := letter.send(t.Context(), hostile()); err == nil {
		t.Fatal("a certificate that nobody vouches for was trusted")
	}
	to.Trust(&tls.Config{RootCAs: server.Roots, MinVersion: tls.VersionTLS12})
	server.Down(true)
	if err := letter.send(t.Context(), hostile()); err == nil {
		t.Fatal("delivered to a server that is down")
	}
	server.Down(false)
	m := hostile()
	m.urgent = true
	m.title += "\r\nBcc: all@example.org" // which no title has
	if err := letter.send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got := <-server.Messages
	if !got.Encrypted || got.User != "alerts" || got.To != "ops@example.org" || got.Header.Get("Message-Id") != "<msg_1@example.org>" ||
		got.Header.Get("Auto-Submitted") != "auto-generated" || got.Header.Get("Bcc") != "" || got.Header.Get("Importance") != "high" || len(got.Header["Subject"]) != 1 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.Text, `\u202e`) || strings.Contains(got.Text, "\u202e") || strings.Contains(got.Text, "<img") {
		t.Error(got.Text)
	}
	wrong, _ := outbox.NewMailServer("smtp://alerts:hunter22hunter22@"+server.Address, "guard@example.org")
	wrong.Trust(&tls.Config{RootCAs: server.Roots, MinVersion: tls.VersionTLS12})
	bad, _ := targets([]string{"smtp://alerts:hunter22hunter22@" + server.Address + "/?from=guard@example.org&to=ops@example.org"})
	if err := (redacting{bad[0], emails{wrong, "ops@example.org", "example.org"}}).send(t.Context(), hostile()); err == nil || strings.Contains(err.Error(), "hunter22") {
		t.Error(err)
	}
}

func TestServicesWithPrioritiesGetTheUrgencyOfAMessage(t *testing.T) {
	t.Parallel()
	url, got := receiver(t, nil)
	for address, want := range map[string]map[Kind]string{
		"ntfy://ntfy.example.org/topic":                            {AccountAttacked: `"priority":3`, ModeOn: `"priority":5`},
		"ntfy://ntfy.example.org/topic?priority=low":               {AccountAttacked: `"priority":2`, ModeOn: `"priority":5`},
		"generic+https://hooks.example.org/?template=json":         {AccountAttacked: `"urgent":false`, ModeOn: `"urgent":true`},
		"webhook+https://hooks.example.org/a#secret=" + hookSecret: {AccountAttacked: `"urgent":false`, "database-failed": `"urgent":true`},
	} {
		all, err := targets([]string{address})
		if err != nil {
			t.Fatal(err)
		}
		to := all[0].make(&httpClient{http.Client{Transport: rerouted(url)}})
		for kind, part := range want {
			d := digest{Kept: []Alert{{ID: 1, At: noon, Kind: kind, Title: "A title"}}}
			if err := to.send(t.Context(), d.message()); err != nil {
				t.Fatal(err)
			}
			if r := <-got; !strings.Contains(string(r.body), part) {
				t.Errorf("%s, %s: no %s in %s", address, kind, part, r.body)
			}
		}
	}
}

func TestAFailureRatioIsToldAboveWhatIsUsualAndOnce(t *testing.T) {
	t.Parallel()
	w, list := watching()
	w.ratio.floor = 0.2
	at := noon
	window := func(failed, succeeded int) {
		for i := range failed + succeeded {
			e := success("a", 0)
			if e.At = at; i < failed {
				e.Outcome, e.NewClient = guard.Failed, false
			}
			at = at.Add(ratioWindow / time.Duration(failed+succeeded))
			w.event(e)
		}
	}
	kinds := func() (text string) {
		for _, one := range *list {
			text += string(one.kind) + " "
		}
		return text
	}
	for range 2 * ratioFirst {
		window(60, 40) // two of three fail here every day
	}
	if got := kinds(); got != "" {
		t.Fatalf("what is usual: %s", got)
	}
	for range 5 {
		window(80, 20)
	}
	if got := kinds(); got != "failure-ratio-high " {
		t.Fatalf("above it: %q", got)
	}
	for range ratioCalm + 1 {
		window(60, 40)
	}
	if got := kinds(); got != "failure-ratio-high failure-ratio-normal " {
		t.Errorf("usual again: %q", got)
	}
}

func tryOne(t *testing.T, address string, private []netip.Prefix) error {
	t.Helper()
	found, err := Try(t.Context(), []string{address}, private)
	if err == nil && found[0].Problem != "" {
		err = errors.New(found[0].Problem)
	}
	return err
}
