package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"authguard/internal/audit"
	"authguard/internal/config"
	"authguard/internal/operation"
	"authguard/internal/policy"
	"authguard/internal/replay"
)

// TriedWithin is the longest duration of a trial.
const TriedWithin = 30 * time.Second

// The period of a trial, and the newest rows and attempts of the audit log in it.
const (
	triedFor  = 7 * 24 * time.Hour
	triedRows = 50_000
	triedMost = 200_000
)

// A Trial compares other limits with those in force, on the attempts of the last week.
type Trial struct {
	LimitSet string
	Limits   string // as tried
	InForce  string
	YAML     string // for the configuration file
	// Refused is why these limits cannot be an override; nil if they can.
	Refused error
	// From and To are the time of the attempts. Partial is set if older ones of the week were left out.
	From, To time.Time
	Partial  bool
	// Counted, Stopped and Summed are the attempts; those that were challenged or blocked, whose password was not
	// checked; and those that the audit log sums up without their accounts.
	Counted, Stopped, Summed int
	Today, Tried             replay.Result
}

// ErrTrying means that another trial of limits is running.
var ErrTrying = fmt.Errorf("%w: another trial of limits is running. Try again when it has ended",
	operation.ErrAsked)

// TryLimits runs the attempts of the last week through the limits in force and through others, both with today's IP
// lists. It changes nothing, and ends if ctx ends. The error is ErrAsked for invalid limits.
func (c *Control) TryLimits(ctx context.Context, limitSet, text string) (*Trial, error) {
	written, overrides := c.Limits.InForce()
	valid, err := written.Valid(limitSet, text)
	if err != nil {
		return nil, err
	}
	if !c.config.Overrides.Trying.TryLock() {
		return nil, ErrTrying
	}
	defer c.config.Overrides.Trying.Unlock()
	ctx, cancel := context.WithTimeout(ctx, TriedWithin)
	defer cancel()
	t := &Trial{LimitSet: limitSet, Limits: valid}
	if limits, err := config.ParseLimits(limitSet, valid); err == nil {
		t.YAML = config.LimitsYAML(limitSet, limits)
	}
	t.Refused = written.Bounded(limitSet, valid)
	setups := make([]replay.Setup, 2)
	others := append(slices.DeleteFunc(slices.Clone(overrides), func(w policy.Override) bool {
		return w.LimitSet == limitSet
	}), policy.Override{LimitSet: limitSet, Limits: valid})
	for i, all := range [][]policy.Override{overrides, others} {
		p, mode, err := written.With(all)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", operation.ErrAsked, err)
		}
		if i == 0 {
			t.InForce = config.FormatLimits(*p.Counted(limitSet))
		}
		setups[i] = replay.Setup{Policy: p, Mode: mode, Lists: c.config.Listings.Memory}
	}
	err = c.try(ctx, t, setups)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: the trial took longer than %s. Export the audit log, and use authguard limit replay",
			operation.ErrAsked, TriedWithin)
	}
	return t, err
}

func (c *Control) try(ctx context.Context, t *Trial, setups []replay.Setup) error {
	rows, err := c.attempts(ctx, t)
	if err != nil {
		return err
	}
	from, to := io.Pipe()
	defer from.Close() // ends the writer
	go func() {
		lines := json.NewEncoder(to)
		for _, row := range slices.Backward(rows) {
			if lines.Encode(row) != nil {
				return
			}
		}
		to.Close()
	}()
	log, err := replay.Read("audit log", from, replay.Config{Format: "audit"})
	if err != nil {
		return err
	}
	report, err := replay.Run(ctx, log, setups, replay.Options{})
	if err != nil {
		return err
	}
	t.From, t.To = report.Log.From, report.Log.To
	t.Counted, t.Stopped = int(report.Log.Attempts), int(report.Log.Stopped)
	t.Today, t.Tried = report.Policies[0], report.Policies[1]
	return nil
}

// A tryRow is a row as the audit log's export has it.
type tryRow struct {
	audit.Row
	Identity string `json:"fingerprint,omitempty"`
}

var errEnough = errors.New("control: enough rows")

// attempts returns the attempts of the last week, newest first.
func (c *Control) attempts(ctx context.Context, t *Trial) (rows []tryRow, err error) {
	f := audit.Filter{Realm: c.config.Realm, Kind: audit.KindAttempt, Since: c.Now().Add(-triedFor)}
	n := int64(0)
	err = c.config.Audit.Each(ctx, f, func(r audit.Row) error {
		if n += r.Count; len(rows) == triedRows || n > triedMost {
			t.Partial = true
			return errEnough
		}
		if r.Summed() {
			t.Summed += int(r.Count)
		}
		rows = append(rows, tryRow{r, r.Identity()})
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return rows, err
}
