package pages

// PasswordView changes a password. It posts csrf, next, current_password, new_password, repeat_password to Action.
type PasswordView struct {
	Page
	Admin  bool
	Action string
	CSRF   string
	// Next is the page afterwards, as in LoginView.
	Next string
	// Username is the account; password managers store the new password under it.
	Username string
	// OneTime is set for a temporary password.
	OneTime bool
	// Reset is set after a link from an email: there is no session and no current password.
	Reset bool
	// Leaked is set after a login with a password that is known from leaks. Next is where the user goes without a change.
	Leaked bool
	// JustTyped leaves out the current password, which the user entered a moment ago.
	JustTyped bool
	// Problems are the errors of the last try.
	Problems []PasswordProblem
}

// A PasswordProblem is an error of one input: the input's name and the key of the text.
type PasswordProblem struct{ Field, Key string }

// The problems of a password form.
var (
	CurrentWrong  = PasswordProblem{"current_password", "password.wrong"}
	NewTooShort   = PasswordProblem{"new_password", "password.short"}
	NewLeaked     = PasswordProblem{"new_password", "password.leaked"}
	NewHasNUL     = PasswordProblem{"new_password", "password.nul"}
	NewTooLong    = PasswordProblem{"new_password", "password.long"}
	NewSame       = PasswordProblem{"new_password", "password.same"}
	RepeatDiffers = PasswordProblem{"repeat_password", "password.differ"}
)

// Title returns the heading.
func (v PasswordView) Title() string {
	if v.OneTime || v.Reset {
		return v.T("password.choose")
	}
	return v.T("password.change")
}

// RenderPassword draws the page.
func RenderPassword(v PasswordView) ([]byte, error) { return render("password", v) }

type passwordField struct {
	ID, Label, Complete, Hint, Problem string
	Focus                              bool
}

// In returns a field with its page, for the template.
func (p Page) In(f passwordField) fieldOnPage { return fieldOnPage{p, f} }

type fieldOnPage struct {
	Page
	passwordField
}

// Fields returns the three inputs in order. The first with a problem has the focus, else the first of all.
func (v PasswordView) Fields() []passwordField {
	fields := []passwordField{
		{ID: "current_password", Label: v.T("password.current"), Complete: "current-password"},
		{ID: "new_password", Label: v.T("password.new"), Complete: "new-password", Hint: v.T("password.hint")},
		{ID: "repeat_password", Label: v.T("password.again"), Complete: "new-password"},
	}
	if v.JustTyped || v.Reset {
		fields = fields[1:]
	}
	focus := 0
	for i := len(fields) - 1; i >= 0; i-- {
		for _, p := range v.Problems {
			if p.Field == fields[i].ID {
				fields[i].Problem, focus = v.T(p.Key), i
			}
		}
	}
	fields[focus].Focus = true
	return fields
}

// Frame returns the page's title and script.
func (v PasswordView) Frame() frame {
	title := v.Title()
	if len(v.Problems) > 0 {
		title = v.T("password.not-changed") + " · " + title
	}
	if v.Admin {
		title += " · Admin console"
	}
	return frame{Page: v.Page, Title: title, Script: "login.js"}
}
