package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"github.com/alecthomas/kong"

	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/times"
)

type userCmd struct {
	Create      userCreateCmd      `cmd:"" help:"Create an account" example:"alice --email alice@example.org --generate"`
	List        userListCmd        `cmd:"" help:"List accounts" example:"--find alice"`
	Import      userImportCmd      `cmd:"" help:"Import accounts from htpasswd, shadow or CSV" example:"accounts.csv"`
	SetPassword userSetPasswordCmd `cmd:"" help:"Set a password and end all sessions" example:"alice --generate"`
	kong.Plugins
}

type passwordFlags struct {
	PasswordStdin bool `name:"password-stdin" help:"Read the password from standard input"`
	Generate      bool `help:"Generate a password and print it once"`
}

type userCreateCmd struct {
	realmFlag
	reasonFlag
	Name   string   `arg:"" help:"User name"`
	Email  string   `help:"Email address, also valid as a user name"`
	Groups []string `help:"Groups, separated by commas"`
	Admin  bool     `help:"Add an administrator"`
	// An administrator's generated password always must be changed.
	MustChange bool `name:"must-change" help:"Temporary password: require a change at first use"`
	passwordFlags
}

// Run adds an account.
func (c userCreateCmd) Run(g *globals) error {
	password, made, err := c.password(os.Stdin, os.Stderr)
	if err != nil {
		return err
	}
	role := "user"
	if c.Admin {
		role = "admin"
	}
	question := map[string]any{"username": c.Name, "email": c.Email, "groups": c.Groups, "password": password,
		"role": role, "must_change": c.MustChange || made && c.Admin, "reason": c.Reason}
	return g.account("/api/users", c.query(), question, c.Name, password, made, "%q can sign in now.")
}

type userSetPasswordCmd struct {
	realmFlag
	reasonFlag
	Name       string `arg:"" help:"User name or email address"`
	MustChange bool   `name:"must-change" help:"Temporary password: require a change at first use"`
	Ask        bool   `help:"Keep the password, but require a change and a code"`
	passwordFlags
}

// Run sets a password.
func (c userSetPasswordCmd) Run(g *globals) error {
	if c.Ask {
		if c.MustChange || c.Generate || c.PasswordStdin {
			return errors.New("--ask keeps the present password, so it cannot be combined with --must-change, --generate or " +
				"--password-stdin")
		}
		return g.do(http.MethodPost, "/api/users/ask-password", c.query(), map[string]any{"username": c.Name,
			"reason": c.Reason},
			"%q must choose a new password. Its sessions have ended and its known clients are removed. The present password "+
				"also needs a verification code: authguard user create-code NAME", c.Name)
	}
	password, made, err := c.password(os.Stdin, os.Stderr)
	if err != nil {
		return err
	}
	question := map[string]any{"username": c.Name, "password": password, "must_change": c.MustChange, "reason": c.Reason}
	return g.account("/api/users/set-password", c.query(), question, c.Name, password, made,
		"%q has a new password. Its sessions have ended and its known clients are removed.")
}

func (g *globals) account(path string, query url.Values, question map[string]any, name, password string, made bool,
	words string) error {
	c, err := g.client()
	if err != nil {
		return err
	}
	if err := c.ask(http.MethodPost, path, query, question, new(any)); err != nil {
		return err
	}
	if g.JSON {
		answer := map[string]string{"username": name}
		if made {
			answer["password"] = password
		}
		return printJSON(g, answer)
	}
	fmt.Fprintf(g.out, words+"\n", name)
	if made {
		fmt.Fprintf(g.out, "Password, shown once: %s\n", password)
	}
	return nil
}

func (f passwordFlags) password(in *os.File, prompt io.Writer) (password string, made bool, err error) {
	switch {
	case f.Generate:
		return strings.ToLower(rand.Text())[:16], true, nil
	case f.PasswordStdin:
		line, err := bufio.NewReader(io.LimitReader(in, 1024)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", false, err
		}
		return strings.TrimRight(line, "\r\n"), false, nil
	case !term.IsTerminal(int(in.Fd())):
		return "", false, errors.New("no terminal to ask for the password: use --password-stdin or --generate")
	}
	var typed [2][]byte
	for i, words := range []string{"Password: ", "Repeat password: "} {
		fmt.Fprint(prompt, words)
		typed[i], err = term.ReadPassword(int(in.Fd()))
		fmt.Fprintln(prompt)
		if err != nil {
			return "", false, err
		}
	}
	if !bytes.Equal(typed[0], typed[1]) {
		return "", false, errors.New("the two passwords differ: no change was made")
	}
	return string(typed[0]), false, nil
}

type userListCmd struct {
	realmFlag
	Find string `help:"Text in the user name or email address"`
	Sort string `enum:"name,failures,last" default:"name" help:"Order"`
}

// Run lists all accounts, page by page.
func (c userListCmd) Run(g *globals) error {
	client, err := g.client()
	if err != nil {
		return err
	}
	order := c.Sort
	if order == "name" {
		order = ""
	}
	all := []control.ListedAccount{}
	for after := ""; ; {
		var page control.Accounts
		if err := client.ask(http.MethodGet, "/api/users", c.query("after", after, "find", c.Find, "sort", order), nil,
			&page); err != nil {
			return err
		}
		all = append(all, page.All...)
		if page.Next == "" || page.Next == after {
			break
		}
		after = page.Next
	}
	if g.JSON {
		return printJSON(g, all)
	}
	w := tabwriter.NewWriter(g.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tEMAIL\tROLE\tSTATE\tFAILURES\tLAST FAILURE\tLAST SIGN-IN\tKNOWN CLIENTS\tSESSIONS\tGROUPS")
	for _, u := range all {
		fmt.Fprintf(w, "%q\t%q\t%s\t%s\t%d\t%s\t%s\t%d\t%d\t%s\n", u.Username, u.Email, u.Role, stateOf(u), u.Failures,
			times.Text(u.LastFailure.Local()), times.Text(u.LastLogin.Local()),
			u.Places, u.Sessions, strings.Join(u.Groups, " "))
	}
	return w.Flush()
}

// stateOf returns the state of an account, in the words of user disable and set-password.
func stateOf(u control.ListedAccount) string {
	switch {
	case u.Disabled:
		return "disabled"
	case u.NeedsCode:
		return "needs-code"
	case u.State == accounts.MustChange:
		return u.State
	case u.State == accounts.NotKnown:
		return "-"
	}
	return "enabled"
}

type userImportCmd struct {
	realmFlag
	reasonFlag
	File   string `arg:"" type:"existingfile" help:"File to import"`
	Format string `enum:"auto,htpasswd,shadow,csv" default:"auto" help:"Format (auto: csv or htpasswd, by the file name)"`
}

// Run imports a file and shows progress.
func (c userImportCmd) Run(g *globals) error {
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer file.Close()
	body := bufio.NewReader(file)
	if _, err := body.Peek(1); errors.Is(err, io.EOF) {
		return fmt.Errorf("%s is empty: no account was imported", c.File)
	}
	client, err := g.client()
	if err != nil {
		return err
	}
	format := c.Format
	if format == "auto" {
		format = "htpasswd"
		if strings.EqualFold(filepath.Ext(c.File), ".csv") {
			format = "csv"
		}
	}
	query := c.query("format", format, "reason", c.Reason)
	if info, err := file.Stat(); err == nil && info.Size() > 0 { // a pipe has no size
		query.Set("size", fmt.Sprint(info.Size()))
	}
	response, err := client.send(http.MethodPost, "/api/users/import", query, "application/octet-stream", body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return g.follow(response.Body)
}

type importLine struct {
	Done     int64                  `json:"done"`
	Total    int64                  `json:"total"`
	Imported *int                   `json:"imported"`
	Problems []accounts.LineProblem `json:"problems"`
	More     int                    `json:"more"`
	Error    string                 `json:"error"`
}

func (g *globals) follow(body io.Reader) error {
	progress := term.IsTerminal(int(os.Stderr.Fd())) && !g.JSON
	for d := json.NewDecoder(body); ; {
		var line importLine
		if err := d.Decode(&line); err != nil {
			return fmt.Errorf("the server stopped answering, and accounts may not have been imported: %w", err)
		}
		switch {
		case line.Error != "":
			return errors.New(line.Error)
		case line.Imported != nil:
			if g.JSON {
				return printJSON(g, map[string]int{"imported": *line.Imported})
			}
			fmt.Fprintf(g.out, "%d accounts imported.\n", *line.Imported)
			return nil
		case len(line.Problems) > 0:
			return line.refused(g)
		case progress && line.Total > 0:
			fmt.Fprintf(os.Stderr, "\r%3d %%", 100*line.Done/line.Total)
		}
	}
}

func (l importLine) refused(g *globals) error {
	if g.JSON {
		return g.judged(l, false, "nothing was imported")
	}
	var b strings.Builder
	for _, p := range l.Problems {
		fmt.Fprintf(&b, "\n  line %d: %s", p.Line, p.Text)
	}
	if l.More > 0 {
		fmt.Fprintf(&b, "\n  and %d more", l.More)
	}
	return fmt.Errorf("no account was imported; fix these lines and try again:%s", b.String())
}
