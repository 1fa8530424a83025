package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"authguard/internal/config"
	"authguard/web"
	"authguard/web/admin"
)

// socketName is the socket in the data folder for commands to the running server. Any user who may open it controls the
// server: mode 0600.
const socketName = "authguard.sock"

func socketPath(data string) (string, error) {
	path, err := filepath.Abs(filepath.Join(data, socketName))
	if err == nil {
		err = admin.CheckSocketPath(path)
	}
	return path, err
}

type client struct {
	http   http.Client
	socket string
}

func (g *globals) client() (*client, error) {
	loaded, err := config.Load(g.configPath(), os.Environ())
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be used:\n%w", err)
	}
	path, err := socketPath(loaded.Data)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &client{http: http.Client{Transport: &http.Transport{DialContext: dial}}, socket: path}, nil
}

// send sends a request; the caller closes the body.
func (c *client) send(method, path string, query url.Values, contentType string,
	body io.Reader) (*http.Response, error) {
	target := url.URL{Scheme: "http", Host: "authguard", Path: path, RawQuery: query.Encode()}
	r, err := http.NewRequest(method, target.String(), body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if response.StatusCode < 400 {
		return response, nil
	}
	defer response.Body.Close()
	bad := web.Problem{Title: response.Status, Status: response.StatusCode}
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&bad); err != nil {
		return nil, fmt.Errorf("the server answered %s", response.Status)
	}
	return nil, bad
}

func (c *client) unreachable(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("permission denied on %s: run the command as the user that runs authguard serve", c.socket)
	}
	if _, gone := os.Stat(c.socket); gone != nil {
		return fmt.Errorf("no server is running from %s: start authguard serve, or name its configuration with --config",
			filepath.Dir(c.socket))
	}
	return fmt.Errorf("the server does not answer at %s: %w", c.socket, err)
}

// ask sends JSON, if any, and decodes JSON into answer.
func (c *client) ask(method, path string, query url.Values, question, answer any) error {
	var body io.Reader
	contentType := ""
	if question != nil {
		text, err := json.Marshal(question)
		if err != nil {
			return err
		}
		body, contentType = bytes.NewReader(text), "application/json"
	}
	response, err := c.send(method, path, query, contentType, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return nil
}

func (g *globals) do(method, path string, query url.Values, question any, words string, args ...any) error {
	return g.show(method, path, query, question, new(any), func() error {
		_, err := fmt.Fprintf(g.out, words+"\n", args...)
		return err
	})
}

func (g *globals) download(path string, query url.Values) error {
	server, err := g.client()
	if err != nil {
		return err
	}
	answer, err := server.send(http.MethodGet, path, query, "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(g.out, answer.Body); err != nil {
		return fmt.Errorf("the file is incomplete: %w", err)
	}
	return nil
}

// show prints a response: as JSON, or as text made from answer.
func (g *globals) show(method, path string, query url.Values, question, answer any, words func() error) error {
	c, err := g.client()
	if err != nil {
		return err
	}
	if g.JSON {
		answer = new(any)
	}
	if err := c.ask(method, path, query, question, answer); err != nil {
		return err
	}
	if g.JSON {
		return printJSON(g, answer)
	}
	return words()
}
