package redisfailures

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/trusted"
)

// Options say how a Store uses Redis.
type Options struct {
	// Prefix begins every key; default DefaultPrefix. Sites that share a
	// Redis need one each.
	Prefix string
	// PendingFor is the longest that a password check takes; default 5 s.
	PendingFor time.Duration
	// PlaceTTL is how long a privileged place lives; default trusted.DefaultTTL.
	PlaceTTL time.Duration
}

// DefaultPrefix begins every key unless Options say otherwise.
const DefaultPrefix = "ag:"

// A Store is a failures.Store in Redis. It does not retry, has no time limit of
// its own and no fallback: whoever uses it sees to that.
type Store struct {
	client  redis.UniversalClient
	prefix  string
	ttl     time.Duration
	pending atomic.Int64 // ms
	clock   clock
	closed  closed
	decided decided
	scripts sync.Map // text of the ladders → *script
}

var _ failures.Store = (*Store)(nil)

// New makes a store. It does not connect.
func New(client redis.UniversalClient, o Options) *Store {
	s := &Store{
		client: client, prefix: cmp.Or(o.Prefix, DefaultPrefix), ttl: cmp.Or(o.PlaceTTL, trusted.DefaultTTL),
		clock: clock{started: time.Now()},
	}
	s.Configure(cmp.Or(o.PendingFor, 5*time.Second))
	return s
}

// Configure changes how long a password check may take.
func (s *Store) Configure(pendingFor time.Duration) { s.pending.Store(pendingFor.Milliseconds()) }

// Charge implements failures.Store.
func (s *Store) Charge(ctx context.Context, subjects []failures.Subject, standings []failures.Standing) (failures.Moment, error) {
	if err := check(subjects, standings, true); err != nil {
		return 0, err
	}
	if s.knownClosed(subjects, standings) {
		return 0, nil
	}
	all := groups(subjects)
	calls := make([]call, len(all))
	moment := s.clock.propose()
	for i, g := range all {
		calls[i] = s.charging(subjects, g, moment)
	}
	return s.charge(ctx, calls, subjects, standings)
}

// knownClosed reports whether one of the subjects is known to have no room.
func (s *Store) knownClosed(subjects []failures.Subject, standings []failures.Standing) (found bool) {
	now := s.clock.now()
	for i := range subjects {
		standings[i] = failures.Standing{}
		found = s.closed.stands(&subjects[i], now, &standings[i]) || found
	}
	return found
}

// charging is the call that charges one place's subjects.
func (s *Store) charging(subjects []failures.Subject, g group, moment int64) call {
	ladders := make([]*failures.Ladder, len(g.members))
	args := make([]any, 1, 1+2*len(g.members))
	args[0] = moment
	for i, m := range g.members {
		ladders[i] = subjects[m].Ladder
		args = append(args, int(subjects[m].Bind), s.decidedOf(&subjects[m]))
	}
	return call{script: s.script("charge", ladders, newCharge), keys: s.keys(subjects, g), args: args, group: g}
}

func (s *Store) decidedOf(one *failures.Subject) int {
	return s.decided.count(one.Key, s.clock.now(), s.pending.Load())
}

// script is the one made for these ladders.
func (s *Store) script(kind string, ladders []*failures.Ladder, make func([]*failures.Ladder, time.Duration) *script) *script {
	pending := s.pending.Load()
	var name strings.Builder
	name.WriteString(kind + strconv.FormatInt(pending, 10))
	for _, l := range ladders {
		name.WriteByte('|')
		name.WriteString(l.Fingerprint())
	}
	if known, ok := s.scripts.Load(name.String()); ok {
		return known.(*script)
	}
	made, _ := s.scripts.LoadOrStore(name.String(), make(ladders, time.Duration(pending)*time.Millisecond))
	return made.(*script)
}

// charge runs the calls of one charge.
func (s *Store) charge(ctx context.Context, calls []call, subjects []failures.Subject, standings []failures.Standing) (failures.Moment, error) {
	answers, err := s.run(ctx, calls)
	if err != nil {
		return 0, err
	}
	return s.conclude(ctx, calls, answers, subjects, standings)
}

// conclude reads the answers to one charge. If one place refused, what the
// others charged is taken back, although the caller may be gone.
func (s *Store) conclude(ctx context.Context, calls []call, answers []answer, subjects []failures.Subject, standings []failures.Standing) (_ failures.Moment, err error) {
	refused := false
	for i := range answers {
		if answers[i].sure, err = answers[i].standings(calls[i].group.members, standings); err != nil {
			return 0, err
		}
		refused = refused || answers[i].at == 0
	}
	if !refused {
		return moment(answers), nil
	}
	return 0, s.undo(ctx, calls, answers, subjects, standings)
}

// moment packs when a charge was made: the first place's milliseconds in the
// low bits and, above them, how much later the second place's were. Clocks of
// two masters further apart than a quarter of an hour cannot be told.
func moment(answers []answer) failures.Moment {
	first := answers[0].at
	later := int64(0)
	if len(answers) == 2 {
		later = answers[1].at - first
	}
	if later < -maxApart || later > maxApart {
		later = 0
	}
	return failures.Moment(first | (later<<1^later>>63)<<momentBits)
}

const (
	momentBits = failures.MomentBits
	maxApart   = 1 << 19
)

// moments are when the first and the second place were charged.
func moments(at failures.Moment) (first, second int64) {
	first = at.Millis()
	zigzag := int64(at) >> momentBits
	return first, first + (zigzag>>1 ^ -(zigzag & 1))
}

// undo takes back what some places charged while another refused, and notes
// who was closed.
func (s *Store) undo(ctx context.Context, calls []call, answers []answer, subjects []failures.Subject, standings []failures.Standing) error {
	var back []call
	for i := range answers {
		if answers[i].at != 0 {
			back = append(back, s.takingBack(calls[i].keys, answers[i].at, answers[i].at))
			continue
		}
		now := s.clock.now()
		for j, m := range calls[i].group.members {
			if answers[i].sure&(1<<j) != 0 {
				s.closed.note(&subjects[m], &standings[m], now)
			}
		}
	}
	if len(back) == 0 {
		return nil
	}
	_, err := s.send(context.WithoutCancel(ctx), back)
	return err
}

func (s *Store) takingBack(keys []string, at, or int64) call {
	return call{script: takeBack, keys: keys, args: []any{at & 0xffffffff, or & 0xffffffff}}
}

// TakeBack implements failures.Store.
func (s *Store) TakeBack(ctx context.Context, at failures.Moment, subjects []failures.Subject) error {
	if err := check(subjects, nil, false); err != nil || at == 0 {
		return err
	}
	s.closed.forget(subjects)
	first, second := moments(at)
	all := groups(subjects)
	calls := make([]call, len(all))
	for i, g := range all {
		calls[i] = s.takingBack(s.keys(subjects, g), first, second)
		if i == 1 && len(all) == 2 {
			calls[i] = s.takingBack(s.keys(subjects, g), second, second)
		} else if len(all) == 2 {
			calls[i] = s.takingBack(s.keys(subjects, g), first, first)
		}
	}
	_, err := s.send(ctx, calls)
	return err
}

// Failed implements failures.Store. It is a note of this node's and no trip.
func (s *Store) Failed(_ context.Context, at failures.Moment, subjects []failures.Subject) error {
	if err := check(subjects, nil, false); err != nil || at == 0 {
		return err
	}
	s.decided.note(subjects, at.Millis(), s.clock.now(), s.pending.Load())
	return nil
}

// Clear implements failures.Store. Other nodes may believe for another second
// that a key is closed.
func (s *Store) Clear(ctx context.Context, subjects []failures.Subject) error {
	if err := check(subjects, nil, false); err != nil {
		return err
	}
	s.closed.forget(subjects)
	s.decided.forget(subjects)
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range subjects {
			p.Del(ctx, s.key(&subjects[i]))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("redisfailures: clearing: %w", err)
	}
	return nil
}

// Read implements failures.Store.
func (s *Store) Read(ctx context.Context, subjects []failures.Subject, standings []failures.Standing) error {
	if err := check(subjects, standings, true); err != nil {
		return err
	}
	for _, g := range groups(subjects) {
		if err := s.read(ctx, subjects, g, standings); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) read(ctx context.Context, subjects []failures.Subject, g group, standings []failures.Standing) error {
	replies, err := s.send(ctx, []call{{script: peek, keys: s.keys(subjects, g)}})
	if err != nil {
		return err
	}
	reply, ok := replies[0].([]any)
	if !ok || len(reply) != 2 {
		return errors.New("redisfailures: a script answered something else")
	}
	now, _ := reply[0].(int64)
	values, _ := reply[1].([]any)
	if s.clock.fixed != nil {
		now = s.clock.fixed()
	}
	for i, m := range g.members {
		var charges []uint32
		if i < len(values) {
			charges = parseCharges(values[i])
		}
		standings[m] = failures.Stand(&subjects[m], charges, uint32(now), s.decidedOf(&subjects[m]), uint32(s.pending.Load()))
	}
	return nil
}

func parseCharges(value any) []uint32 {
	text, _ := value.(string)
	charges := make([]uint32, len(text)/4)
	for i := range charges {
		charges[i] = binary.BigEndian.Uint32([]byte(text[4*i:]))
	}
	return charges
}

func check(subjects []failures.Subject, standings []failures.Standing, asked bool) error {
	if len(subjects) > maxSubjects || asked && len(standings) < len(subjects) {
		return fmt.Errorf("redisfailures: %d subjects with %d standings; at most %d subjects, with as many standings",
			len(subjects), len(standings), maxSubjects)
	}
	return nil
}
