package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

// Operations of charge.lua.
const (
	charging = "charge"
	reading  = "read"
)

// undoTimeout bounds how long the charges of some shards are taken back after the caller has gone.
const undoTimeout = time.Second

// A part is the charge of one shard, one call of charge.lua.
type part struct {
	call
	what     string
	at       []uint8 // which of the charge's subjects these are; of an account, once its client is known
	password bool    // of an account, whose password has a tag

	time    int64 // by the shard's clock
	repeats bool  // the password's tag was noted before
	made    bool
	refused bool
	full    uint8 // subjects of which the charge fills a limit, as bits; see failures.ChargeID
	status  trusted.Status
	client  int
	known   bool // Redis knows something of the account
	answers []any
}

// A trip is one attempt with its parts.
type trip struct {
	*guard.Charge
	what    string
	used    *guard.Used // if reading
	sent    time.Time
	account *part   // nil: there is none
	others  []*part // of the network and of other shards
}

// Begin implements guard.Store. It takes one round trip, or none if the node knows that a limit
// blocks. The account's script finds the client and counts accordingly. The other shards are
// charged in the same pipeline, unless the client has a device cookie or was known at its last
// attempt; correct repairs a wrong guess in a second round trip.
func (s *Store) Begin(ctx context.Context, c *guard.Charge) error {
	for {
		c.Reset()
		if s.memory.blocks(c, s.limits, s.now()) {
			return nil
		}
		if err := s.try(ctx, &trip{Charge: c, what: charging}, true); err != nil {
			return fmt.Errorf("redisstore: charging: %w", err)
		}
		if !c.Exceeded() {
			c.Sprayed = c.Spray != 0 && !c.Known() && s.options.Sprays.Has(c.Miss(c.Spray), c.Now)
			return nil
		}
		if err := s.changeKnownClients(ctx, c.Account, c.Now, change{what: spend, client: c.ClientKey(),
			at: c.Now.UnixMilli()}); err != nil {
			return err
		}
		if s.options.Spent != nil {
			s.options.Spent(ctx, c.Account, c.ClientKey(), c.Now)
		}
	}
}

// try charges, or reads. If Redis does not know the account, it writes the known clients of
// Options.Elsewhere and tries again.
func (s *Store) try(ctx context.Context, t *trip, mayRestore bool) (err error) {
	t.sent = s.now()
	t.AtDevice, t.Status, t.account = false, trusted.Unknown, nil // whatever was remembered
	if t.Account != (trusted.Key{}) {
		t.account = s.accountPart(t)
	}
	t.others = nil
	// The device of a genuine cookie is known unless it was removed.
	if t.account == nil || t.Device == (trusted.Key{}) && !s.memory.expects(t.Charge) {
		t.others = s.otherParts(t)
	}
	s.send(ctx, append(t.others, t.account)...)
	if t.account == nil {
		t.ID, err = s.combine(ctx, t)
		return err
	}
	if t.account.err != nil {
		return errors.Join(t.account.err, s.undo(ctx, t.Charge, t.others...))
	}
	t.account.found(t.Charge)
	if mayRestore && !t.account.known && s.options.Elsewhere != nil {
		if record, ok := s.options.Elsewhere(ctx, t.Charge); ok {
			if err := errors.Join(s.undo(ctx, t.Charge, append(t.others, t.account)...), s.merge(ctx, t.Account, &record,
				t.Now)); err != nil {
				return err
			}
			return s.try(ctx, t, false)
		}
	}
	s.memory.learn(t.Charge)
	s.correct(ctx, t)
	t.ID, err = s.combine(ctx, t)
	return err
}

// correct charges the other shards if that is missing, and takes their charges back if they do not
// count for the client or were charged with other limits.
func (s *Store) correct(ctx context.Context, t *trip) {
	wrong := func(p *part) bool {
		return slices.ContainsFunc(p.at, func(i uint8) bool {
			one := &t.Subjects()[i]
			return !t.Counts(one) || t.Bound(one) != one.Binds[trusted.Unknown]
		})
	}
	if slices.ContainsFunc(t.others, wrong) {
		// If this fails, the IP address has one failure too many.
		_ = s.undo(ctx, t.Charge, t.others...)
		t.others = nil
	}
	if t.others == nil && !t.account.refused {
		t.others = s.otherParts(t)
		s.send(ctx, t.others...)
	}
}

// combine writes the usages and the parts' common ID. If a part blocked or failed, it takes all
// back.
func (s *Store) combine(ctx context.Context, t *trip) (id failures.ChargeID, err error) {
	refused := false
	parts := t.parts()
	for _, p := range parts {
		if p.err != nil {
			err = errors.Join(err, p.err)
			continue
		}
		s.fill(t, p)
		refused = refused || p.refused
		if p.made {
			id.Full |= p.full
			p.stamp(&id)
		}
	}
	if err == nil && !refused {
		return id, nil
	}
	if err != nil {
		return failures.ChargeID{}, errors.Join(err, s.undo(ctx, t.Charge, parts...))
	}
	s.ask(ctx, t)
	// If this fails, some subjects have one failure too many. An error would admit the attempt at this node alone.
	_ = s.undo(ctx, t.Charge, parts...)
	return failures.ChargeID{}, nil
}

func (t *trip) parts() []*part {
	if t.account == nil {
		return t.others
	}
	return append([]*part{t.account}, t.others...)
}

// stamp notes in the ID when a part was charged. The clocks of a Cluster's masters differ, and so
// do two scripts of one server by a millisecond.
func (p *part) stamp(id *failures.ChargeID) {
	if id.At == 0 {
		id.At = p.time
	}
	for _, i := range p.at {
		id.Skews[i] = int32(p.time - id.At)
	}
}

func stampOf(id *failures.ChargeID, i int) int64 { return id.At + int64(id.Skews[i]) }

// undo takes back the parts' charges, even if ctx has ended.
func (s *Store) undo(ctx context.Context, c *guard.Charge, parts ...*part) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	var calls []*call
	for _, p := range parts {
		if p == nil || !p.made {
			continue
		}
		undone := *c
		undone.ID = failures.ChargeID{}
		p.stamp(&undone.ID)
		back := s.takeBackCalls(&undone, p.at, false)
		if p.password && !p.repeats {
			s.addTag(back[0], c, unchecked)
		}
		p.made, calls = false, append(calls, back...)
	}
	if err := run(ctx, s.batcher.enqueue, calls...); err != nil {
		return fmt.Errorf("taking back half a charge: %w", err)
	}
	return nil
}

func (s *Store) otherParts(t *trip) (parts []*part) {
	byShard := map[failures.Key]*part{}
	for i := range t.Subjects() {
		one := &t.Subjects()[i]
		if !t.Counts(one) || t.Account != (trusted.Key{}) && one.Shard == failures.Key(t.Account) {
			continue
		}
		p := byShard[one.Shard]
		if p == nil {
			p = s.newPart(t)
			byShard[one.Shard], parts = p, append(parts, p)
		}
		s.add(p, one, t.Bound(one))
		p.at = append(p.at, uint8(i))
	}
	for _, p := range parts {
		s.end(p, len(p.at))
	}
	return parts
}

// accountPart is the charge of an account for each status that its client may have.
func (s *Store) accountPart(t *trip) *part {
	clients := clientsOf(t.Charge)
	p := s.newPart(t)
	only := 1
	for i := range t.Subjects() {
		one := &t.Subjects()[i]
		if one.Kind == guard.OnAccount {
			s.add(p, one, one.Binds[:]...)
		}
		if one.Shard == failures.Key(t.Account) && one.For&guard.UnknownClient != 0 {
			only = 0
		}
	}
	for i := range clients { // the device's before the address's
		for j := range t.Subjects() {
			one := &t.Subjects()[j]
			if one.Kind == guard.OnPair && (len(clients) == 2 && i == 0) == (one.For == guard.KnownDevice) {
				s.add(p, one, one.Binds[:]...)
				break
			}
		}
	}
	n := len(p.keys)
	if t.Tag != 0 {
		p.password, p.keys = true, append(p.keys, s.tagsKey(t.Account))
	}
	p.keys = append(p.keys, s.knownClientsKey(t.Account))
	p.args = append(p.args, only, s.since(t.Now))
	for i := range clients {
		p.args = append(p.args, clients[i].asked[:], clients[i].issued)
	}
	if t.Tag != 0 {
		p.args = append(p.args, tagBytes(t.Tag))
		for i := range clients {
			p.args = append(p.args, tagBytes(t.TagAt(clients[i].key, trusted.Known)))
		}
		p.args = append(p.args, clientBytes(clients[len(clients)-1].key))
	}
	s.end(p, n)
	return p
}

// tagBytes is a tag as the scripts expect it.
func tagBytes(tag uint32) []byte { return binary.LittleEndian.AppendUint32(nil, tag) }

// clientBytes is the part of a client's digest that is noted with a tag.
func clientBytes(client trusted.Key) []byte {
	return binary.LittleEndian.AppendUint16(nil, guard.TagClient(client))
}

// A clientAt is a device or an IP address.
type clientAt struct {
	key    trusted.Key
	asked  trusted.Key // what its status is looked up by; zero for an address that is never a known client
	issued int64       // when a device's cookie was; 0 for an address
}

// clientsOf are the attempt's device, if it has one, and its IP address.
func clientsOf(c *guard.Charge) []clientAt {
	address := clientAt{key: c.From, asked: c.Address}
	if c.Device == (trusted.Key{}) {
		return []clientAt{address}
	}
	return []clientAt{{c.Device, c.Device, c.Issued.UnixMilli()}, address}
}

// found notes the client, and which subjects the account's part has charged.
func (p *part) found(c *guard.Charge) {
	c.AtDevice, c.Status, c.Repeat = p.client < len(clientsOf(c)), p.status, p.repeats
	for i := range c.Subjects() {
		if one := &c.Subjects()[i]; one.Shard == failures.Key(c.Account) && c.Counts(one) {
			p.at = append(p.at, uint8(i))
		}
	}
}

func (s *Store) newPart(t *trip) *part {
	p := &part{what: t.what}
	p.script = chargeScript
	p.args = append(make([]any, 0, 16), p.what, 0, s.pending.Load())
	return p
}

func (s *Store) add(p *part, of *guard.Subject, binds ...failures.Mask) {
	p.keys = append(p.keys, s.subjectKey(of.Shard, of.Key))
	p.args = append(p.args, of.Limits.Retain().Milliseconds()+slack, limitsArg(of.Limits, binds))
}

// end completes the arguments of a part.
func (s *Store) end(p *part, subjects int) { p.args[1], p.args = subjects, append(p.args, s.clock()) }

func (s *Store) send(ctx context.Context, parts ...*part) {
	calls := make([]*call, 0, len(parts))
	for _, p := range parts {
		if p != nil {
			calls = append(calls, &p.call)
		}
	}
	_ = run(ctx, s.batcher.enqueue, calls...) // each part has its own
	for _, p := range parts {
		if p != nil && p.err == nil {
			p.read()
		}
	}
}

var errAnswer = errors.New("an answer of charge.lua that cannot be")

func (p *part) read() {
	list, _ := p.reply.([]any)
	var head [5]int64
	for i := range head {
		if i >= len(list) {
			p.err = errAnswer
			return
		}
		head[i], _ = list[i].(int64)
	}
	p.time = max(head[0], -head[0])
	p.refused = head[0] < 0
	p.repeats, p.made = head[4] == 1, head[0] > 0 && p.what == charging
	p.status, p.client, p.known, p.answers = trusted.Status(head[1]), int(head[2]), head[3] == 1, list[len(head):]
}

// fill writes a part's answer into the usages of its subjects.
func (s *Store) fill(t *trip, p *part) {
	var clients *trusted.Record
	if all := p.answers[min(len(p.at), len(p.answers)):]; len(all) > 0 && p.refused {
		clients = recordOf(all[0])
		s.memory.blocked.Add(failures.Key(t.Account), block{read: t.sent, clients: clients})
	}
	for n, i := range p.at {
		if n >= len(p.answers) {
			return
		}
		one := &t.Subjects()[i]
		subject, out := one.Subject, &one.Usage
		subject.Bind = t.Bound(one)
		text, full := p.answers[n].(string)
		if !full {
			count, _ := p.answers[n].(int64)
			if count < 0 {
				count, p.full = -1-count, p.full|1<<i
			}
			*out = failures.Usage{Count: int32(min(int(count), subject.Limits.Keep()))}
			continue
		}
		charges, reset := chargesOf(text)
		now, fresh := uint32(p.time), reset.fresh(charges)
		certain := s.memory.certain(subject.Key, charges, now, s.pendingFor())
		subject.Use(charges, now, fresh, len(charges)-len(certain), out)
		if p.made && subject.Fills(charges, now, fresh, out.Over) {
			p.full |= 1 << i
		}
		if p.what == reading {
			subject.Tally(charges, now, fresh, &t.used[i])
		} else if out.Failed&subject.Bind != 0 {
			s.memory.block(&subject, certain, reset, now, block{read: t.sent, clients: clients})
		}
	}
}

// resetAt is the charge at which a pair's delay was reset, if it was.
type resetAt struct {
	at  uint32
	was bool
}

// fresh is how many of the newest charges count for the delay.
func (c resetAt) fresh(charges []uint32) int {
	if !c.was {
		return len(charges)
	}
	return failures.Since(charges, c.at)
}

// chargesOf reads a key's value; see charge.lua.
func chargesOf(text string) (charges []uint32, reset resetAt) {
	words := []byte(text)
	if len(words)%4 == 1 {
		reset = resetAt{binary.LittleEndian.Uint32(words[1:]), true}
		words = words[5:]
	}
	charges = make([]uint32, len(words)/4)
	for i := range charges {
		charges[i] = binary.LittleEndian.Uint32(words[4*i:])
	}
	return charges, reset
}
