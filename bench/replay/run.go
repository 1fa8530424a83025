package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"authguard/bench/wrk"
)

// A Cost is the cost of one program for one log.
type Cost struct {
	CPU  time.Duration // of all threads and the kernel
	Peak int64         // the most memory, in bytes
}

// A Row is one log with the cost of each program. GoAccess reads only the first kind of log.
type Row struct {
	Kind
	Bytes, Lines, Attempts  int64
	Floor, Replay, GoAccess Cost
}

// LinesCommand is the first argument with which the program reads the lines of a file.
const LinesCommand = "read-lines"

// LinesMain reads the lines of a file.
func LinesMain(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewReaderSize(f, 1<<20); ; {
		if _, err := lines.ReadSlice('\n'); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// A Report reports progress.
type Report func(format string, args ...any)

// Run writes a log of each kind and size into the folder, and removes it after the measurement.
func Run(ctx context.Context, folder string, bytes int64, report Report) (rows []Row, err error) {
	if folder, err = os.MkdirTemp(folder, "authguard-replay"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if err := wrk.Build(ctx, "..", folder+"/authguard", "./cmd/authguard"); err != nil {
		return nil, err
	}
	for _, k := range Kinds() {
		report("%s: writing", k.Name)
		row, err := measure(ctx, folder, Row{Kind: k, Bytes: bytes}, report)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func measure(ctx context.Context, folder string, r Row, report Report) (_ Row, err error) {
	path := folder + "/log"
	defer os.Remove(path)
	if r.Lines, r.Attempts, err = Write(path, r.Kind, r.Bytes); err != nil {
		return r, err
	}
	own, err := os.Executable()
	if err != nil {
		return r, err
	}
	if r.Floor, _, err = run(ctx, own, LinesCommand, path); err != nil {
		return r, err
	}
	var out []byte
	r.Replay, out, err = run(ctx, folder+"/authguard", "limit", "replay", path, "--json", "--year", "2026")
	if err != nil {
		return r, err
	}
	var said struct {
		Log struct{ Lines, Attempts int64 }
	}
	if err := json.Unmarshal(out, &said); err != nil || said.Log.Lines != r.Lines || said.Log.Attempts != r.Attempts {
		return r, fmt.Errorf("replay read %d lines and %d attempts of %d and %d: %w",
			said.Log.Lines, said.Log.Attempts, r.Lines, r.Attempts, err)
	}
	report("%s: %d lines, %v of CPU time to read and %v to replay", r.Name, r.Lines, r.Floor.CPU, r.Replay.CPU)
	if r.Logins < 1 {
		r.GoAccess, _, err = run(ctx, "goaccess", path, "--log-format=COMBINED", "--no-global-config", "--no-progress",
			"-o", folder+"/out.json")
	}
	return r, err
}

// run runs a program to its end.
func run(ctx context.Context, program string, args ...string) (c Cost, out []byte, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if out, err = cmd.Output(); err != nil {
		return c, out, fmt.Errorf("%s: %w", program, err)
	}
	state := cmd.ProcessState
	c = Cost{CPU: state.UserTime() + state.SystemTime()}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		c.Peak = usage.Maxrss * 1024
	}
	return c, out, nil
}
