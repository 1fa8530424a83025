package remote

import (
	"fmt"
	"net/url"
)

// A Service is an external provider, as documented by it.
type Service struct {
	// Name is its name in the configuration.
	Name string
	// Verify is the URL of siteverify.
	Verify string
	// Script renders the widget in every element of Class, and puts the token in Field of the surrounding form.
	Script, Class, Field string
	// Scripts, Frames, Styles and Connects are what the page's Content-Security-Policy must allow for the widget.
	Scripts, Frames, Styles, Connects []string

	// binds: siteverify returns data from the widget, so that a token is valid for one challenge. Tokens of other
	// services are bound by their form only.
	binds bool
	// header carries the secret; if empty, the field "secret" does.
	header string
	// keyed: siteverify also checks the site key.
	keyed bool
	// nameless: a success may lack the host name.
	nameless bool
}

var services = [...]Service{{
	Name: "turnstile", Verify: "https://challenges.cloudflare.com/turnstile/v0/siteverify",
	Script: "https://challenges.cloudflare.com/turnstile/v0/api.js", Class: "cf-turnstile", Field: "cf-turnstile-response",
	Scripts: []string{"https://challenges.cloudflare.com"}, Frames: []string{"https://challenges.cloudflare.com"},
	binds: true,
}, {
	Name: "hcaptcha", Verify: "https://api.hcaptcha.com/siteverify",
	Script: "https://js.hcaptcha.com/1/api.js", Class: "h-captcha", Field: "h-captcha-response",
	Scripts: []string{"https://hcaptcha.com", "https://*.hcaptcha.com"}, Frames: []string{"https://hcaptcha.com",
		"https://*.hcaptcha.com"},
	keyed:  true,
	Styles: []string{"https://hcaptcha.com", "https://*.hcaptcha.com"}, Connects: []string{"https://hcaptcha.com",
		"https://*.hcaptcha.com"},
}, {
	Name: "recaptcha", Verify: "https://www.google.com/recaptcha/api/siteverify",
	Script: "https://www.google.com/recaptcha/api.js", Class: "g-recaptcha", Field: "g-recaptcha-response",
	Scripts: []string{"https://www.google.com/recaptcha/", "https://www.gstatic.com/recaptcha/"},
	Frames:  []string{"https://www.google.com/recaptcha/", "https://recaptcha.google.com/recaptcha/"},
}, {
	Name: "friendly", Verify: "https://global.frcapi.com/api/v2/captcha/siteverify",
	Script: "https://cdn.jsdelivr.net/npm/@friendlycaptcha/sdk@0.1.36/site.min.js", Class: "frc-captcha",
	Field:   "frc-captcha-response",
	Scripts: []string{"https://cdn.jsdelivr.net/npm/@friendlycaptcha/sdk@0.1.36/"},
	Frames:  []string{"https://*.frcapi.com"},
	header:  "X-API-Key", keyed: true, nameless: true,
}}

func find(name string) (Service, error) {
	for _, s := range services {
		if s.Name == name {
			return s, nil
		}
	}
	return Service{}, fmt.Errorf("remote: there is no service %q", name)
}

// Known reports whether there is a service with this name.
func Known(name string) bool {
	_, err := find(name)
	return err == nil
}

// CheckVerify validates the URL of siteverify: https, unless it is on this machine.
func CheckVerify(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && !(u.Scheme == "http" &&
		u.Hostname() == "127.0.0.1") {
		return fmt.Errorf("must be an https URL such as https://eu.frcapi.com/api/v2/captcha/siteverify, not %.100q", text)
	}
	return nil
}
