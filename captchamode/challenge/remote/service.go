package remote

import (
	"fmt"
	"net/url"
)

// A Service is one provider on the web, as its documentation describes it.
type Service struct {
	// Name is its name in the configuration.
	Name string
	// Verify is where it says whether a token is good.
	Verify string
	// Script draws the widget in every element of Class, and puts the token into
	// Field of the form around it.
	Script, Class, Field string
	// Scripts, Frames, Styles and Connects are what a page's Content-Security-Policy
	// has to let through for the widget.
	Scripts, Frames, Styles, Connects []string

	// binds: the widget passes a text on to the answer of siteverify, so that a
	// token is good for one challenge. Others are bound by the form they come in.
	binds bool
	// header has the secret; otherwise it is the field "secret".
	header string
	// keyed: it checks the site key, too, if it is sent.
	keyed bool
	// nameless: a success may come without the name of the host.
	nameless bool
}

// services are all that are known.
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

// Known reports whether there is a service of this name.
func Known(name string) bool {
	_, err := find(name)
	return err == nil
}

// CheckVerify checks where siteverify is to be asked: over TLS, unless that is
// this machine.
func CheckVerify(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && !(u.Scheme == "http" &&
		u.Hostname() == "127.0.0.1") {
		return fmt.Errorf("must be an https URL such as https://eu.frcapi.com/api/v2/captcha/siteverify, not %.100q", text)
	}
	return nil
}
