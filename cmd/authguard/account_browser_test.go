package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

var letterLink = regexp.MustCompile(`https://login\.example\.org(/login/not-me/[A-Z2-7.]+)`)

// Somebody signs in as alice from a new place; her letter closes the account to them, in a
// browser without JavaScript. She gets in with a one-time code, chooses another password,
// and sees her own page.
func TestThatWasNotMeInABrowserWithoutScripts(t *testing.T) {
	long(t)
	t.Parallel()
	mail := openPostbox(t, false)
	s := newServer(t, quiet+"secure_cookies: never\norigin: https://login.example.org\nmail: {server: 'smtp://"+mail.Addr().String()+"', from: login@example.org, notify_new_client: true, language: de}\n", "alice@example.org")
	thief := from("127.95.0.66")
	if a := thief.login(t, s, "alice@example.org", rightPassword); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	letter := strings.ReplaceAll(<-mail.letters, "=\n", "")
	link := letterLink.FindStringSubmatch(letter)
	if link == nil || !strings.Contains(letter, "127.95.0.66") || !strings.Contains(letter, "<alice@example.org>") || !strings.Contains(letter, "Neue_Anmeldung") && !strings.Contains(letter, "Neue Anmeldung") {
		t.Fatal(letter)
	}
	b := openTab(t)
	b.withoutScripts()
	b.goTo(s.base + link[1])
	b.says("127.95.0.66")
	b.click("main form button[type=submit]")
	b.says("Your account is secured")
	if a := thief.login(t, s, "alice@example.org", rightPassword); a.status != 401 {
		t.Errorf("the thief gets in again: %d %s", a.status, a.body)
	}
	code := codePattern.FindString(say(t, s.command("user", "create-code", "alice@example.org"), "").out)
	b.goTo(s.base + "/login?next=/account")
	b.do("signing in", chromedp.Click("details.code summary"), chromedp.SendKeys("#code", code))
	b.send("alice@example.org", rightPassword)
	const chosen = "battery staple and more"
	b.do("the new password", chromedp.WaitVisible("#new_password"), chromedp.SendKeys("#new_password", chosen),
		chromedp.SendKeys("#repeat_password", chosen), chromedp.Click("form[action='/account/password'] button[type=submit]"))
	b.says("Active sessions")
	b.click("form[action='/account/sessions/others'] button")
	b.says("All other sessions were ended")

	eye := openTab(t)
	eye.goTo(s.base + "/login?next=/account")
	eye.send("alice@example.org", chosen)
	eye.says("Active sessions")
	eye.picture("account")
	eye.goTo(s.base + "/account/password")
	eye.picture("account-password")
}

var forgotLink = regexp.MustCompile(`https://login\.example\.org(/login/reset/[A-Z0-9.-]+)`)

// A user who has forgotten the password gets in with the link of an email, in a browser without JavaScript.
func TestAForgottenPasswordInABrowserWithoutScripts(t *testing.T) {
	t.Parallel()
	mail := openPostbox(t, false)
	s := newServer(t, quiet+"secure_cookies: never\norigin: https://login.example.org\nmail: {server: 'smtp://"+mail.Addr().String()+"', from: login@example.org}\n", "alice@example.org")
	b := openTab(t)
	b.withoutScripts()
	b.goTo(s.base + "/login")
	b.click("a[href='/login/forgot']")
	b.do("the name", chromedp.WaitVisible("#username"), chromedp.SendKeys("#username", "alice@example.org"),
		chromedp.Click("main form button[type=submit]"))
	b.says("Check your email")
	letter := strings.ReplaceAll(strings.ReplaceAll(<-mail.letters, "=\n", ""), "=\r\n", "")
	link := forgotLink.FindStringSubmatch(letter)
	if link == nil {
		t.Fatal(letter)
	}
	const chosen = "battery staple and more"
	b.goTo(s.base + link[1])
	b.do("the new password", chromedp.WaitVisible("#new_password"), chromedp.SendKeys("#new_password", chosen),
		chromedp.SendKeys("#repeat_password", chosen), chromedp.Click("main form button[type=submit]"))
	b.says("Your password was changed")
	if done := <-mail.letters; !strings.Contains(done, "changed") {
		t.Error(done)
	}
	b.send("alice@example.org", chosen)
	b.says("You are signed in")
}
