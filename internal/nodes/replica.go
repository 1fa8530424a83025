package nodes

import (
	"context"
	"slices"
	"time"

	"authguard/failures"
)

// A replica is what this node believes that Redis holds of the subjects that it
// had to do with: its own charges as they were made, those of others as they
// came to light. It is what a node goes on from when it is alone. Safe for
// concurrent use.
//
// Alone, a node counts each of its charges twice as many times as there were
// nodes, if there were others: it takes it that they do the same, and that half
// of what it does not see was used before. So together they use up at most half
// of a limit, or one each, beyond what was used of it when Redis went.
type replica struct {
	own   *failures.Memory
	parts divided
}

// A charge made alone has its weight in the bits of its Moment that Redis's
// moments have no use for while all their stamps are equal.
const (
	weightAt   = 42
	mostWeight = 1<<7 - 1
)

func weightOf(at failures.ChargeID) int {
	if at>>(weightAt+7) != 0 {
		return 1 // of two clocks
	}
	return max(1, int(at>>weightAt))
}

// charged takes in a charge that Redis has made, and what Redis said was there
// before. Missing is the first of the subjects of which Redis knows fewer
// charges than this node, -1 if there is none.
func (r *replica) charged(ctx context.Context, at time.Time, subjects []failures.Subject, said []failures.Usage) (missing int, err error) {
	var unbound [4]failures.Subject
	var mine [4]failures.Usage
	n := unbind(&unbound, subjects)
	if _, err := r.own.ChargeAt(ctx, at, unbound[:n], mine[:n]); err != nil {
		return -1, err
	}
	for i := range n {
		if said[i].Count < mine[i].Count {
			return i, nil
		}
	}
	return -1, r.believe(ctx, at, unbound[:n], said, &mine)
}

// refused takes in what Redis said when it refused. Of subjects that it was not
// asked about it says nothing, so only what is more than here counts.
func (r *replica) refused(ctx context.Context, now time.Time, subjects []failures.Subject, said []failures.Usage) error {
	var unbound [4]failures.Subject
	var mine [4]failures.Usage
	n := unbind(&unbound, subjects)
	if err := r.own.Read(ctx, unbound[:n], mine[:n]); err != nil {
		return err
	}
	return r.believe(ctx, now, unbound[:n], said, &mine)
}

// believe adds the charges of others that Redis told of.
func (r *replica) believe(ctx context.Context, now time.Time, unbound []failures.Subject, said []failures.Usage, mine *[4]failures.Usage) error {
	for i := range unbound {
		for range said[i].Count - mine[i].Count {
			var unread [1]failures.Usage
			at, err := r.own.ChargeAt(ctx, now, unbound[i:i+1], unread[:])
			if err != nil {
				return err
			}
			if err := r.own.Failed(ctx, at, unbound[i:i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// correct drops what Redis rightly no longer knows of some subjects, and
// believes what it said. The charge at this time was just made.
func (r *replica) correct(ctx context.Context, at time.Time, subjects []failures.Subject, said []failures.Usage) error {
	var unbound [4]failures.Subject
	var none, unread [4]failures.Usage
	n := unbind(&unbound, subjects)
	if err := r.own.Clear(ctx, unbound[:n]); err != nil {
		return err
	}
	if err := r.believe(ctx, at, unbound[:n], said, &none); err != nil {
		return err
	}
	_, err := r.own.ChargeAt(ctx, at, unbound[:n], unread[:n])
	return err
}

// alone charges by what is believed, for this node as one of several.
func (r *replica) alone(ctx context.Context, now time.Time, nodes int, subjects []failures.Subject, standings []failures.Usage) (failures.ChargeID, error) {
	weight := 1
	if nodes > 1 {
		weight = min(2*nodes, mostWeight)
	}
	part := slices.Clone(subjects)
	for i := range part {
		part[i].Ladder = r.parts.of(part[i].Ladder, weight)
	}
	at, err := r.own.ChargeAt(ctx, now, part, standings)
	if err != nil || at == 0 {
		return 0, err
	}
	var unbound [4]failures.Subject
	var unread [4]failures.Usage
	limited := unbound[:unbind(&unbound, withRungs(subjects))]
	for range weight - 1 {
		if _, err := r.own.ChargeAt(ctx, at.Time(), limited, unread[:]); err != nil {
			return 0, err
		}
	}
	return at | failures.ChargeID(weight)<<weightAt, nil
}

// takeBack and failed settle a charge as often as it was counted.
func (r *replica) takeBack(ctx context.Context, at failures.ChargeID, subjects []failures.Subject) error {
	err := r.own.TakeBack(ctx, at, subjects)
	for range weightOf(at) - 1 {
		err = r.own.TakeBack(ctx, at, withRungs(subjects))
	}
	return err
}

func (r *replica) failed(ctx context.Context, at failures.ChargeID, subjects []failures.Subject) error {
	err := r.own.Failed(ctx, at, subjects)
	for range weightOf(at) - 1 {
		err = r.own.Failed(ctx, at, withRungs(subjects))
	}
	return err
}

// withRungs are the subjects of which only so many charges are allowed; the
// others are only slowed.
func withRungs(subjects []failures.Subject) []failures.Subject {
	limited := make([]failures.Subject, 0, len(subjects))
	for i := range subjects {
		if len(subjects[i].Ladder.Rungs()) > 0 {
			limited = append(limited, subjects[i])
		}
	}
	return limited
}

// unbind copies subjects, none of whose rungs bind.
func unbind(into *[4]failures.Subject, subjects []failures.Subject) (n int) {
	n = copy(into[:], subjects)
	for i := range n {
		into[i].Bind = 0
	}
	return n
}
