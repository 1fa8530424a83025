// Package remote lets people solve the challenge of a provider on the web:
// Turnstile, hCaptcha, reCAPTCHA or Friendly Captcha. All four have one contract:
// a script draws a widget, the widget puts a token into the form, and siteverify
// says whether the token is good.
//
// The provider is believed as little as can be. A success counts only for our own
// host, for a fresh token, once, and for Turnstile for this challenge alone. What
// it does not say within the desk's time limit, or says in any other way, is a
// failure of the provider: until it answers again, challenges are the built-in
// ones (R18). The picture stands beside the widget for browsers without
// JavaScript.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"authguard/captchamode/challenge"
)

const (
	mostBody   = 64 << 10 // of an answer, in bytes
	atOnce     = 64       // questions to the provider
	leastToken = 20       // shorter than any token, longer than the picture's digits
	fresh      = 10 * time.Minute
	tokenKept  = 25 * time.Hour // of which up to one is over
	probeEvery = 10 * time.Second
	probeTime  = 5 * time.Second
	action     = "login"
)

// Config is which service is used. The zero Config is none.
type Config struct {
	Service string   // turnstile, hcaptcha, recaptcha or friendly
	SiteKey string   // public
	Secret  string   // never logged
	Verify  string   // where siteverify is, if not where the service says
	Hosts   []string // where the page is: the only ones that a token may be from
}

// A Provider asks one service. It is safe for concurrent use.
type Provider struct {
	spent    challenge.Spent
	onChange func(up bool, why error)
	now      func() time.Time
	client   http.Client
	slots    chan struct{}
	using    atomic.Pointer[using]
	down     atomic.Bool
}

type using struct {
	Config
	service Service
}

var _ challenge.Provider = (*Provider)(nil)

// New returns a provider of no service; see Set. Tokens are used up in spent.
// onChange is told when the service begins to fail and when it answers again; it
// must not block. The clock may be nil.
func New(spent challenge.Spent, onChange func(up bool, why error), now func() time.Time) *Provider {
	if now == nil {
		now = time.Now
	}
	p := &Provider{spent: spent, onChange: onChange, now: now, slots: make(chan struct{}, atOnce)}
	// An answer elsewhere is none: the secret is sent to the address that was set.
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p.using.Store(new(using))
	return p
}

// Set changes the service for challenges from now on.
func (p *Provider) Set(c Config) error {
	u := &using{Config: c}
	if c.Service != "" {
		var err error
		if u.service, err = find(c.Service); err != nil {
			return err
		}
		u.Verify = cmp.Or(c.Verify, u.service.Verify)
	}
	p.using.Store(u)
	p.down.Store(false)
	return nil
}

// Service is the one in use; false for none.
func (p *Provider) Service() (Service, bool) {
	u := p.using.Load()
	return u.service, u.Service != ""
}

// Kind returns [challenge.KindRemote].
func (p *Provider) Kind() string { return challenge.KindRemote }

var errDown = errors.New("remote: the provider does not answer")

// Issue says which widget is to be shown. It asks nobody.
func (p *Provider) Issue(_ context.Context, task challenge.Task) (challenge.Puzzle, error) {
	u := p.using.Load()
	if u.Service == "" || p.down.Load() {
		return challenge.Puzzle{}, errDown
	}
	s := u.service
	widget := &challenge.Remote{Service: s.Name, SiteKey: u.SiteKey, Script: s.Script, Class: s.Class, Field: s.Field}
	if s.binds {
		widget.Action, widget.Data = action, bound(task.Seed)
	}
	return challenge.Puzzle{OrImage: true, Remote: widget}, nil
}

// bound is what the widget is to pass on: nobody can know it before the challenge
// is issued, and no other challenge has it.
func bound(seed challenge.Seed) string {
	mac := hmac.New(sha256.New, seed[:])
	mac.Write([]byte("cdata"))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// Check asks whether a token is good.
func (p *Provider) Check(ctx context.Context, task challenge.Task, token string) (bool, error) {
	u := p.using.Load()
	if u.Service == "" || len(token) < leastToken {
		return false, nil // digits, for the picture
	}
	a, err := p.ask(ctx, u, token)
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) && !errors.Is(err, errBusy) {
			p.broken(err)
		}
		return false, err
	}
	at, good := a.good(u, task.Seed)
	if age := p.now().Sub(at); !good || age > fresh || age < -fresh {
		return false, nil
	}
	// The provider's promise that a token is good once is kept here too, for whichever
	// time stamps it says.
	sum := sha256.Sum256([]byte("remote token\x00" + token))
	first, err := p.spent.Spend(ctx, [16]byte(sum[:]), p.now().Truncate(time.Hour).Add(tokenKept))
	if err != nil {
		return false, fmt.Errorf("remote: using a token up: %w", err)
	}
	return first, nil
}

// An answer is siteverify's. Friendly Captcha has its fields in Data and Error.
type answer struct {
	Success  *bool    `json:"success"`
	Hostname string   `json:"hostname"`
	Stamp    string   `json:"challenge_ts"`
	Action   string   `json:"action"`
	CData    string   `json:"cdata"`
	Errors   []string `json:"error-codes"`
	Data     struct {
		Challenge struct {
			Timestamp json.RawMessage `json:"timestamp"`
			Origin    string          `json:"origin"`
		} `json:"challenge"`
	} `json:"data"`
	Error struct {
		Code string `json:"error_code"`
	} `json:"error"`
}

// good reports whether a success is one for us, and when the token was made.
func (a *answer) good(u *using, seed challenge.Seed) (at time.Time, ok bool) {
	host := cmp.Or(a.Hostname, hostOf(a.Data.Challenge.Origin))
	switch {
	case !*a.Success:
		return at, false
	case host == "" && !u.service.nameless, host != "" && !slices.Contains(u.Hosts, strings.ToLower(host)):
		return at, false
	case u.service.binds && (a.Action != action || !hmac.Equal([]byte(a.CData), []byte(bound(seed)))):
		return at, false
	}
	stamp := cmp.Or(a.Stamp, strings.Trim(string(a.Data.Challenge.Timestamp), `"`))
	if at, err := time.Parse(time.RFC3339, stamp); err == nil {
		return at.Truncate(time.Second), true
	}
	var seconds int64
	if err := json.Unmarshal([]byte(stamp), &seconds); err != nil {
		return at, false
	}
	return time.Unix(seconds, 0), true
}

// hostOf is the host of an origin, which may come without its scheme.
func hostOf(origin string) string {
	_, rest, found := strings.Cut(origin, "://")
	if !found {
		rest = origin
	}
	u, err := url.Parse("//" + rest)
	if err != nil {
		return rest
	}
	return u.Hostname()
}

// misconfigured are the errors that no token can cause.
var misconfigured = []string{
	"missing-input-secret", "invalid-input-secret", "invalid-keys", "not-using-dummy-secret", "sitekey-secret-mismatch",
	"internal-error", "auth_required", "auth_invalid", "sitekey_invalid",
}

var errBusy = errors.New("remote: too many tokens are being checked")

// ask asks siteverify. An error says that the provider is broken, or set up
// wrongly; it holds no secret and nothing that the provider chose.
func (p *Provider) ask(ctx context.Context, u *using, token string) (a answer, err error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		return a, errBusy
	}
	form := url.Values{"response": {token}}
	if u.service.keyed {
		form.Set("sitekey", u.SiteKey)
	}
	if u.service.header == "" {
		form.Set("secret", u.Secret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.Verify, strings.NewReader(form.Encode()))
	if err != nil {
		return a, errors.New("remote: the provider's address cannot be used")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if u.service.header != "" {
		r.Header.Set(u.service.header, u.Secret)
	}
	response, err := p.client.Do(r)
	if err != nil {
		return a, fmt.Errorf("remote: asking %s: %w", u.Service, cmp.Or(errors.Unwrap(err), err)) // without the URL
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostBody+1))
	switch {
	case err != nil:
		return a, fmt.Errorf("remote: %s stopped in the middle of its answer", u.Service)
	case len(body) > mostBody:
		return a, fmt.Errorf("remote: %s answered with more than %d bytes", u.Service, mostBody)
	case response.StatusCode != http.StatusOK:
		return a, fmt.Errorf("remote: %s answered %d%s", u.Service, response.StatusCode, hint(response.StatusCode))
	case json.NewDecoder(bytes.NewReader(body)).Decode(&a) != nil || a.Success == nil:
		return a, fmt.Errorf("remote: %s answered what is no answer", u.Service)
	}
	for _, code := range append(a.Errors, a.Error.Code) {
		if slices.Contains(misconfigured, code) {
			return a, fmt.Errorf("remote: %s says %s: check challenge.site_key and challenge.secret_key", u.Service, code)
		}
	}
	return a, nil
}

func hint(status int) string {
	if status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusBadRequest {
		return ": check challenge.site_key and challenge.secret_key"
	}
	return ""
}

func (p *Provider) broken(why error) {
	if !p.down.Swap(true) && p.onChange != nil {
		p.onChange(false, why)
	}
}

// Run asks the service now and, while it does not answer, again and again, until
// ctx ends.
func (p *Provider) Run(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for first := true; ctx.Err() == nil; first = false {
		if u := p.using.Load(); u.Service != "" && (first || p.down.Load()) {
			p.probe(ctx, u)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// probe asks about a token that cannot be good.
func (p *Provider) probe(ctx context.Context, u *using) {
	within, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	_, err := p.ask(within, u, "authguard-asks-whether-you-are-there")
	switch {
	case ctx.Err() != nil, errors.Is(err, errBusy):
	case err != nil:
		p.broken(err)
	case p.down.Swap(false) && p.onChange != nil:
		p.onChange(true, nil)
	}
}
