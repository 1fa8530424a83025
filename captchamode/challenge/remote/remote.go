// Package remote uses an external CAPTCHA provider: Turnstile, hCaptcha, reCAPTCHA or Friendly Captcha. All four work
// alike: a script renders a widget, the widget puts a token in the form, and siteverify reports whether the token is
// valid.
//
// The provider is trusted as little as possible. A success counts only for this site's host, for a fresh token, once,
// and with Turnstile only for this challenge. A late or unexpected answer is a failure of the provider: until it
// recovers, challenges are the built-in ones (R18). The image next to the widget is for browsers without JavaScript.
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
	"authguard/internal/seal"
)

const (
	mostBody   = 64 << 10 // of a response, in bytes
	atOnce     = 64       // concurrent requests to the provider
	leastToken = 20       // shorter than any token, longer than the image's digits
	fresh      = 10 * time.Minute
	tokenKept  = 25 * time.Hour // up to one hour of it has already passed
	probeEvery = 10 * time.Second
	probeTime  = 5 * time.Second
	action     = "login"
)

// Config selects the service. The zero Config selects none.
type Config struct {
	Service string   // turnstile, hcaptcha, recaptcha or friendly
	SiteKey string   // public
	Secret  string   // never logged
	Verify  string   // URL of siteverify, if not the service's default
	Hosts   []string // hosts of the page: tokens from others are rejected
}

// A Provider uses one service. It is safe for concurrent use.
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

// New returns a provider without a service; see Set. It spends tokens in spent. It calls onChange when the service
// starts to fail and when it recovers; onChange must not block. The clock may be nil.
func New(spent challenge.Spent, onChange func(up bool, why error), now func() time.Time) *Provider {
	if now == nil {
		now = time.Now
	}
	p := &Provider{spent: spent, onChange: onChange, now: now, slots: make(chan struct{}, atOnce)}
	// Following a redirect would send the secret to an address that was not configured.
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p.using.Store(new(using))
	return p
}

// Set changes the service for future challenges.
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

// Service returns the service in use; false for none.
func (p *Provider) Service() (Service, bool) {
	u := p.using.Load()
	return u.service, u.Service != ""
}

// Kind returns [challenge.KindRemote].
func (p *Provider) Kind() string { return challenge.KindRemote }

var errDown = errors.New("remote: the provider does not answer")

// Issue returns the widget. It makes no request.
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

// bound returns the data that the widget passes on. It is unpredictable before the challenge is issued, and unique to
// it.
func bound(seed challenge.Seed) string {
	return hex.EncodeToString(seal.MAC(seed[:], "cdata")[:16])
}

// Check asks the service whether a token is valid.
func (p *Provider) Check(ctx context.Context, task challenge.Task, token string) (bool, error) {
	u := p.using.Load()
	if u.Service == "" || len(token) < leastToken {
		return false, nil // digits of the image
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
	// Also enforce that a token is valid once, independent of the provider's time stamps.
	sum := sha256.Sum256([]byte("remote token\x00" + token))
	first, err := p.spent.Spend(ctx, [16]byte(sum[:]), p.now().Truncate(time.Hour).Add(tokenKept))
	if err != nil {
		return false, fmt.Errorf("remote: using a token up: %w", err)
	}
	return first, nil
}

// An answer is the response of siteverify. Friendly Captcha's fields are in Data and Error.
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

// good reports whether a success is valid for this site, and when the token was created.
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

// hostOf returns the host of an origin, with or without scheme.
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

// ask calls siteverify. An error means that the provider failed or is misconfigured. It contains no secret, and no
// text chosen by the provider.
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

// Run probes the service once, and repeatedly while it fails, until ctx ends.
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

// probe checks a token that cannot be valid.
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
