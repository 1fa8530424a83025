package pages

import (
	"encoding/base64"
	"html/template"
	"strings"

	"authguard/internal/mfa"
	"authguard/internal/sessions"
)

// SecurityView is an administrator's own page: MFA and sessions. Its forms post to /security/….
type SecurityView struct {
	Admin
	mfa.Kept
	Sessions []OwnSession
	// Fresh is set after a recent sign-in; without it only sessions can be changed. Lacks is set if the administrator has
	// to set up MFA before any other page opens.
	Fresh, Lacks bool
	// PasskeysHere is set if passkeys work at this host name. PasskeysAt is where they do; empty if unknown.
	PasskeysHere bool
	PasskeysAt   string
	// App is a TOTP app during its setup; zero for none.
	App mfa.Enrolment
	// AppWrong is set after a wrong code from the app.
	AppWrong bool
	// Codes are new recovery codes.
	Codes []string
}

// An OwnSession is one of the administrator's sessions; This is the current one.
type OwnSession struct {
	sessions.Session
	This bool
}

// RenderSecurity draws the page.
func RenderSecurity(v SecurityView) ([]byte, error) { return render("security", v) }

// Frame returns the page's title and scripts.
func (v SecurityView) Frame() frame {
	return frame{Title: "Your sign-in · Admin console", Passkey: v.Fresh && v.PasskeysHere, Wide: true}
}

// QR returns the TOTP secret as a data URL, so that no server or cache stores it.
func (v SecurityView) QR() template.URL {
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(v.App.QR)) // not user input
}

// Saved returns the recovery codes as a file, in a data URL: the download works without JavaScript.
func (v SecurityView) Saved() template.URL {
	text := "Recovery codes of " + Plain(v.User) + " for the authguard admin console. Each works once.\n\n" +
		strings.Join(v.Codes, "\n") + "\n"
	return template.URL("data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString([]byte(text)))
}

// Browser returns the session's browser, as /account names it.
func (s OwnSession) Browser() string { return Browser(s.Agent) }

// Secret returns the TOTP secret in groups of four characters.
func (v SecurityView) Secret() string {
	var b strings.Builder
	for i, r := range v.App.Secret {
		if i > 0 && i%4 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}
