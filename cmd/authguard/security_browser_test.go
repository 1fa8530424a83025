package main

import (
	"context"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/pquerna/otp/totp"
)

// holdsPasskeys gives the browser an authenticator like a phone's: it keeps passkeys, and
// its person is there and verified. That person takes whatever a page suggests at once, so
// pages suggest nothing, unless the URL ends in #suggest.
func (b *tab) holdsPasskeys() {
	b.t.Helper()
	b.do("a virtual authenticator", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, webauthn.Enable, webauthn.EnableParams{}); err != nil {
			return err
		}
		if _, err := cdp.Call(ctx, t, cdpage.AddScriptToEvaluateOnNewDocument, cdpage.AddScriptToEvaluateOnNewDocumentParams{
			Source: `if (window.PublicKeyCredential && location.hash !== "#suggest") PublicKeyCredential.isConditionalMediationAvailable = async () => false`,
		}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
			HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
		}})
		return err
	}))
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.do("clicking "+selector, chromedp.Click(selector))
}

// says waits for the page to say something.
func (b *tab) says(what string) {
	b.t.Helper()
	b.until("the page to say "+what, `document.body.innerText.toLowerCase().includes(`+"`"+strings.ToLower(what)+"`"+`)`)
}

func TestAnAdministratorSignsInWithAnAppAndAPasskeyInABrowser(t *testing.T) {
	long(t)
	t.Parallel()
	s := newServer(t, quiet)
	at := strings.Replace(s.admin, "127.0.0.1", "localhost", 1)
	b := openTab(t, chromedp.WindowSize(1280, 900)) // in its own Chromium: one window at a time may use a passkey
	b.holdsPasskeys()
	const fresh = "a new long password"
	b.goTo(at + "/security")
	b.picture("login-admin")
	b.send("admin", s.password)
	b.do("the new password", chromedp.WaitVisible("input[name=new_password]"))
	if b.eval(`String(document.querySelectorAll("input[name=current_password]").length)`) != "0" {
		t.Error("the temporary password is asked for again right after it was typed")
	}
	b.do("the new password", chromedp.SendKeys("input[name=new_password]", fresh), chromedp.SendKeys("input[name=repeat_password]", fresh),
		chromedp.Click("main form button[type=submit]"), chromedp.WaitVisible("#live"))

	b.goTo(at + "/security")
	b.click("form[action='/security/app'] button")
	b.do("the secret", chromedp.WaitVisible(".qr"))
	b.picture("security-app")
	secret := strings.ReplaceAll(b.eval(`document.querySelector(".secret").textContent`), " ", "")
	code := func(at time.Time) string {
		code, err := totp.GenerateCode(secret, at)
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	b.do("confirming", chromedp.SendKeys("#otp", code(time.Now())), chromedp.Click("form[action='/security/app/confirm'] button"))
	b.says("your recovery codes")
	recovery := b.eval(`document.querySelector(".codes code").textContent`)
	b.do("saving them", chromedp.Click("[data-saved] input")) // else the browser warns before it leaves the page
	b.do("a passkey", chromedp.WaitVisible("#passkey_name"), chromedp.SendKeys("#passkey_name", "phone <img onerror>"), chromedp.Click("form[action='/security/passkeys'] button"))
	b.says("the passkey was added")
	b.picture("security")

	b.goTo(at + "/administrators")
	b.do("another administrator", chromedp.SendKeys("#add_username", "bob <img onerror>"), chromedp.SendKeys("#add_reason", "on call"), chromedp.Click("form[action='/administrators/add'] button"))
	b.do("the new page", chromedp.WaitVisible("#secret-title")) // the form, too, says that it is shown only once
	b.do("a token", chromedp.SendKeys("#token_name", "ci"), chromedp.Click("input[name=scope_read]"), chromedp.Click("form[action='/administrators/tokens/add'] button"))
	b.says("Token ci")
	b.eval(`document.querySelectorAll("main details").forEach(one => one.open = true); ""`)
	b.picture("administrators")

	leave := func() {
		t.Helper()
		b.do("leaving", chromedp.Click(".who summary"), chromedp.Click("form[action='/logout'] button"), chromedp.WaitVisible("#username"))
	}
	leave()
	b.send("admin", fresh)
	b.says("one more step")
	b.picture("second")
	b.do("the next code", chromedp.SendKeys("#otp", code(time.Now().Add(30*time.Second))), chromedp.Click("form[data-sign-in] button[type=submit]"), chromedp.WaitVisible("#live"))
	leave()
	b.click("form[action='/login/passkey'] button")
	b.do("a passkey alone", chromedp.WaitVisible("#live"))
	leave()
	b.send("admin", fresh)
	b.do("a passkey after the password", chromedp.WaitVisible("form[action='/login/second'] button"), chromedp.Click("form[data-passkey] button"), chromedp.WaitVisible("#live"))
	leave()
	b.withoutScripts()
	b.goTo(at + "/login")
	b.send("admin", fresh)
	b.do("a recovery code, without JavaScript", chromedp.WaitVisible("#otp"), chromedp.SendKeys("#otp", recovery), chromedp.Click("form[data-sign-in] button[type=submit]"), chromedp.WaitVisible("#live"))
	if out := s.must("admin", "reset-mfa", "admin", "--reason", "a drill"); !strings.Contains(out, "MFA of") {
		t.Error(out)
	}
}

// A user adds a passkey on the account page, and signs in with it from an unknown client, in
// CAPTCHA mode and by keyboard.
func TestAUserSignsInWithAPasskeyInABrowser(t *testing.T) {
	t.Parallel()
	var to atomic.Pointer[url.URL]
	var address atomic.Value
	address.Store("192.0.2.1")
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to.Load())
		r.Out.Host = r.In.Host
		r.Out.Header.Set("X-Forwarded-For", address.Load().(string))
	}})
	t.Cleanup(front.Close)
	origin := strings.Replace(front.URL, "127.0.0.1", "localhost", 1)
	s := newServer(t, quiet+"trusted_proxies: [127.0.0.1]\norigin: "+origin+"\n", "alice")
	base, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	to.Store(base)
	b := openTab(t, chromedp.WindowSize(1280, 900)) // in its own Chromium, see above
	b.holdsPasskeys()
	b.goTo(origin + "/login?next=/account")
	b.send("alice", rightPassword)
	b.do("the form", chromedp.WaitVisible("#passkey_name"), chromedp.SendKeys("#passkey_name", "phone <img onerror>"))
	b.do("a wrong password", chromedp.SendKeys("#current_password", "wrong"), chromedp.KeyEvent(kb.Enter))
	b.says("The current password is wrong")
	b.do("the password", chromedp.SetValue("#current_password", rightPassword), chromedp.Click("#passkeys form[data-new] button[type=submit]"))
	b.says("The passkey was added")
	b.picture("account-passkey")

	s.must("captcha", "enable", "--reason", "a drill")
	from := func(client string) {
		t.Helper()
		address.Store(client)
		b.do("no cookies", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, network.ClearBrowserCookies, cdp.Empty{})
			return err
		}))
	}
	from("198.51.100.7")
	b.goTo(origin + "/login?next=/account")
	b.says("Sign in with a passkey")
	if b.eval(`String(document.querySelectorAll("fieldset.challenge").length)`) != "1" {
		t.Error("a password needs no challenge, so this is no unknown client")
	}
	b.picture("login-passkey")
	b.tabTo("the passkey", "form[data-passkey] button")
	b.do("pressing it", chromedp.KeyEvent(kb.Enter))
	b.says("Active sessions")
	b.says("198.51.100.7")
	from("198.51.100.8")
	b.goTo(origin + "/login?next=/account#suggest")
	b.says("198.51.100.8")
	if rows := s.must("audit", "--account", "alice", "--json"); !strings.Contains(rows, "passkey") {
		t.Errorf("the audit log does not say so: %s", rows)
	}
}
