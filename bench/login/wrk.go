package login

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

//go:embed attempt.lua
var script []byte

var errNoWrk = errors.New("wrk is missing; install it (Debian and Ubuntu: apt-get install wrk; " +
	"others: https://github.com/wg/wrk) or run with -login=false")

// A driver is wrk with its script.
type driver struct {
	wrk    string
	script string
	takes  time.Duration
}

func newDriver(folder string, takes time.Duration) (*driver, error) {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		return nil, errNoWrk
	}
	path := folder + "/attempt.lua"
	return &driver{wrk, path, takes}, os.WriteFile(path, script, 0o600)
}

var (
	rate   = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	broken = regexp.MustCompile(`Socket errors:.*`)
)

// drive is how many attempts a second a server answers.
func (d *driver) drive(ctx context.Context, s *server, accept string) (float64, error) {
	cmd := exec.CommandContext(ctx, d.wrk, "-t2", "-c32", "-d"+d.takes.String(), "-s", d.script, s.url)
	cmd.Env = append(os.Environ(), "BENCH_ACCEPT="+accept)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	found := rate.FindSubmatch(out)
	if found == nil || broken.Match(out) {
		return 0, fmt.Errorf("wrk did not get through:\n%s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
