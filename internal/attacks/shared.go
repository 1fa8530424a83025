package attacks

import (
	"context"
	"database/sql"
	"maps"
	"time"

	"authguard/internal/sqltx"
)

// sharedAt is the fraction (1/10) of an attack's attempts from which a node shares a run. On up to that many nodes the
// detection is exact; on more nodes each must have seen this part.
const sharedAt = 10

type sharedRun struct {
	attempts, good int
	last           time.Time
}

type runKey struct {
	realm string
	subject
}

func enoughOf(kind string) int {
	return map[string]int{Account: accountAfter, Address: addressAfter}[kind]
}

// share publishes this node's runs and begins attacks that only all nodes together have seen. Several nodes can begin
// one; the database keeps one record.
func (r *Recorder) share(ctx context.Context) error {
	if !r.config.Shared {
		return nil
	}
	now := r.config.Now()
	mine := r.runs(now)
	if err := r.tellRuns(ctx, mine); err != nil {
		return err
	}
	if len(mine) == 0 {
		return nil
	}
	type sum struct{ attempts, good int }
	all := map[runKey]sum{}
	err := sqltx.Each(ctx, r.config.DB, func(rows *sql.Rows) error {
		var key runKey
		var s sum
		err := rows.Scan(&key.realm, &key.kind, &key.name, &s.attempts, &s.good)
		all[key] = s
		return err
	}, `SELECT realm, kind, subject, SUM(attempts), SUM(good) FROM attack_runs WHERE last_at > $1
		GROUP BY realm, kind, subject HAVING COUNT(*) > 1
			AND SUM(attempts) >= $2`, now.Add(-quietAfter).UnixMilli(), min(accountAfter, addressAfter))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, s := range all {
		if of := r.realms[key.realm]; of != nil && s.attempts >= enoughOf(key.kind) {
			if own := of.takeRun(key.subject); len(own.events) > 0 && 2*s.good < s.attempts {
				of.beginRun(key.subject, own.events)
			}
		}
	}
	return nil
}

// runs returns the runs to publish.
func (r *Recorder) runs(now time.Time) map[runKey]sharedRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[runKey]sharedRun{}
	for _, of := range r.realms {
		for kind, top := range of.runs {
			for name, one := range top.All() {
				n := len(one.events)
				if n*sharedAt < enoughOf(kind) || now.Sub(one.events[n-1].At) > quietAfter {
					continue
				}
				found[runKey{of.name, subject{kind, name}}] = sharedRun{n, one.good, one.events[n-1].At}
			}
		}
	}
	return found
}

// tellRuns writes changed runs to the database and deletes ended ones.
func (r *Recorder) tellRuns(ctx context.Context, mine map[runKey]sharedRun) error {
	if maps.Equal(mine, r.told) {
		return nil
	}
	err := sqltx.Run(ctx, r.config.DB, func(tx *sql.Tx) error {
		for key, one := range mine {
			if r.told[key] == one {
				continue
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO attack_runs (realm, kind, subject, node, attempts, good, last_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7)
				ON CONFLICT (realm, kind, subject, node) DO UPDATE
					SET attempts = excluded.attempts, good = excluded.good, last_at = excluded.last_at`,
				key.realm, key.kind, key.name, r.node, one.attempts, one.good, one.last.UnixMilli()); err != nil {
				return err
			}
		}
		for key := range r.told {
			if _, still := mine[key]; still {
				continue
			}
			if _, err := tx.ExecContext(ctx, `DELETE FROM attack_runs WHERE realm = $1 AND kind = $2 AND subject = $3
				AND node = $4`, key.realm, key.kind, key.name, r.node); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		r.told = mine
	}
	return err
}

// takeRun returns this node's run and resets it.
func (of *realm) takeRun(s subject) (taken run) {
	for name, one := range of.runs[s.kind].All() {
		if name == s.name {
			taken, *one = *one, run{}
		}
	}
	return taken
}
