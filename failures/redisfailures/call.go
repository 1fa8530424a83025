package redisfailures

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// A call is one script to run.
type call struct {
	script *script
	keys   []string
	args   []any
	group  group
}

// run runs charging scripts and reads their answers.
func (s *Store) run(ctx context.Context, calls []call) ([]answer, error) {
	asked := s.clock.local()
	replies, err := s.send(ctx, calls)
	if err != nil {
		return nil, err
	}
	came := s.clock.local()
	answers := make([]answer, len(calls))
	for i, reply := range replies {
		if answers[i], err = parseAnswer(reply, nil); err != nil {
			return nil, err
		}
	}
	if len(answers) > 0 {
		s.clock.heard(asked, came, answers[0].clock)
	}
	return answers, nil
}

// send runs scripts in one trip, and once more in full those that Redis does
// not know: a new server, one that took over, or SCRIPT FLUSH.
func (s *Store) send(ctx context.Context, calls []call) ([]any, error) {
	cmds := make([]*redis.Cmd, len(calls))
	if len(calls) == 1 {
		cmds[0] = s.client.EvalSha(ctx, calls[0].script.sha, calls[0].keys, calls[0].args...)
	} else {
		pipe := s.client.Pipeline()
		for i, c := range calls {
			cmds[i] = pipe.EvalSha(ctx, c.script.sha, c.keys, c.args...)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
	}
	replies := make([]any, len(calls))
	var errs []error
	for i, cmd := range cmds {
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			cmd = s.client.Eval(ctx, calls[i].script.text, calls[i].keys, calls[i].args...)
		}
		reply, err := cmd.Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			errs = append(errs, err)
		}
		replies[i] = reply
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("redisfailures: %w", errors.Join(errs...))
	}
	return replies, nil
}
