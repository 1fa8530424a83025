package pages

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"authguard/internal/audit"
	"authguard/internal/control"
	"authguard/internal/mfa"
	"authguard/internal/sessions"
	"authguard/internal/times"
)

// AccountView is the user's own account page: sessions, known clients, newest logins. Its forms post csrf to
// /account/….
type AccountView struct {
	Page
	CSRF     string
	Username string
	Own      control.Own
	// This is the ID of the session that sends the request, and Here its IP address.
	This string
	Here netip.Addr
	// Password offers the password form. Administrator refers the user to the admin console for all but the sessions.
	Password, Administrator bool
	// PasskeysHere offers passkeys; Kept are the account's.
	PasskeysHere bool
	Kept         []mfa.Passkey
	// Done is the key of the operation that was just done; empty for none.
	Done string
}

// RenderAccount draws the page.
func RenderAccount(v AccountView) ([]byte, error) { return render("account", v) }

// Frame returns the page's title and layout.
func (v AccountView) Frame() frame {
	return frame{Page: v.Page, Title: v.T("account.title"), Wide: true, Script: "login.js", Passkey: v.PasskeysHere}
}

var accountDone = [...]string{"password", "ended", "others", "place", "places", "not-me", "passkey", "passkey-removed"}

// Said returns the text for Done. It is empty for an unknown key, which an attacker can put into a link.
func (v AccountView) Said() string {
	if !slices.Contains(accountDone[:], v.Done) {
		return ""
	}
	return v.T("account.done." + v.Done)
}

type use struct {
	Address, Agent string
	At, Last       moment
	ID             string
	This           bool
}

// fullMoment returns a time in its own zone for readers of any language, without Ago.
func fullMoment(t time.Time) moment {
	return moment{ISO: times.Second(t), Full: times.Text(t)}
}

// Sessions returns the account's sessions at this integration.
func (v AccountView) Sessions() (all []use) {
	for _, s := range v.Own.Sessions {
		all = append(all, use{s.Address, Browser(s.Agent), fullMoment(s.Started), fullMoment(s.Seen), s.ID, s.ID == v.This})
	}
	return all
}

type ownPasskey struct {
	ID, Name string
	At, Last moment
	Cloned   bool
}

// Passkeys returns the account's passkeys.
func (v AccountView) Passkeys() (all []ownPasskey) {
	for _, p := range v.Kept {
		one := ownPasskey{ID: p.ID, Name: p.Name, At: fullMoment(p.Created), Cloned: !p.Cloned.IsZero()}
		if !p.Used.IsZero() {
			one.Last = fullMoment(p.Used)
		}
		all = append(all, one)
	}
	return all
}

// CurrentPassword is the input for the password in the form for a new passkey.
func (v AccountView) CurrentPassword() passwordField {
	return passwordField{ID: "current_password", Label: v.T("password.current"), Complete: "current-password"}
}

// Places returns the known IP addresses of the account. The current one is marked.
func (v AccountView) Places() (all []use) {
	for _, p := range v.Own.Places {
		if !p.Spent && !p.Shared {
			all = append(all, use{Address: p.Address.String(), At: fullMoment(p.First), Last: fullMoment(p.Last),
				This: p.Address == v.Here})
		}
	}
	return all
}

// Devices returns the IP addresses from which browsers with a device cookie signed in.
func (v AccountView) Devices() (all []use) {
	for _, d := range v.Own.Devices {
		all = append(all, use{Address: d.Address, Last: fullMoment(d.Last)})
	}
	return all
}

// Logins returns the newest logins.
func (v AccountView) Logins() (all []use) {
	for _, r := range v.Own.Logins {
		all = append(all, loginOf(r, v.Own.Sessions))
	}
	return all
}

// loginOf takes the browser from a running session that began at the same time and IP address.
func loginOf(r audit.Row, running []sessions.Session) use {
	u := use{Address: strings.Replace(r.Address, "unknown", "–", 1), At: fullMoment(r.At), ID: strconv.FormatInt(r.ID, 10)}
	for _, s := range running {
		if gap := s.Started.Sub(r.At); s.Address == r.Address && gap.Abs() < 5*time.Second {
			u.Agent = Browser(s.Agent)
		}
	}
	return u
}

// NotMeView asks the user whether a login was theirs, and shows the outcome.
type NotMeView struct {
	Page
	Username string
	Login    use
	// Action is the form's target. CSRF and ID are set for a signed-in user.
	Action, CSRF, ID string
	// Ours is set if authguard keeps the password. With Form, the user chooses a new password at once.
	Ours, Form bool
	Problems   []PasswordProblem
	Done       bool
}

// NotMe returns the view of one login.
func NotMe(p Page, username, address, agent string, at time.Time) NotMeView {
	return NotMeView{Page: p, Username: username, Login: use{Address: address, Agent: Browser(agent), At: fullMoment(at)}}
}

// RenderNotMe draws the page.
func RenderNotMe(v NotMeView) ([]byte, error) { return render("not-me", v) }

// Fields returns the inputs for the new password.
func (v NotMeView) Fields() []passwordField {
	return PasswordView{Page: v.Page, Problems: v.Problems}.Fields()
}

// Title returns the question, or the heading of the outcome.
func (v NotMeView) Title() string {
	if v.Done {
		return v.T("not-me.done")
	}
	return v.T("not-me.title")
}

// Frame returns the page's title and script.
func (v NotMeView) Frame() frame {
	return frame{Page: v.Page, Title: v.Title(), Script: "login.js", Times: true}
}

// Browser returns a browser's name and system, or the User-Agent itself if it is unknown.
func Browser(agent string) string { return cmp.Or(BrowserName(agent), agent) }

// BrowserName returns one of a closed set of names, empty for an unknown browser. Emails use it, because a mail program
// turns other text, such as a domain, into a link.
func BrowserName(agent string) string {
	find := func(all ...[2]string) string {
		for _, one := range all {
			if strings.Contains(agent, one[0]) {
				return one[1]
			}
		}
		return ""
	}
	name := find([2]string{"Edg/", "Edge"}, [2]string{"OPR/", "Opera"}, [2]string{"SamsungBrowser/", "Samsung Internet"},
		[2]string{"Firefox/", "Firefox"},
		[2]string{"FxiOS/", "Firefox"}, [2]string{"CriOS/", "Chrome"}, [2]string{"Chrome/", "Chrome"},
		[2]string{"Version/", "Safari"}, [2]string{"curl/", "curl"})
	system := find([2]string{"Windows", "Windows"}, [2]string{"Android", "Android"}, [2]string{"iPhone", "iPhone"},
		[2]string{"iPad", "iPad"},
		[2]string{"CrOS", "ChromeOS"}, [2]string{"Mac OS X", "macOS"}, [2]string{"Linux", "Linux"})
	if name == "" || system == "" {
		return name
	}
	return name + ", " + system
}
