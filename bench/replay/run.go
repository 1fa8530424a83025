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

// A Cost is what one program took for one log.
type Cost struct {
	Processor time.Duration // of all its threads, the kernel's part too
	Took      time.Duration
	Peak      int64 // bytes of memory at most
}

// A Row is one log and what each program took for it. GoAccess reads the first kind, and
// takes as long for the second: zero.
type Row struct {
	Kind
	Bytes, Lines, Attempts  int64
	Floor, Replay, GoAccess Cost
}

// LinesCommand is the word after which the program's own binary reads the lines of a
// file, and nothing else.
const LinesCommand = "read-lines"

// LinesMain reads lines.
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

// Run writes a log of each kind into the folder, of so many bytes, and removes it once
// it is measured. tell is told what is going on.
func Run(ctx context.Context, folder string, bytes int64, tell func(format string, args ...any)) (rows []Row, err error) {
	if folder, err = os.MkdirTemp(folder, "authguard-replay"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if err := wrk.Build(ctx, "..", folder+"/authguard", "./cmd/authguard"); err != nil {
		return nil, err
	}
	for _, k := range Kinds() {
		tell("%s: writing", k.Name)
		row, err := measure(ctx, folder, Row{Kind: k, Bytes: bytes}, tell)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func measure(ctx context.Context, folder string, r Row, tell func(format string, args ...any)) (_ Row, err error) {
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
	if r.Replay, out, err = run(ctx, folder+"/authguard", "replay", path, "--json", "--year", "2026"); err != nil {
		return r, err
	}
	var said struct {
		Log struct{ Lines, Attempts int64 }
	}
	if err := json.Unmarshal(out, &said); err != nil || said.Log.Lines != r.Lines || said.Log.Attempts != r.Attempts {
		return r, fmt.Errorf("replay saw %d lines and %d attempts of %d and %d: %w", said.Log.Lines, said.Log.Attempts, r.Lines, r.Attempts, err)
	}
	tell("%s: %d lines, read in %v and replayed in %v of a core", r.Name, r.Lines, r.Floor.Processor, r.Replay.Processor)
	if r.Logins < 1 {
		r.GoAccess, _, err = run(ctx, "goaccess", path, "--log-format=COMBINED", "--no-global-config", "--no-progress", "-o", folder+"/out.json")
	}
	return r, err
}

// run runs a program to its end.
func run(ctx context.Context, program string, args ...string) (c Cost, out []byte, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	began := time.Now()
	if out, err = cmd.Output(); err != nil {
		return c, out, fmt.Errorf("%s: %w", program, err)
	}
	state := cmd.ProcessState
	c = Cost{Processor: state.UserTime() + state.SystemTime(), Took: time.Since(began)}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		c.Peak = usage.Maxrss * 1024
	}
	return c, out, nil
}
