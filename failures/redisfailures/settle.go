package redisfailures

import (
	"context"
	"fmt"

	"authguard/failures"
	"authguard/internal/redisscript"
)

// The scripts that need no ladder answer with a list: the time, and for each
// key its charges, or nothing where they do not matter.
const (
	readLua = `local out=redis.call('MGET',unpack(KEYS))
table.insert(out,1,now)
return out
`
	clearLua = `local out=redis.call('MGET',unpack(KEYS))
table.insert(out,1,now)
redis.call('DEL',unpack(KEYS))
return out
`
	// takeBackLua removes the charge with the stamp ARGV[1] from each key, the
	// newest if there are several. It tells the charges that there were if the
	// one taken back was older than ARGV[2] milliseconds.
	takeBackLua = `local u,wrap=struct.unpack,4294967296
local at,late=tonumber(ARGV[1]),now-ARGV[1]>tonumber(ARGV[2])
local out,all={now},redis.call('MGET',unpack(KEYS))
for k=1,#KEYS do
 local v=all[k] or ''
 out[k+1]=''
 for i=#v-3,1,-4 do
  local younger=(u('<I4',v,i)-at)%wrap
  if younger==0 then
   if #v==4 then redis.call('DEL',KEYS[k])
   else redis.call('SET',KEYS[k],string.sub(v,1,i-1)..string.sub(v,i+4),'KEEPTTL') end
   if late then out[k+1]=v end
  end
  if younger==0 or younger>=2147483648 then break end
 end
end
return out
`
)

// fixed are the scripts that need no ladder.
type fixed struct{ read, clear, takeBack *redisscript.Script }

func newFixed(clock string) fixed {
	return fixed{redisscript.New(clock + readLua), redisscript.New(clock + clearLua), redisscript.New(clock + takeBackLua)}
}

// Read implements failures.Store.
func (s *Store) Read(ctx context.Context, subjects []failures.Subject, standings []failures.Standing) error {
	if err := check(subjects, standings, true); err != nil {
		return err
	}
	pending := uint32(s.pending.Load())
	err := s.each(ctx, subjects, s.readCall, func(i int, now int64, charges []uint32) {
		_, undecided := s.decided.split(subjects[i].Key, charges, uint32(now), pending)
		subjects[i].Stand(charges, uint32(now), undecided, &standings[i])
	})
	if err != nil {
		return fmt.Errorf("redisfailures: reading: %w", err)
	}
	return nil
}

// TakeBack implements failures.Store. What is taken back so late that it
// counted as a failure may open a key that nodes remember as closed; they are
// told.
func (s *Store) TakeBack(ctx context.Context, at failures.Moment, subjects []failures.Subject) error {
	if err := check(subjects, nil, false); err != nil || at == 0 {
		return err
	}
	opened := false
	err := s.each(ctx, subjects, func(of []failures.Subject) redisscript.Call {
		return s.takeBack(of, stampOf(at, of[0].Place))
	}, func(i int, now int64, charges []uint32) { opened = opened || isFull(&subjects[i], charges, now) })
	return s.settled(ctx, "taking back", opened, err)
}

// Failed implements failures.Store. It writes nothing, and is remembered by
// this node alone.
func (s *Store) Failed(_ context.Context, at failures.Moment, subjects []failures.Subject) error {
	if err := check(subjects, nil, false); err != nil || at == 0 {
		return err
	}
	age := s.pending.Load()
	for i := range subjects {
		s.decided.add(subjects[i].Key, uint32(stampOf(at, subjects[i].Place)), s.now(), age)
	}
	return nil
}

// Clear implements failures.Store. Within a second no node remembers any of
// the subjects as closed.
func (s *Store) Clear(ctx context.Context, subjects []failures.Subject) error {
	if err := check(subjects, nil, false); err != nil {
		return err
	}
	opened := false
	err := s.each(ctx, subjects, s.clearCall, func(i int, now int64, charges []uint32) {
		opened = opened || isFull(&subjects[i], charges, now)
	})
	return s.settled(ctx, "clearing", opened, err)
}

// settled tells all nodes if a key was opened, although not all may have gone
// well.
func (s *Store) settled(ctx context.Context, what string, opened bool, err error) error {
	if opened {
		s.epoch.End(ctx)
	}
	if err != nil {
		return fmt.Errorf("redisfailures: %s: %w", what, err)
	}
	return nil
}

// isFull reports whether any rung of the subject was full, bound or not.
func isFull(subject *failures.Subject, charges []uint32, now int64) bool {
	var standing failures.Standing
	subject.Stand(charges, uint32(now), 0, &standing)
	return standing.Over != 0
}

func (s *Store) readCall(of []failures.Subject) redisscript.Call {
	return redisscript.Call{Script: s.scripts.read, Keys: s.names(of), Args: s.clockArgs()}
}

func (s *Store) clearCall(of []failures.Subject) redisscript.Call {
	return redisscript.Call{Script: s.scripts.clear, Keys: s.names(of), Args: s.clockArgs()}
}

func (s *Store) takeBack(of []failures.Subject, stamp int64) redisscript.Call {
	return redisscript.Call{
		Script: s.scripts.takeBack, Keys: s.names(of), Args: append([]any{stamp, s.pending.Load()}, s.clockArgs()...),
	}
}

// each makes a call for each part of the subjects, all in one round trip, and
// hands over what was told of each subject.
func (s *Store) each(ctx context.Context, subjects []failures.Subject,
	call func([]failures.Subject) redisscript.Call, told func(i int, now int64, charges []uint32)) error {
	if len(subjects) == 0 {
		return nil
	}
	parts := s.parts(subjects)
	calls := make([]redisscript.Call, len(parts))
	for i := range parts {
		calls[i] = call(parts[i].others)
	}
	err := redisscript.Run(ctx, s.client, calls)
	for i := range parts {
		if parts[i].read(&calls[i]); parts[i].err != nil {
			continue
		}
		for j, one := range parts[i].rest {
			text, _ := one.(string) // nothing, if the key is not there
			charges := chargesOf(text)
			told(parts[i].where(j), notBefore(charges, parts[i].at), charges)
		}
	}
	return err
}
