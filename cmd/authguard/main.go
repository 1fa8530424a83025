// Command authguard protects logins: it serves the login page, the decision
// API and the administration, and steers a running server.
//
// `authguard serve` wires everything in site.go, in reading order. The other
// commands ask the running server over its socket.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	_ "time/tzdata" // for quiet hours: not every machine has its own

	"github.com/alecthomas/kong"

	"authguard/internal/control"
	"github.com/redis/go-redis/v9/logging"
)

// A commandLine is every command with its flags.
type commandLine struct {
	globals

	Version versionFlag `help:"Print the version."`

	Serve    serveCmd     `cmd:"" help:"Serve the login page, the API and the administration."`
	Captcha  captchaCmd   `cmd:"" help:"Look at CAPTCHA mode, or overrule it."`
	Attacks  attacksCmd   `cmd:"" help:"Look at past and running attacks, and reset the accounts that were lost in them."`
	Policy   policyCmd    `cmd:"" help:"Look at what the limits do, and have them enforced or only watch."`
	User     userCmd      `cmd:"" help:"Add, change and list accounts."`
	Admin    adminCmd     `cmd:"" help:"Add, remove and list administrators."`
	Token    tokenCmd     `cmd:"" help:"Make and revoke tokens for the decision API."`
	Allow    listCmd      `cmd:"" help:"Lift the limits of an address or range, or of those in a file."`
	Block    listCmd      `cmd:"" help:"Refuse every attempt from an address or range, or from those in a file."`
	Unlist   unlistCmd    `cmd:"" help:"Take an address or range off the lists."`
	List     showListsCmd `cmd:"" help:"Show what is allowed and blocked, and the named lists."`
	Export   exportCmd    `cmd:"" help:"Write what is blocked or allowed for a firewall or proxy, and keep it up to date."`
	Audit    auditCmd     `cmd:"" help:"Show what administrators did and what was decided, or write it to a file."`
	Explain  explainCmd   `cmd:"" help:"Say what stands against an account or address, and why."`
	Unlock   unlockCmd    `cmd:"" help:"Forget the failures of an account or address."`
	Replay   replayCmd    `cmd:"" help:"Try limits on the login attempts of logs: what they would have done to people and to attackers."`
	Simulate simulateCmd  `cmd:"" help:"Let people and attackers that are made up log in for days, in seconds, and count what became of them."`
	Tune     tuneCmd      `cmd:"" help:"Look for the limits that let the fewest guesses through for as much friction as you allow."`
	Config   configCmd    `cmd:"" help:"Check or show the configuration."`
	Proxy    proxyCmd     `cmd:"" help:"Find out how to guard the login of an app."`
	Migrate  migrateCmd   `cmd:"" help:"Bring the database up to date (serve does so too)."`
	Doctor   doctorCmd    `cmd:"" help:"Look at everything that the configuration names, and say how to mend what is wrong."`
}

// globals are the flags of every command.
type globals struct {
	File string    `name:"config" short:"c" env:"AUTHGUARD_CONFIG" type:"path" help:"Configuration file. Default: authguard.yaml in this folder, if there is one."`
	JSON bool      `name:"json" help:"Answer in JSON."`
	out  io.Writer `kong:"-"`
	// complaints is where people look for what went wrong.
	complaints io.Writer `kong:"-"`
}

// realmFlag chooses a realm.
type realmFlag struct {
	Realm string `placeholder:"NAME" help:"In this realm; without it in the default one."`
}

// query is what the server is asked with.
func (f realmFlag) query(more ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	if f.Realm != "" {
		q.Set("realm", f.Realm)
	}
	return q
}

// reasonFlag says why something is changed.
type reasonFlag struct {
	Reason string `placeholder:"TEXT" help:"Why, for the audit log."`
}

// versionFlag is `authguard --version`.
type versionFlag bool

// BeforeReset prints the version and ends the program: no command is needed.
func (versionFlag) BeforeReset(app *kong.Kong, line *kong.Context) error {
	b := builtFrom(debug.ReadBuildInfo())
	if slices.Contains(line.Args, "--json") {
		_ = json.NewEncoder(app.Stdout).Encode(b)
	} else {
		fmt.Fprintf(app.Stdout, "authguard %s, %sbuilt with %s\n", b.Version, b.from(), b.Go)
	}
	app.Exit(0)
	return nil
}

// version, commit and date are set by the linker where a release is built (Makefile,
// deploy/Dockerfile).
var version, commit, date string

// A build is what `authguard --version` tells.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"` // of the commit
	Go      string `json:"go"`
}

// builtFrom is what the linker was told and, where it was told nothing, what go build
// has found out by itself.
func builtFrom(info *debug.BuildInfo, ok bool) build {
	b := build{Version: version, Commit: commit, Date: date, Go: runtime.Version()}
	if ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = cmp.Or(b.Commit, s.Value)
			case "vcs.time":
				b.Date = cmp.Or(b.Date, s.Value)
			}
		}
	}
	b.Version = cmp.Or(b.Version, "(devel)")
	return b
}

// runs is what runs, for metrics and traces.
func runs() control.Build {
	b := builtFrom(debug.ReadBuildInfo())
	return control.Build{Version: b.Version, Commit: b.Commit, Go: b.Go}
}

func (b build) from() string {
	text := ""
	if b.Commit != "" {
		text += "commit " + b.Commit[:min(12, len(b.Commit))]
		if b.Date != "" {
			text += " of " + b.Date
		}
		text += ", "
	}
	return text
}

// defaultFile is read if no other is named and it is there.
const defaultFile = "authguard.yaml"

func (g *globals) configPath() string {
	if g.File != "" {
		return g.File
	}
	if _, err := os.Stat(defaultFile); err == nil {
		return defaultFile
	}
	return ""
}

func main() {
	// go-redis writes every failed connection to standard error and knows no
	// other logger than its global one. The caller that meets the failure reports it.
	logging.Disable()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run carries out one command line and returns the exit status: 0, 1 for a
// failure and 2 for words that are no command.
func run(args []string, out, complaints io.Writer) int {
	line := commandLine{globals: globals{out: out, complaints: complaints}}
	exit := -1
	parser, err := kong.New(&line, kong.Name("authguard"), kong.Writers(out, complaints),
		kong.Description("Login protection: counts failed logins, slows, challenges and at last refuses what looks like guessing."),
		variables(), kong.UsageOnError(), kong.Exit(func(code int) { exit = code }))
	if err != nil {
		fmt.Fprintln(complaints, "authguard:", err)
		return 1
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exit >= 0 { // --help has been answered
		return exit
	}
	if err != nil {
		fmt.Fprintf(complaints, "authguard: %v\nSee authguard --help.\n", err)
		line.JSON = line.JSON || slices.Contains(args, "--json") // which may come after what is wrong
		line.failed(err)
		return 2
	}
	if err := command.Run(&line.globals); err != nil {
		fmt.Fprintln(complaints, "authguard:", err)
		line.failed(err)
		return 1
	}
	return 0
}

// variables are what the help of a flag can name.
func variables() kong.Vars {
	return kong.Vars{"presets": presetNames(), "formats": formatNames(), "logs": logFormats(), "defences": defenceNames()}
}

// answered is an error that was printed as JSON already.
type answered struct{ error }

// failed tells programs what went wrong, where they look for the answer.
func (g *globals) failed(err error) {
	if told := (answered{}); g.JSON && !errors.As(err, &told) {
		_ = json.NewEncoder(g.out).Encode(map[string]string{"error": err.Error()})
	}
}
