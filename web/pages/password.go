package pages

// PasswordView is the page on which somebody replaces their password. It posts csrf, next,
// current_password, new_password and repeat_password to Action.
type PasswordView struct {
	Page
	// Admin puts "Admin console" above the heading.
	Admin  bool
	Action string
	CSRF   string
	// Next is where to go afterwards, as in LoginView.
	Next string
	// Username is whose password it is; password managers file the new one
	// under it.
	Username string
	// OneTime says that the password in use is good for choosing another one only.
	OneTime bool
	// JustTyped says that it was typed a moment ago, and is not asked for again.
	JustTyped bool
	// Problems are what kept the last try from working; none at first.
	Problems []PasswordProblem
}

// A PasswordProblem is why a new password was not taken: the input that it is
// about, and the key of what is wrong and what to do.
type PasswordProblem struct{ Field, Key string }

// The problems that there can be.
var (
	CurrentWrong  = PasswordProblem{"current_password", "password.wrong"}
	NewTooShort   = PasswordProblem{"new_password", "password.short"}
	NewHasNUL     = PasswordProblem{"new_password", "password.nul"}
	NewTooLong    = PasswordProblem{"new_password", "password.long"}
	NewSame       = PasswordProblem{"new_password", "password.same"}
	RepeatDiffers = PasswordProblem{"repeat_password", "password.differ"}
)

// Title is what is done here.
func (v PasswordView) Title() string {
	if v.OneTime {
		return v.T("password.choose")
	}
	return v.T("password.change")
}

// RenderPassword draws the change-password page.
func RenderPassword(v PasswordView) ([]byte, error) { return render("password", v) }

// A passwordField is one input with its words and its problem.
type passwordField struct {
	ID, Label, Complete, Hint, Problem string
	Focus                              bool
}

// In is a field with its page, for the template.
func (p Page) In(f passwordField) fieldOnPage { return fieldOnPage{p, f} }

type fieldOnPage struct {
	Page
	passwordField
}

// Fields are the three inputs in order. The first one with a problem has the
// focus, or the first of all.
func (v PasswordView) Fields() []passwordField {
	fields := []passwordField{
		{ID: "current_password", Label: v.T("password.current"), Complete: "current-password"},
		{ID: "new_password", Label: v.T("password.new"), Complete: "new-password", Hint: v.T("password.hint")},
		{ID: "repeat_password", Label: v.T("password.again"), Complete: "new-password"},
	}
	if v.JustTyped {
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

// Frame is what surrounds the page.
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
