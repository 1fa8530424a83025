// Package wrk runs servers and drives them with wrk.
package wrk

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

//go:embed request.lua
var script []byte

var errNoWrk = errors.New("wrk is missing; install it (Debian and Ubuntu: apt-get install wrk; " +
	"others: https://github.com/wg/wrk) or run with -login=false")

// A Driver is wrk with its script.
type Driver struct {
	wrk    string
	folder string
	plan   Plan
}

// NewDriver keeps its files in a folder.
func NewDriver(folder string, p Plan) (*Driver, error) {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		return nil, errNoWrk
	}
	return &Driver{wrk, folder, p}, os.WriteFile(folder+"/request.lua", script, 0o600)
}

// A Request is what wrk sends.
type Request struct {
	Path    string // below the server's URL, without a slash before it
	Method  string
	Headers []string // such as "Accept: text/html"
	// Bodies are sent in turn, each as from an address of its own; with one, or none,
	// all requests are the same.
	Bodies []string
	// Script is another one than the usual, with its environment; the fields above are
	// nothing to it.
	Script string
	Env    []string
	// Refused: answers of 400 and more are what is measured.
	Refused bool
}

var (
	rate   = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	broken = regexp.MustCompile(`Socket errors:.*`)
	others = regexp.MustCompile(`Non-2xx or 3xx responses:.*`)
)

// Drive is how many of these requests a second a server answers.
func (d *Driver) Drive(ctx context.Context, url string, r Request) (float64, error) {
	bodies := d.folder + "/bodies"
	if err := os.WriteFile(bodies, []byte(strings.Join(r.Bodies, "\n")), 0o600); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, d.wrk, "-t2", "-c32", "-d"+d.plan.Takes.String(), "-s", cmp.Or(r.Script, d.folder+"/request.lua"), url)
	cmd.Env = append(os.Environ(), "BENCH_METHOD="+r.Method, "BENCH_HEADERS="+strings.Join(r.Headers, "\n"), "BENCH_BODIES="+bodies)
	cmd.Env = append(cmd.Env, r.Env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	found := rate.FindSubmatch(out)
	if found == nil || broken.Match(out) || !r.Refused && others.Match(out) {
		return 0, fmt.Errorf("wrk did not get through:\n%s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
