package mw

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/web/static"
	"authguard/web/texts"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string

	pageTemplate = template.Must(template.New("page").Parse(pageHTML))
)

// A view is the page for a stopped client. It is self-contained: a program that protects one handler has no other path
// for styles, scripts and images.
type view struct {
	*texts.Language
	*Refusal
	Style   template.CSS
	Script  template.JS
	Picture template.URL // empty: none, or too many are being rendered
	Work    string       // the challenge's proof of work, for the script
	Code    bool         // the page asks for a verification code
}

// Script serves a script that shows the challenges of a JavaScript login in the app's own page. Load it from the same
// site, before the app's scripts:
//
//	http.Handle("GET /authguard.js", mw.Script())
//	<script src="/authguard.js"></script>
//
// It repeats a stopped fetch or XMLHttpRequest with the solution or the verification code. OnRefusal must answer such a
// request with the problem+json of [Refusal.Write].
func Script() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := static.ServeClient(w, r, texts.Standard()); err != nil {
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		}
	})
}

func (f *Refusal) page(r *http.Request) (page []byte, policy string, err error) {
	v := view{Language: f.of.languages.For(r.Header.Get("Accept-Language")), Refusal: f, Style: template.CSS(pageCSS),
		Code: f.Form != "" && (f.of.guard.TakesCodes() || f.of.onCode != nil)}
	if f.Challenge != nil {
		v.Picture = f.picture(r.Context())
		if f.Challenge.PoW != nil {
			script, err := static.Files.ReadFile("pow.js")
			if err != nil {
				return nil, "", err
			}
			work, err := json.Marshal(f.Challenge.PoW)
			if err != nil {
				return nil, "", err
			}
			v.Script, v.Work = template.JS(script), string(work)
		}
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, v); err != nil {
		return nil, "", fmt.Errorf("mw: %w", err)
	}
	return b.Bytes(), fmt.Sprintf("style-src %s; script-src %s; img-src data:; media-src 'self'", hashOf(pageCSS),
		hashOf(string(v.Script))), nil
}

// picture embeds the challenge's image: without JavaScript the page then needs no second request, which a handler for
// POST alone would not get.
func (f *Refusal) picture(ctx context.Context) template.URL {
	if f.Challenge.Image == "" {
		return ""
	}
	m, err := f.of.guard.Picture(ctx, f.Challenge.ID, "png")
	if err != nil {
		return ""
	}
	return template.URL("data:" + m.Type + ";base64," + base64.StdEncoding.EncodeToString(m.Body))
}

// Heading is the page's title.
func (v view) Heading() string { return v.Say("message." + v.says + ".title") }

// Lines explain what happened and what to do.
func (v view) Lines() (lines []string) {
	switch v.says {
	case "invalid":
		return []string{v.Say("gate.invalid"), v.Detail}
	case "busy":
		return []string{v.Say("gate.busy-text")}
	case "required":
		lines = append(lines, v.Say(v.why()))
	}
	if v.Decision.Reasons.Has(guard.CodeFailed) {
		lines = append(lines, v.Say("message.code-failed"))
	}
	return append(lines, v.Say("gate."+v.says))
}

func (v view) why() string {
	switch d := v.Decision; {
	case d.Reasons.Has(guard.WorkNeeded):
		return "why.work"
	case d.Verdict.Reason == challenge.Elsewhere || d.Verdict.Reason == challenge.TooLittle:
		return "why.elsewhere"
	}
	for _, r := range v.Decision.Reasons {
		switch {
		case r.Cause == guard.ModeOn:
			return "why.site"
		case r.Subject == guard.OnAccount:
			return "why.account"
		case r.Subject == guard.OnAddress || r.Subject == guard.OnNetwork:
			return "why.network"
		}
	}
	return "why.unusual"
}

// Wait is the delay in words; empty if waiting does not help.
func (v view) Wait() string {
	if v.Seconds == 0 || v.says == "blocked" {
		return ""
	}
	return v.Say("wait.again", "wait", v.Spell(time.Duration(v.Seconds)*time.Second))
}

// Both reports whether the page requires the image CAPTCHA and the proof of work.
func (v view) Both() bool { return v.Challenge != nil && v.Challenge.Kind == challenge.KindBoth }

// Sound is the URL of the audio CAPTCHA, relative to the page.
func (v view) Sound() string {
	if v.Challenge == nil || v.Challenge.Audio == "" {
		return ""
	}
	return "?" + mediaField + "=" + v.Challenge.ID + ".wav"
}

// hashOf is the Content-Security-Policy source of an inline style or script.
func hashOf(text string) string {
	if text == "" {
		return "'none'"
	}
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// setHeaders sets the headers of our own responses. The policy has no form-action: the handler may redirect to another
// site, and browsers apply form-action to redirects as well.
func setHeaders(h http.Header, policy string) {
	h.Set("Content-Security-Policy", strings.TrimSuffix("default-src 'none'; frame-ancestors 'none'; base-uri 'none'; "+
		policy, "; "))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "Accept, Accept-Language")
}

func wantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "html") }
