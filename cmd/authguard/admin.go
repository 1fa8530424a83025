package main

import (
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"authguard/internal/control"
)

// adminCmd is `authguard admin`, the counterpart of the page Administrators.
type adminCmd struct {
	List          adminListCmd          `cmd:"" help:"List administrators and their MFA" example:""`
	Add           adminAddCmd           `cmd:"" help:"Add an administrator (prints a temporary password)" example:"carol --reason 'on call'"`
	Remove        adminRemoveCmd        `cmd:"" help:"Remove the administrator role and keep the account" example:"carol --reason left"`
	ResetPassword adminResetPasswordCmd `cmd:"" help:"Reset a password (prints a temporary one)" example:"carol --reason 'forgotten'"`
	ResetMFA      adminResetMFACmd      `cmd:"" name:"reset-mfa" help:"Remove app, passkeys and recovery codes; end sessions" example:"carol --reason 'lost phone'"`
	SignOut       adminSignOutCmd       `cmd:"" help:"Revoke all sessions of an administrator" example:"carol --reason 'lost laptop'"`
}

type about struct {
	Name   string `arg:"" help:"User name of the administrator"`
	Reason string `required:"" placeholder:"TEXT" help:"Reason, for the audit log"`
}

func (a about) question() map[string]string {
	return map[string]string{"username": a.Name, "reason": a.Reason}
}

func (a about) query() url.Values { return url.Values{"username": {a.Name}, "reason": {a.Reason}} }

type adminListCmd struct{}

// Run lists the administrators.
func (adminListCmd) Run(g *globals) error {
	var answer struct{ Administrators []control.Administrator }
	return g.show(http.MethodGet, "/api/administrators", nil, nil, &answer, func() error {
		w := tabwriter.NewWriter(g.out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tDISABLED\tAPP\tPASSKEYS\tRECOVERY CODES\tSESSIONS\tLAST SIGN-IN")
		for _, one := range answer.Administrators {
			fmt.Fprintf(w, "%q\t%t\t%t\t%d\t%d\t%d\t%s\n", one.Username, one.Disabled, one.TOTP != nil, len(one.Passkeys),
				one.Recovery, one.Sessions, day(one.LastLogin))
		}
		return w.Flush()
	})
}

type adminAddCmd struct {
	about
	Email string `help:"Email address, also valid as a user name"`
}

// Run adds an administrator.
func (c adminAddCmd) Run(g *globals) error {
	var made control.NewAdministrator
	question := map[string]string{"username": c.Name, "email": c.Email, "reason": c.Reason}
	return g.show(http.MethodPost, "/api/administrators", nil, question, &made, func() error {
		return tells(g.out, "%q is an administrator. Temporary password, shown once: %s", made.Username, made.Password)
	})
}

type adminRemoveCmd struct{ about }

// Run removes the administrator role.
func (c adminRemoveCmd) Run(g *globals) error {
	return g.do(http.MethodDelete, "/api/administrators", c.query(), nil,
		"%q is no longer an administrator. Their sessions, MFA and tokens are revoked.", c.Name)
}

type adminResetPasswordCmd struct{ about }

// Run sets a temporary password.
func (c adminResetPasswordCmd) Run(g *globals) error {
	var made struct{ Password string }
	return g.show(http.MethodPost, "/api/administrators/password", nil, c.question(), &made, func() error {
		return tells(g.out, "Temporary password of %q, shown once: %s", c.Name, made.Password)
	})
}

type adminResetMFACmd struct{ about }

// Run removes the administrator's MFA.
func (c adminResetMFACmd) Run(g *globals) error {
	return g.do(http.MethodPost, "/api/administrators/mfa", nil, c.question(),
		"MFA of %q is removed and all sessions have ended. Set up MFA again at the next sign-in: /security.", c.Name)
}

type adminSignOutCmd struct{ about }

// Run ends the administrator's sessions.
func (c adminSignOutCmd) Run(g *globals) error {
	return g.do(http.MethodDelete, "/api/administrators/sessions", c.query(), nil, "All sessions of %q have ended.",
		c.Name)
}
