package pages

// PasswordView is the page on which an administrator replaces a password. It posts
// csrf, current_password, new_password and repeat_password to /password.
type PasswordView struct {
	CSRF string
	// Username is whose password it is; password managers file the new one
	// under it.
	Username string
	// OneTime is set on the first sign-in, where the password in use was
	// printed by the program and must go.
	OneTime bool
	// JustTyped says that it was typed a moment ago, and is not asked for again.
	JustTyped bool
	// Problems are what kept the last try from working; none at first.
	Problems []PasswordProblem
}

// A PasswordProblem is why a new password was not taken: the input that it is
// about, and what is wrong and what to do.
type PasswordProblem struct{ Field, Words string }

// The problems that there can be.
var (
	CurrentWrong  = PasswordProblem{"current_password", "The current password is wrong. Enter the one you signed in with."}
	NewTooShort   = PasswordProblem{"new_password", "The new password is too short. Use at least 8 characters."}
	NewHasNUL     = PasswordProblem{"new_password", "The new password has a NUL character in it, which cannot be told from its end. Leave it out."}
	NewTooLong    = PasswordProblem{"new_password", "The new password is too long. Use at most 72 bytes; accented letters take two or more."}
	NewSame       = PasswordProblem{"new_password", "The new password is the old one. Choose a different one."}
	RepeatDiffers = PasswordProblem{"repeat_password", "The two new passwords differ. Type the same one twice."}
)

// RenderPassword draws the change-password page.
func RenderPassword(v PasswordView) ([]byte, error) { return render("password", v) }

// A passwordField is one input with its words and its problem.
type passwordField struct {
	ID, Label, Complete, Hint, Problem string
	Focus                              bool
}

// Fields are the three inputs in order. The first one with a problem has the
// focus, or the first of all.
func (v PasswordView) Fields() []passwordField {
	current := "Current password"
	if v.OneTime {
		current = "One-time password"
	}
	fields := []passwordField{
		{ID: "current_password", Label: current, Complete: "current-password"},
		{ID: "new_password", Label: "New password", Complete: "new-password", Hint: "8 to 72 bytes. A few words in a row are easy to keep and hard to guess."},
		{ID: "repeat_password", Label: "New password again", Complete: "new-password"},
	}
	if v.JustTyped {
		fields = fields[1:]
	}
	focus := 0
	for i := len(fields) - 1; i >= 0; i-- {
		for _, p := range v.Problems {
			if p.Field == fields[i].ID {
				fields[i].Problem, focus = p.Words, i
			}
		}
	}
	fields[focus].Focus = true
	return fields
}

// Frame is what surrounds the page.
func (v PasswordView) Frame() frame {
	title := "Change password · Administration"
	if len(v.Problems) > 0 {
		title = "Not changed · " + title
	}
	return frame{Title: title, Script: "login.js"}
}
