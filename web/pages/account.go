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
	"authguard/internal/sessions"
)

// AccountView is what somebody sees of their own account: where they are signed in, where
// they are known, and the newest logins. Its forms post csrf to /account/….
type AccountView struct {
	Page
	CSRF     string
	Username string
	Own      control.Own
	// This is the session that asks, and Here where it comes from.
	This string
	Here netip.Addr
	// Password says that it is changed here, and Administrator that all but the sessions is
	// in the admin console.
	Password, Administrator bool
	// Done is the key of what was just done; empty for nothing.
	Done string
}

// RenderAccount draws the page.
func RenderAccount(v AccountView) ([]byte, error) { return render("account", v) }

// Frame is what surrounds the page.
func (v AccountView) Frame() frame {
	return frame{Page: v.Page, Title: v.T("account.title"), Wide: true}
}

// accountDone are the keys that Done may be.
var accountDone = [...]string{"password", "ended", "others", "place", "places", "not-me"}

// Said is the text about Done; empty for anything that a stranger put into the link.
func (v AccountView) Said() string {
	if !slices.Contains(accountDone[:], v.Done) {
		return ""
	}
	return v.T("account.done." + v.Done)
}

// A use is one line about a session, a place or a login.
type use struct {
	Address, Agent string
	At, Last       clock
	ID             string
	This           bool
}

// A clock is a moment for people of any language, and for programs.
type clock struct{ ISO, Text string }

func clockOf(t time.Time) (c clock) {
	if !t.IsZero() {
		t = t.UTC()
		c = clock{t.Format(time.RFC3339), t.Format("2006-01-02 15:04 UTC")}
	}
	return c
}

// Sessions are where the account is signed in at this door.
func (v AccountView) Sessions() (all []use) {
	for _, s := range v.Own.Sessions {
		all = append(all, use{s.Address, Browser(s.Agent), clockOf(s.Started), clockOf(s.Seen), s.ID, s.ID == v.This})
	}
	return all
}

// Places are the addresses that are known, the one of who asks marked.
func (v AccountView) Places() (all []use) {
	for _, p := range v.Own.Places {
		if !p.Spent && !p.Shared {
			all = append(all, use{Address: p.Address.String(), At: clockOf(p.First), Last: clockOf(p.Last), This: p.Address == v.Here})
		}
	}
	return all
}

// Devices are the addresses from which browsers with a device cookie signed in.
func (v AccountView) Devices() (all []use) {
	for _, d := range v.Own.Devices {
		all = append(all, use{Address: d.Address, Last: clockOf(d.Last)})
	}
	return all
}

// Logins are the newest.
func (v AccountView) Logins() (all []use) {
	for _, r := range v.Own.Logins {
		all = append(all, loginOf(r, v.Own.Sessions))
	}
	return all
}

// loginOf names the browser by the session that began there and then, if that goes on.
func loginOf(r audit.Row, running []sessions.Session) use {
	u := use{Address: strings.Replace(r.Address, "unknown", "–", 1), At: clockOf(r.At), ID: strconv.FormatInt(r.ID, 10)}
	for _, s := range running {
		if gap := s.Started.Sub(r.At); s.Address == r.Address && gap.Abs() < 5*time.Second {
			u.Agent = Browser(s.Agent)
		}
	}
	return u
}

// NotMeView asks somebody whether a login was theirs, and says what became of it.
type NotMeView struct {
	Page
	Username string
	Login    use
	// Action is where the form goes; CSRF and ID are for somebody who is signed in.
	Action, CSRF, ID string
	// Ours says that the password is kept here. With Form the new one is chosen at once.
	Ours, Form bool
	Problems   []PasswordProblem
	// Done says that it has been done.
	Done bool
}

// NotMe is the view of one login.
func NotMe(p Page, username, address, agent string, at time.Time) NotMeView {
	return NotMeView{Page: p, Username: username, Login: use{Address: address, Agent: Browser(agent), At: clockOf(at)}}
}

// RenderNotMe draws the page.
func RenderNotMe(v NotMeView) ([]byte, error) { return render("not-me", v) }

// Fields are those of the new password.
func (v NotMeView) Fields() []passwordField {
	return PasswordView{Page: v.Page, Problems: v.Problems}.Fields()
}

// Title is the question, or that it is done.
func (v NotMeView) Title() string {
	if v.Done {
		return v.T("not-me.done")
	}
	return v.T("not-me.title")
}

// Frame is what surrounds the page.
func (v NotMeView) Frame() frame { return frame{Page: v.Page, Title: v.Title(), Script: "login.js"} }

// Browser is what a browser calls itself, in few words: its name and its system, or the
// beginning of the text where neither is known.
func Browser(agent string) string { return cmp.Or(BrowserName(agent), agent) }

// BrowserName is one of a closed set of names; empty for any other browser. A mail
// program makes a link of other text, such as a domain.
func BrowserName(agent string) string {
	find := func(all ...[2]string) string {
		for _, one := range all {
			if strings.Contains(agent, one[0]) {
				return one[1]
			}
		}
		return ""
	}
	name := find([2]string{"Edg/", "Edge"}, [2]string{"OPR/", "Opera"}, [2]string{"SamsungBrowser/", "Samsung Internet"}, [2]string{"Firefox/", "Firefox"},
		[2]string{"FxiOS/", "Firefox"}, [2]string{"CriOS/", "Chrome"}, [2]string{"Chrome/", "Chrome"}, [2]string{"Version/", "Safari"}, [2]string{"curl/", "curl"})
	system := find([2]string{"Windows", "Windows"}, [2]string{"Android", "Android"}, [2]string{"iPhone", "iPhone"}, [2]string{"iPad", "iPad"},
		[2]string{"CrOS", "ChromeOS"}, [2]string{"Mac OS X", "macOS"}, [2]string{"Linux", "Linux"})
	if name == "" || system == "" {
		return name
	}
	return name + ", " + system
}
