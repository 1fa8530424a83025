package pages

import (
	"encoding/base64"
	"html/template"
	"strings"

	"authguard/internal/factors"
	"authguard/internal/sessions"
)

// SecurityView is an administrator's own page: how they sign in, and where they are
// signed in. Its forms post to /security/….
type SecurityView struct {
	Admin
	factors.Kept
	Sessions []OwnSession
	// Fresh says that they signed in a moment ago, without which nothing but sessions is
	// changed here; Lacks, that nothing else opens before there is a second factor.
	Fresh, Lacks bool
	// PasskeysHere says that there can be some at the name that the page was called by,
	// and PasskeysAt where else, if that is known.
	PasskeysHere bool
	PasskeysAt   string
	// App is one that is being set up; zero for none.
	App factors.Enrolment
	// Codes are recovery codes that were just made.
	Codes []string
}

// An OwnSession is one of the administrator's sessions, This the one that asks.
type OwnSession struct {
	sessions.Session
	This bool
}

// RenderSecurity draws the page.
func RenderSecurity(v SecurityView) ([]byte, error) { return render("security", v) }

// Frame is what surrounds the page.
func (v SecurityView) Frame() frame {
	return frame{Title: "Your sign-in · Admin console", Script: "login.js", Passkey: v.Fresh && v.PasskeysHere, Wide: true}
}

// QR is the picture of the app's secret, in the page itself: it is stored nowhere.
func (v SecurityView) QR() template.URL {
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(v.App.QR)) // of our own drawing
}

// Secret is the app's secret in pieces that one can type.
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
