// Package wrk runs servers and sends them requests with wrk.
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

// Networks is the number of networks from which a list of bodies is sent: 198.18.0.0/24 and so on.
const Networks = 16

var errNoWrk = errors.New("wrk is missing; install it (Debian and Ubuntu: apt-get install wrk; " +
	"others: https://github.com/wg/wrk) or run with -memory -redis")

// A Driver runs wrk with a script.
type Driver struct {
	wrk    string
	folder string
	plan   Plan
}

// NewDriver returns a driver that writes its files to a folder.
func NewDriver(folder string, p Plan) (*Driver, error) {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		return nil, errNoWrk
	}
	return &Driver{wrk, folder, p}, os.WriteFile(folder+"/request.lua", script, 0o600)
}

// A Request is what wrk sends.
type Request struct {
	Path    string // relative to the server's URL
	Method  string
	Headers []string // such as "Accept: text/html"
	// Bodies are sent in turn, from 4,000 IP addresses in Networks networks. With one or none, all
	// requests are the same.
	Bodies []string
	// Script and its environment replace the default script, which uses the fields above.
	Script string
	Env    []string
	// Refused measures responses with a status of 400 and more.
	Refused bool
}

var (
	rate   = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	broken = regexp.MustCompile(`Socket errors:.*`)
	others = regexp.MustCompile(`Non-2xx or 3xx responses:.*`)
)

// Drive measures how many of these requests a server answers per second.
func (d *Driver) Drive(ctx context.Context, url string, r Request) (float64, error) {
	bodies := d.folder + "/bodies"
	if err := os.WriteFile(bodies, []byte(strings.Join(r.Bodies, "\n")), 0o600); err != nil {
		return 0, err
	}
	script := cmp.Or(r.Script, d.folder+"/request.lua")
	cmd := exec.CommandContext(ctx, d.wrk, "-t2", "-c32", "-d"+d.plan.Takes.String(), "-s", script, url)
	cmd.Env = append(os.Environ(), "BENCH_METHOD="+r.Method, "BENCH_BODIES="+bodies,
		"BENCH_HEADERS="+strings.Join(r.Headers, "\n"))
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
