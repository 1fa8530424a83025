package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/operation"
)

// greet is a new operation.
type greet struct {
	operation.OfAccount
	Words string `json:"words" help:"What to say"`
	operation.Because
}

func (greet) Do(context.Context, *accounts.Realm, operation.By) (*operation.Change, error) {
	return nil, nil
}

// The table of operations has a command's flags, help and example; the command sends the request and puts the answer in
// words. (Its API, form, OpenAPI document and audit row: TestANewOperationIsOneEntryOfTheTable.)
func TestANewOperationHasItsCommand(t *testing.T) {
	t.Parallel()
	var line commandLine
	line.addOperations([]control.Operation{{
		Name: "greet", Route: "POST /greet", Request: func() any { return new(greet) },
		Commands: []control.Command{{Name: "user greet", Help: "Greet a user", Example: "alice --words hello",
			Says: "{{.Q.Username}} answers {{.A.words}}."}},
	}})
	var out bytes.Buffer
	parser, err := newParser(&line, kong.Writers(&out, &out), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = parser.Parse([]string{"user", "greet", "--help"})
	for _, part := range []string{"Usage: authguard user greet <name> [flags]", "Greet a user",
		"authguard user greet alice --words hello", "--words=STRING", "What to say", "--reason=TEXT", "--realm=NAME"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in:\n%s", part, &out)
		}
	}
	out.Reset()
	sent := make(chan string, 1)
	file := socketOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent <- r.Method + " " + r.URL.String() + " " + string(body)
		_, _ = io.WriteString(w, `{"words":"hi"}`)
	})
	command, err := parser.Parse([]string{"--config", file, "user", "greet", "alice", "--words", "hello", "--reason", "a call",
		"--realm", "shop"})
	if err != nil {
		t.Fatal(err)
	}
	line.out = &out
	if err := command.Run(&line.globals); err != nil || out.String() != "alice answers hi.\n" {
		t.Errorf("%q %v", &out, err)
	}
	if got := <-sent; got != `POST /api/greet?realm=shop {"reason":"a call","username":"alice","words":"hello"}` {
		t.Error(got)
	}
}

// socketOf answers the commands with a configuration file.
func socketOf(t *testing.T, answer http.HandlerFunc) (file string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ag") // short, for the socket's sake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file = filepath.Join(dir, "authguard.yaml")
	if err := os.WriteFile(file, []byte("data: "+dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(answer)
	if server.Listener, err = net.Listen("unix", filepath.Join(dir, socketName)); err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(server.Close)
	return file
}
