// Command authguard protects logins. It serves the login page, the decision API and the admin console, and controls a
// running server.
//
// `authguard serve` wires one server in three files, in reading order: serve.go (start, listeners, stop), site.go (what
// the realms share) and realm.go. Other commands use the running server's socket.
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
	_ "time/tzdata" // for limit replay --zone: not every machine has its own

	"authguard/internal/metrics"

	"github.com/alecthomas/kong"

	"github.com/redis/go-redis/v9/logging"
)

type commandLine struct {
	globals

	Version versionFlag `help:"Print the version"`

	runCommands         `embed:"" group:"Run"`
	attackCommands      `embed:"" group:"Attack"`
	accountsCommands    `embed:"" group:"Accounts"`
	listsCommands       `embed:"" group:"IP lists"`
	limitsCommands      `embed:"" group:"Limits"`
	maintenanceCommands `embed:"" group:"Maintenance"`

	Complete completeCmd `cmd:"" hidden:"" help:"List what may follow on a command line"`
	Manpage  manpageCmd  `cmd:"" hidden:"" help:"Print the manual page in roff"`
}

// The commands by group, as in the main help.
type (
	runCommands struct {
		Serve      serveCmd      `cmd:"" help:"Run the server" example:"--upstream http://127.0.0.1:8000"`
		Demo       demoCmd       `cmd:"" help:"Play an attack against a temporary server" example:""`
		Status     statusCmd     `cmd:"" help:"Show attack status, CAPTCHA mode and warnings" example:""`
		Doctor     doctorCmd     `cmd:"" help:"Check configuration, storage and proxies" example:"--alerts"`
		Migrate    migrateCmd    `cmd:"" help:"Migrate the database (serve does so too)" example:""`
		Release    versionCmd    `cmd:"" name:"version" help:"Print the version" example:""`
		Help       helpCmd       `cmd:"" help:"Show help for a command" example:"user create"`
		Completion completionCmd `cmd:"" help:"Print a shell completion script" example:"bash"`
	}
	attackCommands struct {
		Captcha captchaCmd `cmd:"" help:"Enable, disable or reset CAPTCHA mode"`
		Attack  attackCmd  `cmd:"" help:"Show attacks and secure possibly compromised accounts"`
	}
	accountsCommands struct {
		User  userCmd  `cmd:"" help:"Manage accounts"`
		Admin adminCmd `cmd:"" help:"Manage administrators"`
		Token tokenCmd `cmd:"" help:"Manage API tokens"`
	}
	listsCommands struct {
		IP ipCmd `cmd:"" name:"ip" help:"Manage and export the allowlist and the blocklist"`
	}
	limitsCommands struct {
		Limit   limitCmd   `cmd:"" help:"Show, monitor, enforce, test and suggest limits"`
		Explain explainCmd `cmd:"" help:"Show why an account or IP address is limited" example:"--account alice"`
		kong.Plugins
	}
	maintenanceCommands struct {
		Config       configCmd       `cmd:"" help:"Validate or show the configuration"`
		Backup       backupCmd       `cmd:"" help:"Copy database, keys and counters to a new folder" example:"/var/backups/authguard-1"`
		Audit        auditCmd        `cmd:"" help:"Search the audit log" example:"--account alice --since 24h"`
		Proxy        proxyCmd        `cmd:"" help:"Detect the login form of an app"`
		PasswordList passwordListCmd `cmd:"" help:"Build a list of leaked passwords"`
	}
)

type globals struct {
	File string    `name:"config" short:"c" env:"AUTHGUARD_CONFIG" type:"path" placeholder:"FILE" help:"Configuration file (default: authguard.yaml if present)"`
	JSON bool      `name:"json" help:"Answer in JSON"`
	out  io.Writer `kong:"-"`
	// complaints is standard error.
	complaints io.Writer `kong:"-"`
}

type realmFlag struct {
	Realm string `placeholder:"NAME" help:"Realm (default: the one named default)"`
}

// query returns the parameters of a request, with the realm.
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

type reasonFlag struct {
	Reason string `placeholder:"TEXT" help:"Reason, for the audit log"`
}

type versionFlag bool

// BeforeReset prints the version and exits: no command is needed.
func (versionFlag) BeforeReset(app *kong.Kong, line *kong.Context) error {
	err := versionCmd{}.Run(&globals{JSON: slices.Contains(line.Args, "--json"), out: app.Stdout})
	app.Exit(0)
	return err
}

type versionCmd struct{}

// Run prints the version, the commit and the Go release.
func (versionCmd) Run(g *globals) error {
	b := builtFrom(debug.ReadBuildInfo())
	if g.JSON {
		return json.NewEncoder(g.out).Encode(b)
	}
	return tells(g.out, "authguard %s, %sbuilt with %s", b.Version, b.from(), b.Go)
}

// version, commit and date are set by the linker in release builds (Makefile, deploy/Dockerfile).
var version, commit, date string

type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"` // of the commit
	Go      string `json:"go"`
}

// builtFrom returns the linker's values, or else those that go build records.
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

func runs() metrics.Build {
	b := builtFrom(debug.ReadBuildInfo())
	return metrics.Build{Version: b.Version, Commit: b.Commit, Go: b.Go}
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

// defaultFile is read if it exists and no other file is named.
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
	// go-redis logs every failed connection to standard error through a global logger. The caller reports the failure
	// already.
	logging.Disable()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit status: 0, 1 for a failure, 2 for an invalid command line.
func run(args []string, out, complaints io.Writer) int {
	line := commandLine{globals: globals{out: out, complaints: complaints}}
	exit := -1
	parser, err := newParser(&line, kong.Writers(out, complaints), kong.Exit(func(code int) { exit = code }))
	if err != nil {
		fmt.Fprintln(complaints, "authguard:", err)
		return 1
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exit >= 0 { // --help was printed
		return exit
	}
	if err != nil {
		fmt.Fprintf(complaints, "authguard: %v\nRun `%s --help` for help.\n", err, commandOf(err))
		line.JSON = line.JSON || slices.Contains(args, "--json") // it may follow the invalid part
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

// answered is an error that was already printed as JSON.
type answered struct{ error }

// failed prints the error as JSON to standard output, where programs read the answer.
func (g *globals) failed(err error) {
	if told := (answered{}); g.JSON && !errors.As(err, &told) {
		_ = json.NewEncoder(g.out).Encode(map[string]string{"error": err.Error()})
	}
}
