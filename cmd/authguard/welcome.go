package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"unicode"

	"authguard/internal/accounts"
	"authguard/internal/config"
)

// welcome prints the URLs. In an empty database it creates an administrator and prints the temporary password: once,
// and nowhere else.
func (s *site) welcome(ctx context.Context, out io.Writer, path string, listeners []listener) error {
	password, err := s.firstAdministrator(ctx)
	if err != nil {
		return err
	}
	if s.main().config.Log.Format == config.FormatJSON { // log and messages may share one stream
		text := new(strings.Builder)
		defer func(to io.Writer) { slog.New(slog.NewJSONHandler(to, nil)).Info(text.String()) }(out)
		out = text
	}
	fmt.Fprintf(out, "authguard is ready\n")
	for _, l := range listeners {
		switch {
		case l.name == "listen" && s.main().app.Load() != nil:
			fmt.Fprintf(out, "  the app          http://%s/\n", l.socket.Addr())
			fmt.Fprintf(out, "                   (reverse proxy for %s; protected: %s)\n", s.main().config.Proxy.Upstream,
				s.main().guardedPaths())
		case l.name == "listen":
			fmt.Fprintf(out, "  login page       http://%s/login\n", l.socket.Addr())
		case l.name == "admin.listen":
			fmt.Fprintf(out, "  administration   http://%s/\n", l.socket.Addr())
		}
	}
	if password != "" {
		fmt.Fprintf(out, "  administrator    %s, temporary password %s\n", firstAdmin, password)
		fmt.Fprintf(out, "                   (shown once; to be changed at the first sign-in)\n")
	}
	fmt.Fprintf(out, "  data             %s\n", s.storage.folder)
	command := os.Args[0]
	if path != "" && path != defaultFile {
		command += " -c " + quoted(path) // commands find the server by its configuration
	}
	if s.main().people.elsewhere() == "" && s.main().app.Load() == nil {
		fmt.Fprintf(out, "Create an account:  %s user create alice\n", command)
	} else {
		fmt.Fprintf(out, "Show the status:  %s status\n", command)
	}
	return nil
}

func quoted(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+", r)
	}) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// firstAdmin is the account created at the first start.
const firstAdmin = "admin"

func (s *site) firstAdministrator(ctx context.Context) (password string, err error) {
	some, err := s.main().people.accounts.List(ctx, "", 1)
	if err != nil || len(some) > 0 {
		return "", err
	}
	password = s.main().people.accounts.TemporaryPassword()
	_, err = s.main().people.accounts.Add(ctx, accounts.Addition{
		Username: firstAdmin, Password: password, Role: accounts.Admin, MustChange: true,
	})
	if errors.Is(err, accounts.ErrTaken) { // a node that started at the same time created it
		return "", nil
	}
	return password, err
}
