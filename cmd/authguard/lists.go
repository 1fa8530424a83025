package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"authguard/internal/lists"
	"authguard/internal/times"
)

type ipCmd struct {
	Allow  listCmd      `cmd:"" help:"Add IP addresses or ranges to the allowlist" example:"192.0.2.0/24 --for 30d"`
	Block  listCmd      `cmd:"" help:"Add IP addresses or ranges to the blocklist" example:"198.51.100.7"`
	List   showListsCmd `cmd:"" help:"Show the IP lists" example:"198.51.100.7"`
	Export exportCmd    `cmd:"" help:"Export the IP lists for a firewall or proxy" example:"blocked --format nft"`
	kong.Plugins
}

// listCmd is `ip allow` and `ip block`.
type listCmd struct {
	CIDR    string `arg:"" optional:"" help:"IP address or range, such as 192.0.2.0/24"`
	File    string `placeholder:"FILE" help:"File with one range per line; - is standard input"`
	For     string `default:"168h" help:"Duration, or forever"`
	Reason  string `help:"Reason, for the list and the audit log"`
	Force   bool   `help:"Accept a range that holds every IP address"`
	SkipBad bool   `help:"With --file: skip bad lines (default: import nothing)"`
	DryRun  bool   `help:"With --file: print the changes, but make none"`
}

// Validate implements kong.Validatable.
func (c listCmd) Validate() error {
	switch {
	case (c.CIDR == "") == (c.File == ""):
		return errors.New("missing IP address or range: give one such as 192.0.2.0/24, or --file FILE")
	case c.File == "" && (c.SkipBad || c.DryRun):
		return errors.New("--skip-bad and --dry-run work with --file only")
	case c.File != "" && c.Force:
		return errors.New("--force works for a single range only")
	}
	return nil
}

// Run allows or blocks ranges, by the command's name.
func (c listCmd) Run(g *globals, command *kong.Context) error {
	verdict, words := command.Selected().Name,
		"%s is allowed %s: it is exempt from limits on IP address, network and site, from CAPTCHA mode and step-up."
	if verdict == "block" {
		words = "%s is blocked %s: every attempt from it is blocked."
	}
	if c.File != "" {
		return c.load(g, verdict)
	}
	until := "with no expiry"
	if hold, err := times.ParseDuration(c.For); err == nil {
		until = "until " + times.Text(time.Now().Add(hold))
	}
	return g.do(http.MethodPost, "/api/lists", nil,
		map[string]any{"cidr": c.CIDR, "verdict": verdict, "for": c.For, "note": c.Reason, "force": c.Force},
		words+" Undo with: authguard ip remove %[1]s", c.CIDR, until)
}

// load imports a file. A dry run comes first, so that it can report every bad line.
func (c listCmd) load(g *globals, verdict string) error {
	text, err := c.read()
	if err != nil {
		return err
	}
	client, err := g.client()
	if err != nil {
		return err
	}
	// so that the server warns before it locks out the administrator's own SSH address
	from, _, _ := strings.Cut(os.Getenv("SSH_CONNECTION"), " ")
	question := map[string]any{"text": text, "verdict": verdict, "for": c.For, "note": c.Reason, "skip_bad": c.SkipBad,
		"dry_run": true, "from": from}
	var plan lists.Plan
	if err := client.ask(http.MethodPost, "/api/lists/import", nil, question, &plan); err != nil {
		return err
	}
	stopped := plan.Bad > 0 && !c.SkipBad
	if !stopped && !c.DryRun {
		question["dry_run"] = false
		if err := client.ask(http.MethodPost, "/api/lists/import", nil, question, &plan); err != nil {
			return err
		}
	}
	if g.JSON {
		return g.judged(plan, !stopped, "nothing was imported")
	}
	return told(g.out, &plan, stopped)
}

func (c listCmd) read() (string, error) {
	from := io.Reader(os.Stdin)
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return "", err
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, lists.MaxImport+1))
	return string(text), err
}

func told(out io.Writer, p *lists.Plan, stopped bool) error {
	for _, w := range p.Warnings {
		fmt.Fprintf(out, "line %d: %s\n", w.Line, w.Text)
	}
	if more := p.Warned - len(p.Warnings); more > 0 {
		fmt.Fprintf(out, "and %d more bad lines\n", more)
	}
	var bad strings.Builder
	for _, one := range p.Problems {
		fmt.Fprintf(&bad, "\n  line %d: %s", one.Line, one.Text)
	}
	if more := p.Bad - len(p.Problems); more > 0 {
		fmt.Fprintf(&bad, "\n  and %d more", more)
	}
	if stopped {
		return fmt.Errorf("nothing was imported; fix these lines, or skip them with --skip-bad:%s", &bad)
	}
	done := "would be imported"
	if p.Imported {
		done = "are imported"
	}
	fmt.Fprintf(out, "%d ranges %s: %d new, %d replace an entry of the same range.\n", p.Ranges(), done, p.New, p.Replaced)
	if p.Twice > 0 {
		fmt.Fprintf(out, "%d were duplicates.\n", p.Twice)
	}
	if p.Bad > 0 {
		fmt.Fprintf(out, "%d bad lines were skipped:%s\n", p.Bad, &bad)
	}
	return nil
}

type showListsCmd struct {
	realmFlag
	Find    string `arg:"" optional:"" help:"IP address, range, or text in a note or name"`
	Allowed bool   `xor:"verdict" help:"Show the allowlist only"`
	Blocked bool   `xor:"verdict" help:"Show the blocklist only"`
	Soon    bool   `help:"Show entries that expire within 24 hours only"`
}

// Run prints the lists.
func (c showListsCmd) Run(g *globals) error {
	q := c.query("find", c.Find, "soon", strconv.FormatBool(c.Soon))
	if c.Allowed {
		q.Set("verdict", string(lists.Allow))
	} else if c.Blocked {
		q.Set("verdict", string(lists.Block))
	}
	var all lists.Listed
	return g.show(http.MethodGet, "/api/lists", q, nil, &all, func() error {
		t := tabwriter.NewWriter(g.out, 0, 8, 2, ' ', 0)
		if len(all.Entries) == 0 {
			fmt.Fprintln(t, "No matching entries.")
		} else {
			fmt.Fprintln(t, "RANGE\tLIST\tUNTIL\tBY\tNOTE")
		}
		for _, e := range all.Entries {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", e.Prefix, e.Verdict, untilText(e.ExpiresAt), plain(e.CreatedBy),
				plain(e.Note))
		}
		for i, one := range all.Named {
			if i == 0 {
				fmt.Fprintln(t, "\nNAMED LIST\tRANGES\tACTION\tMATCHES (24 H)\tFILE")
			}
			fmt.Fprintf(t, "%s\t%d\t%s\t%d, %d blocked or challenged\t%s\n", one.Name, one.Ranges, doesText(one), one.Day.Met,
				one.Day.Stopped, plain(one.File))
		}
		err := t.Flush()
		for _, one := range all.Named {
			if one.Kept != "" {
				fmt.Fprintf(g.out, "%s: the file could not be loaded, so its previous version is used: %s\n", one.Name,
					plain(one.Kept))
			}
			for _, p := range one.Problems {
				fmt.Fprintf(g.out, "%s: line %d: %s\n", one.Name, p.Line, plain(p.Text))
			}
		}
		if len(all.Found) > 0 {
			fmt.Fprintf(g.out, "%s is on these list files: %s\n", all.Address, strings.Join(all.Found, ", "))
		}
		return err
	})
}

func doesText(l lists.NamedList) string {
	if l.Then == "limits" {
		return strings.Join(l.Limits, ", ")
	}
	return l.Then
}

func untilText(t time.Time) string {
	if t.IsZero() {
		return "with no expiry"
	}
	return times.Text(t.Local())
}

// plain makes user input safe for a terminal: it escapes cursor and bidirectional controls.
func plain(text string) string {
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}
