package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

// What charge.lua is to do.
const (
	charging = "charge"
	reading  = "read"
)

// undoWithin is how long half a charge may take to be taken back although its
// caller has gone.
const undoWithin = time.Second

// A part is what one shard is charged, in one call of charge.lua.
type part struct {
	call
	what     string
	first    uint8              // the number of the first of these
	subjects []failures.Subject // that count; of an account, once its place is known
	usages   []failures.Usage
	used     []failures.Used // if reading

	password *guard.Charge // of an account, whose password has a tag

	at      int64 // by the shard's clock
	repeats bool  // the password's tag was noted before
	made    bool
	refused bool
	full    uint8 // subjects of which the charge fills a limit, as bits; see failures.ChargeID
	status  trusted.Status
	place   int
	known   bool // Redis knows something of the account
	told    []any
}

// Begin implements guard.Store. What this node has just found closed it answers
// without a trip. Otherwise it takes one: the account's script finds the place
// and counts accordingly, and the network's goes along unless this node has
// seen the place privileged before. Where it was wrong about that, a second
// trip mends it.
func (s *Store) Begin(ctx context.Context, c guard.Charge) (guard.Charge, error) {
	for {
		c.ID, c.Repeat, c.Usage = failures.ChargeID{}, false, [len(c.Usage)]failures.Usage{}
		if s.known.refuses(&c, s.limits, s.now()) {
			return c, nil
		}
		if err := s.try(ctx, &c, nil, true); err != nil {
			return c, fmt.Errorf("redisstore: charging: %w", err)
		}
		if !c.BudgetSpent() {
			s.sprayed(&c)
			return c, nil
		}
		if err := s.changePlaces(ctx, c.Account, c.Now, change{what: spend, place: c.Place(), at: c.Now.UnixMilli()}); err != nil {
			return c, err
		}
		if s.options.Spent != nil {
			s.options.Spent(ctx, c.Account, c.Place(), c.Now)
		}
	}
}

// try charges or, if it is asked what is used, reads. If Redis knows nothing of
// the account and this node does, it tells Redis and does so again.
func (s *Store) try(ctx context.Context, c *guard.Charge, used *guard.Used, mayRestore bool) (err error) {
	sent := s.now()
	c.AtDevice, c.Status = false, trusted.Stranger // whatever was remembered
	if c.Account == (trusted.Key{}) {
		network := s.networkPart(c, used, trusted.Stranger)
		s.send(ctx, network)
		c.ID, err = s.combine(ctx, sent, network)
		return err
	}
	account, network := s.accountPart(c, used), (*part)(nil)
	if !s.known.expects(c) {
		network = s.networkPart(c, used, trusted.Stranger)
	}
	s.send(ctx, account, network)
	if account.err != nil {
		return errors.Join(account.err, s.undo(ctx, network))
	}
	account.found(c, used)
	if mayRestore && !account.known && s.options.Elsewhere != nil {
		if record, ok := s.options.Elsewhere(ctx, c); ok {
			if err := errors.Join(s.undo(ctx, account, network), s.merge(ctx, c.Account, &record, c.Now)); err != nil {
				return err
			}
			return s.try(ctx, c, used, false)
		}
	}
	s.known.learn(c, account, sent)
	c.ID, err = s.combine(ctx, sent, account, s.rightly(ctx, c, used, account, network))
	return err
}

// rightly returns the network's part as the place's status asks for it. It is
// charged now if it was not, and taken back if the status wants none, or one
// that other rungs bind.
func (s *Store) rightly(ctx context.Context, c *guard.Charge, used *guard.Used, account, network *part) *part {
	first, last := c.Counted()
	wanted := first < min(last, guard.AccountSubject)
	binds := c.Binds[c.Status]
	same := [2]failures.Mask(binds[:]) == [2]failures.Mask(c.Binds[trusted.Stranger][:])
	if network != nil && (!wanted || !same) {
		// If this fails, the address has one failure more than it should.
		_ = s.undo(ctx, network)
		network = nil
	}
	if wanted && network == nil && !account.refused {
		network = s.networkPart(c, used, c.Status)
		s.send(ctx, network)
	}
	return network
}

// combine fills the usages and makes one ID of what the parts did; or undoes
// that, if one of them refused or failed.
func (s *Store) combine(ctx context.Context, sent time.Time, parts ...*part) (id failures.ChargeID, err error) {
	refused := false
	for _, p := range parts {
		if p == nil {
			continue
		}
		if p.err != nil {
			err = errors.Join(err, p.err)
			continue
		}
		s.fill(p, sent)
		refused = refused || p.refused
		if p.made {
			stamp(&id, p)
			id.Full |= p.full
		}
	}
	if err == nil && !refused {
		return id, nil
	}
	if err == nil {
		s.ask(ctx, sent, parts)
	}
	return failures.ChargeID{}, errors.Join(err, s.undo(ctx, parts...))
}

// stamp notes in the ID when a part was charged. The clocks of a Cluster's
// masters differ, and so do two scripts of one server by a millisecond.
func stamp(id *failures.ChargeID, p *part) {
	if id.At == 0 {
		id.At = p.at
	} else if id.At != p.at { // an attempt has two parts at most
		id.Shard, id.There = shardNumber(p.subjects[0].Shard), p.at
	}
}

// stampOf is when a shard was charged.
func stampOf(id failures.ChargeID, shard failures.Key) int64 {
	if id.Shard != 0 && id.Shard == shardNumber(shard) {
		return id.There
	}
	return id.At
}

func shardNumber(shard failures.Key) uint64 { return binary.BigEndian.Uint64(shard[:]) }

// undo takes back what parts have charged, although the caller may have gone:
// nobody else will.
func (s *Store) undo(ctx context.Context, parts ...*part) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWithin)
	defer cancel()
	var calls []*call
	for _, p := range parts {
		if p == nil || !p.made {
			continue
		}
		undone := s.takingBack(failures.ChargeID{At: p.at}, p.subjects, nil)
		if p.password != nil && !p.repeats {
			s.noting(undone[0], p.password, unseen)
		}
		p.made, calls = false, append(calls, undone...)
	}
	if err := run(ctx, s.batcher.enqueue, calls...); err != nil {
		return fmt.Errorf("taking back half a charge: %w", err)
	}
	return nil
}

// networkPart is what the attempt's network is charged for a place of this
// status; nil if nothing.
func (s *Store) networkPart(c *guard.Charge, used *guard.Used, status trusted.Status) *part {
	last := min(c.Last, guard.AccountSubject)
	if c.KnownOnly || c.First >= last {
		return nil
	}
	p := s.newPart(used, int(last-c.First))
	p.counts(c, used, c.First, last)
	for i := range p.subjects {
		s.add(p, &p.subjects[i], p.subjects[i].Key, c.Binds[status][int(c.First)+i])
	}
	return s.end(p)
}

// accountPart is what an account is charged, whatever its place turns out to be.
func (s *Store) accountPart(c *guard.Charge, used *guard.Used) *part {
	places := placesOf(c)
	p := s.newPart(used, 1+len(places))
	all, of, pair := c.Subjects(), guard.AccountSubject, guard.PairSubject
	s.add(p, &all[of], all[of].Key, c.Binds[0][of], c.Binds[1][of], c.Binds[2][of])
	for i := range places {
		s.add(p, &all[pair], c.Pair(places[i].key), c.Binds[0][pair], c.Binds[1][pair], c.Binds[2][pair])
	}
	only := 0
	if c.KnownOnly {
		only = 1
	}
	if c.Tag != 0 {
		p.keys = append(p.keys, s.tagsKey(c.Account))
	}
	p.keys = append(p.keys, s.placesKey(c.Account))
	p.args = append(p.args, only, s.since(c.Now))
	for i := range places {
		p.args = append(p.args, places[i].asked[:], places[i].issued)
	}
	if c.Tag != 0 {
		p.password = c
		p.args = append(p.args, tagBytes(c.Tag))
		for i := range places {
			p.args = append(p.args, tagBytes(c.TagAt(places[i].key, trusted.Privileged)))
		}
		p.args = append(p.args, placeBytes(places[len(places)-1].key))
	}
	return s.end(p)
}

// tagBytes are a tag as the scripts have it.
func tagBytes(tag uint32) []byte { return binary.LittleEndian.AppendUint32(nil, tag) }

// placeBytes are the piece of a place's digest that is noted with a tag.
func placeBytes(place trusted.Key) []byte {
	return binary.LittleEndian.AppendUint16(nil, guard.TagPlace(place))
}

// A place is a device or an address.
type place struct {
	key    trusted.Key
	asked  trusted.Key // what its status is looked up by; zero, which is no place's, for an address that is nobody's own
	issued int64       // when a device's cookie was; 0 for an address
}

// placesOf are the places that the attempt has, the device first.
func placesOf(c *guard.Charge) []place {
	address := place{key: c.Address, asked: c.Address}
	if c.Nobodys {
		address.asked = trusted.Key{}
	}
	if c.Device == (trusted.Key{}) {
		return []place{address}
	}
	return []place{{c.Device, c.Device, c.Issued.UnixMilli()}, address}
}

// found notes what the account's part says of the place.
func (p *part) found(c *guard.Charge, used *guard.Used) {
	c.AtDevice, c.Status, c.Repeat = p.place < len(placesOf(c)), p.status, p.repeats
	first, last := c.Counted()
	if first = max(first, guard.AccountSubject); first < last {
		p.counts(c, used, first, last)
	}
}

// counts says which subjects the part is charged.
func (p *part) counts(c *guard.Charge, used *guard.Used, first, last uint8) {
	all := c.Subjects()
	p.first, p.subjects, p.usages = first, all[first:last], c.Usage[first:last]
	if used != nil {
		p.used = used[first:last]
	}
}

func (s *Store) newPart(used *guard.Used, subjects int) *part {
	p := &part{what: charging}
	if used != nil {
		p.what = reading
	}
	p.script = chargeScript
	p.keys = make([]any, 0, subjects+1)
	p.args = append(make([]any, 0, 10+2*subjects), p.what, subjects, s.pending.Load())
	return p
}

func (s *Store) add(p *part, of *failures.Subject, key failures.Key, binds ...failures.Mask) {
	l := s.known.ladder(of.Ladder, binds)
	p.keys = append(p.keys, s.subjectKey(of.Shard, key))
	p.args = append(p.args, l.lives, l.text)
}

func (s *Store) end(p *part) *part {
	p.args = append(p.args, s.clock())
	return p
}

// send makes the parts' calls and reads the answers.
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
	p.at = max(head[0], -head[0])
	p.refused = head[0] < 0
	p.repeats, p.made = head[4] == 1, head[0] > 0 && p.what == charging
	p.status, p.place, p.known, p.told = trusted.Status(head[1]), int(head[2]), head[3] == 1, list[len(head):]
}

// fill writes what a part's answer means to its subjects.
func (s *Store) fill(p *part, sent time.Time) {
	for i := range min(len(p.subjects), len(p.told)) {
		subject, out := &p.subjects[i], &p.usages[i]
		text, full := p.told[i].(string)
		if !full {
			count, _ := p.told[i].(int64)
			if count < 0 {
				count, p.full = -1-count, p.full|1<<(int(p.first)+i)
			}
			*out = failures.Usage{Count: int32(min(int(count), subject.Ladder.Keep()))}
			continue
		}
		charges, cleared := chargesOf(text)
		certain := s.known.certain(subject.Key, charges, uint32(p.at), s.pendingFor())
		subject.Use(charges, uint32(p.at), cleared.fresh(charges), len(charges)-len(certain), out)
		if p.made && subject.Fills(charges, uint32(p.at), cleared.fresh(charges), out.Over) {
			p.full |= 1 << (int(p.first) + i)
		}
		if p.what == reading {
			subject.Tally(charges, uint32(p.at), cleared.fresh(charges), &p.used[i])
		} else if out.Failed&subject.Bind != 0 {
			s.known.close(subject, certain, cleared, uint32(p.at), sent)
		}
	}
}

// clearedAt is the charge at which a key's backoff was let begin anew, if it was.
type clearedAt struct {
	at  uint32
	was bool
}

// fresh is how many of the newest charges count for the backoff.
func (c clearedAt) fresh(charges []uint32) int {
	if !c.was {
		return len(charges)
	}
	return failures.Since(charges, c.at)
}

// chargesOf reads a key's value: charge.lua says what is in it.
func chargesOf(text string) (charges []uint32, cleared clearedAt) {
	words := []byte(text)
	if len(words)%4 == 1 {
		cleared = clearedAt{binary.LittleEndian.Uint32(words[1:]), true}
		words = words[5:]
	}
	charges = make([]uint32, len(words)/4)
	for i := range charges {
		charges[i] = binary.LittleEndian.Uint32(words[4*i:])
	}
	return charges, cleared
}
