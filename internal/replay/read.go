package replay

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/axiomhq/hyperloglog"
	"github.com/dchest/siphash"
)

// batch is attempts that all sites read; the last reader returns it to the pool.
type batch struct {
	attempts []Attempt
	users    atomic.Int32
}

func (b *batch) done(pool *sync.Pool) {
	if b.users.Add(-1) == 0 {
		b.attempts = b.attempts[:0]
		pool.Put(b)
	}
}

func read(ctx context.Context, log *Log, skip int64, pool *sync.Pool, f *facts,
	each func(*batch) error) error {
	for more := true; more && ctx.Err() == nil; {
		b := pool.Get().(*batch)
		for len(b.attempts) < batchSize {
			var a Attempt
			var err error
			if more, err = log.Next(&a); err != nil {
				return err
			}
			if !more {
				break
			}
			if skip--; skip >= 0 {
				continue
			}
			f.add(&a)
			b.attempts = append(b.attempts, a)
		}
		if len(b.attempts) == 0 {
			return nil
		}
		if err := each(b); err != nil {
			return err
		}
	}
	return nil
}

type facts struct{ accounts, addresses distinct }

func newFacts() *facts { return &facts{newDistinct(), newDistinct()} }

func (f *facts) add(a *Attempt) {
	if a.Named {
		f.accounts.add([]byte(a.Account))
	}
	if a.Address.IsValid() {
		bytes := a.Address.As16()
		f.addresses.add(bytes[:])
	}
}

// distinct counts distinct names within about 1 %, deterministically.
type distinct struct{ sketch *hyperloglog.Sketch }

func newDistinct() distinct { return distinct{hyperloglog.New()} }

func (d distinct) add(name []byte) { d.sketch.InsertHash(siphash.Hash(1, 2, name)) }

// Count returns the approximate number of distinct names.
func (d distinct) Count() int { return int(d.sketch.Estimate()) }
