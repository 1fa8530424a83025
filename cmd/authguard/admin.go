package main

import (
	"fmt"
	"net/http"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"authguard/internal/control"
	"authguard/internal/times"
)

// adminCmd is `authguard admin`, the counterpart of the page Administrators.
type adminCmd struct {
	List adminListCmd `cmd:"" help:"List administrators and their MFA" example:""`
	kong.Plugins
}

type adminListCmd struct{}

// Run lists the administrators.
func (adminListCmd) Run(g *globals) error {
	var answer struct{ Administrators []control.Administrator }
	return g.show(http.MethodGet, "/api/administrators", nil, nil, &answer, func() error {
		w := tabwriter.NewWriter(g.out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tDISABLED\tAPP\tPASSKEYS\tRECOVERY CODES\tSESSIONS\tLAST SIGN-IN")
		for _, one := range answer.Administrators {
			fmt.Fprintf(w, "%q\t%t\t%t\t%d\t%d\t%d\t%s\n", one.Username, one.Disabled, one.TOTP != nil, len(one.Passkeys),
				one.Recovery, one.Sessions, times.Text(one.LastLogin.Local()))
		}
		return w.Flush()
	})
}
