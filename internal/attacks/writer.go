package attacks

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"authguard/internal/background"
	"authguard/internal/database"
	"authguard/internal/times"
)

const (
	// writeEvery is the interval between writes, and what kill -9 loses.
	writeEvery = 2 * time.Second
	// writeWithin limits one write.
	writeWithin = 10 * time.Second
	// foldAfter is the time after an attack's end before it is summed up: other nodes still write.
	foldAfter = 20 * time.Second
	// mostOver limits the ended attacks that wait for a failed database.
	mostOver = 2000
	// announceAfter is the time after its detection before an attack on an account, from an IP address or by password
	// spraying is reported: all nodes write what led to it.
	announceAfter = 3 * writeEvery
)

// Run writes until ctx ends, and once more. A running attack stays open in the database, where the next process
// continues it. Stop the bus first.
func (r *Recorder) Run(ctx context.Context) {
	background.Save(ctx, writeEvery, r.Flush, func(err error) {
		r.config.Log.Error("attack records cannot be saved: they wait in memory", "error", err)
	})
}

// Flush writes the new counts and reads what other nodes have begun and ended.
func (r *Recorder) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	if err := r.announce(ctx); err != nil {
		return fmt.Errorf("attacks: announce: %w", err)
	}
	for _, j := range r.jobs() {
		if err := r.write(ctx, j); err != nil {
			return fmt.Errorf("attacks: write: %w", err)
		}
	}
	if err := errors.Join(r.follow(ctx), r.fold(ctx)); err != nil {
		return fmt.Errorf("attacks: write: %w", err)
	}
	return nil
}

type job struct {
	of     *running
	id     string
	saved  bool
	seen   time.Time
	ended  time.Time
	found  time.Time
	due    string // the report of a new record
	alert  int    // 1: the start on the site was reported
	partOf *running
	part   *part // nil: no new counts
	count  int64
	logins []Login
	fresh  []*kept
}

func (r *Recorder) jobs() (jobs []job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.over) - mostOver; n > 0 {
		r.config.Log.Error("attack records dropped: the database accepts no writes", "count", n)
		r.over = slices.Delete(r.over, 0, n)
	}
	for _, one := range r.all() {
		j := job{of: one, id: one.id, saved: one.exists, seen: one.seen, found: one.found, ended: one.ended, partOf: one.partOf,
			alert: btoi(one.alerted)}
		if one.subject.kind != Site || one.late || one.orphan {
			j.due = "start"
		}
		if j.count = one.count(); j.count != one.written || !one.exists {
			p := one.sum()
			j.part = &p
		}
		for _, l := range one.logins {
			if l.fresh && (len(l.Why) > 0 || !l.Last.Before(one.began)) { // a user's login before the attack is none of it
				l.fresh = false
				j.fresh = append(j.fresh, l)
				login := l.Login
				login.Why = slices.Clone(login.Why)
				j.logins = append(j.logins, login)
			}
		}
		if !j.saved || j.part != nil || len(j.logins) > 0 || !j.ended.IsZero() {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func (one *running) count() int64 { return one.tally.counts.Attempts() + one.tally.counts.Succeeded }

func (r *Recorder) write(ctx context.Context, j job) error {
	id, began, err := r.save(ctx, &j)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		for _, l := range j.fresh {
			l.fresh = true
		}
		return err
	}
	j.of.id, j.of.began, j.of.exists, j.of.written = id, began, true, j.count
	if !j.ended.IsZero() {
		r.over = slices.DeleteFunc(r.over, func(one *running) bool { return one == j.of })
	}
	return nil
}

// save writes one attack, into another node's record if that began it first.
func (r *Recorder) save(ctx context.Context, j *job) (id string, began time.Time, err error) {
	id, began = j.id, j.of.began
	err = database.InTx(ctx, r.config.DB, func(tx *sql.Tx) error {
		if id, began, err = r.begin(ctx, tx, j); err != nil {
			return err
		}
		if j.part != nil {
			if err := writePart(ctx, tx, j, id); err != nil {
				return err
			}
		}
		for _, l := range j.logins {
			if err := writeLogin(ctx, tx, id, l); err != nil {
				return err
			}
		}
		if !j.ended.IsZero() {
			partOf := ""
			if j.partOf != nil {
				partOf = j.partOf.id // only this goroutine changes it
			}
			// After a failure of the database, the start can still be due. The end follows it.
			_, err = tx.ExecContext(ctx, `UPDATE attacks SET ended_at = $1, part_of = $2,
				due = CASE WHEN due = 'start' AND CAST($2 AS TEXT) = '' THEN due ELSE 'end' END
				WHERE id = $3 AND ended_at = 0`, j.ended.UnixMilli(), partOf, id)
		}
		return err
	})
	return id, began, err
}

func (r *Recorder) begin(ctx context.Context, tx *sql.Tx, j *job) (id string, began time.Time, err error) {
	id, began = j.id, j.of.began
	if !j.saved {
		if err = resume(ctx, tx, j); err != nil {
			return id, began, err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO attacks (id, realm, kind, subject, began_at, last_at, detected_at, due,
			alerted) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING`,
			id, j.of.realm, j.of.subject.kind, database.Clean(j.of.subject.name), began.UnixMilli(), j.seen.UnixMilli(),
			j.found.UnixMilli(), j.due, max(j.alert, btoi(j.of.orphan)))
		if err != nil {
			return id, began, err
		}
		var at int64
		err = tx.QueryRowContext(ctx, `SELECT id, began_at FROM attacks WHERE realm = $1 AND kind = $2 AND subject = $3
			AND ended_at = 0`,
			j.of.realm, j.of.subject.kind, database.Clean(j.of.subject.name)).Scan(&id, &at)
		if errors.Is(err, sql.ErrNoRows) { // written before and ended, but the response was lost
			id, at, err = j.id, began.UnixMilli(), nil
		}
		if err != nil {
			return id, began, err
		}
		if theirs := time.UnixMilli(at); theirs.Before(began) {
			began = theirs
		}
	}
	_, err = tx.ExecContext(ctx, `UPDATE attacks SET last_at = CASE WHEN last_at < $1 THEN $1 ELSE last_at END,
		began_at = CASE WHEN began_at > $2 THEN $2 ELSE began_at END,
		due = CASE WHEN alerted < $3 THEN $4 ELSE due END, alerted = CASE WHEN alerted < $3 THEN $3 ELSE alerted END
			WHERE id = $5`, j.seen.UnixMilli(), began.UnixMilli(), j.alert, j.due, id)
	return id, began, err
}

// resume reopens the newest record of the last day, unless one is running.
func resume(ctx context.Context, tx *sql.Tx, j *job) (err error) {
	if j.of.resumed {
		_, err = tx.ExecContext(ctx, `UPDATE attacks SET ended_at = 0, due = CASE WHEN due = 'start' THEN due ELSE '' END,
			alerted = CASE WHEN due = '' THEN 0 ELSE alerted END
			WHERE ended_at > 0 AND id = (SELECT id FROM attacks WHERE realm = $1 AND kind = $2 AND subject = $3
				AND ended_at > $4 AND part_of = '' ORDER BY ended_at DESC LIMIT 1)
			AND NOT EXISTS (SELECT 1 FROM attacks WHERE realm = $1 AND kind = $2 AND subject = $3 AND ended_at = 0)`,
			j.of.realm, j.of.subject.kind, j.of.subject.name, j.of.began.Add(-sameFor).UnixMilli())
	}
	return err
}

func writePart(ctx context.Context, tx *sql.Tx, j *job, id string) error {
	data, err := json.Marshal(j.part)
	if err == nil {
		_, err = tx.ExecContext(ctx, `INSERT INTO attack_parts (attack, node, data) VALUES ($1, $2, $3)
			ON CONFLICT (attack, node) DO UPDATE SET data = excluded.data`,
			id, j.of.part, database.Clean(string(data)))
	}
	return err
}

func writeLogin(ctx context.Context, tx *sql.Tx, id string, l Login) error {
	_, err := tx.ExecContext(
		ctx,
		`INSERT INTO attack_logins (attack, account, address, door, why, failures, first_at,
		last_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (attack, account, address) DO UPDATE SET why =
		CASE WHEN excluded.why = '' THEN attack_logins.why ELSE excluded.why END,
		failures = CASE WHEN excluded.failures > attack_logins.failures THEN excluded.failures ELSE attack_logins.failures
		END,
		last_at = CASE WHEN excluded.last_at > attack_logins.last_at THEN excluded.last_at ELSE attack_logins.last_at END`,
		id,
		database.Clean(l.Account),
		l.Address,
		database.Clean(l.Integration),
		strings.Join(l.Why, ","),
		l.Failures,
		l.First.UnixMilli(),
		l.Last.UnixMilli(),
	)
	return err
}

// follow joins attacks that run in the database, and ends those that no longer do.
func (r *Recorder) follow(ctx context.Context) error {
	type row struct {
		id, realm   string
		subject     subject
		began, last int64
		alerted     bool
	}
	found := map[string]row{}
	err := database.Each(ctx, r.config.DB, func(rows *sql.Rows) error {
		var one row
		err := rows.Scan(&one.id, &one.realm, &one.subject.kind, &one.subject.name, &one.began, &one.last, &one.alerted)
		found[one.id] = one
		return err
	}, `SELECT id, realm, kind, subject, began_at, last_at, alerted > 0 FROM attacks WHERE ended_at = 0`)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range r.realms {
		for _, one := range of.running {
			there, ok := found[one.id]
			if one.exists && !ok {
				of.end(one, r.config.Now(), nil) // another node ended it and wrote the end
			}
			one.seen = times.Later(one.seen, time.UnixMilli(there.last))
			one.alerted = one.alerted || there.alerted
		}
	}
	for _, one := range found {
		of := r.in(one.realm)
		if of.running[one.subject] != nil ||
			slices.ContainsFunc(r.over, func(over *running) bool { return over.id == one.id }) {
			continue
		}
		of.join(one.id, one.subject, time.UnixMilli(one.began), time.UnixMilli(one.last)).alerted = one.alerted
	}
	for _, of := range r.realms {
		if site := of.running[subject{kind: Site}]; site != nil && site.alerted {
			of.absorb(site, site.seen)
		}
	}
	return nil
}

// join joins an attack that another node or an earlier process detected.
func (of *realm) join(id string, s subject, began, last time.Time) *running {
	one := of.begin(s, began, last)
	one.id, one.exists = id, true
	one.add(of.takeRun(s))
	if s.kind != Site {
		return one
	}
	for _, b := range of.back {
		if b.minute >= began.Unix()/60 {
			one.base = append(one.base, b.part())
			one.seen = times.Later(one.seen, b.last)
		}
	}
	one.written = -1 // base is not in the database yet
	return one
}

// announce reports the attacks on accounts, from IP addresses and by password spraying that any node has detected, and
// resumed attacks on the site.
func (r *Recorder) announce(ctx context.Context) error {
	found, err := r.attacks(ctx, r.config.DB, `WHERE due = 'start' AND detected_at <= $1 ORDER BY detected_at`,
		r.config.Now().Add(-announceAfter).UnixMilli())
	for i := 0; i < len(found) && err == nil; i++ {
		var n int64
		n, err = database.Exec(ctx, r.config.DB, `UPDATE attacks SET
			due = CASE WHEN ended_at > 0 THEN 'end' ELSE '' END WHERE id = $1 AND due = 'start'`, found[i].ID)
		if n == 1 {
			r.config.Began(Beginning{Attack: found[i]})
		}
	}
	return err
}

// fold sums up ended attacks once every node had time to write, and reports each once.
func (r *Recorder) fold(ctx context.Context) error {
	ended, err := r.attacks(ctx, r.config.DB, `WHERE ended_at > 0 AND ended_at < $1 AND last_at < $1
		AND id IN (SELECT id FROM attacks WHERE due = 'end' UNION SELECT attack FROM attack_parts)`,
		r.config.Now().Add(-foldAfter).UnixMilli())
	for i := 0; i < len(ended) && err == nil; i++ {
		err = r.foldOne(ctx, ended[i].Realm, ended[i].ID)
	}
	return err
}

// foldOne reads the report in the transaction that clears it: if the read fails, the report stays due.
func (r *Recorder) foldOne(ctx context.Context, realm, id string) error {
	var report *Ending
	err := database.InTx(ctx, r.config.DB, func(tx *sql.Tx) error {
		report = nil
		// Lock the row first: the second node waits, and then finds nothing due. A resumed attack is not over.
		n, err := database.Exec(ctx, tx, `UPDATE attacks SET ended_at = ended_at WHERE id = $1 AND ended_at > 0`, id)
		if err != nil || n == 0 {
			return err
		}
		var due string
		var alerted bool
		if err := tx.QueryRowContext(ctx, `SELECT due, alerted > 0 FROM attacks WHERE id = $1`,
			id).Scan(&due, &alerted); err != nil {
			return err
		}
		sum, err := partsOf(ctx, tx, id)
		if err != nil {
			return err
		}
		sum.Sketches = [dimensions][]byte{}
		data, err := json.Marshal(sum)
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE attacks SET summary = $1, due = CASE WHEN due = 'end' THEN '' ELSE due END
				WHERE id = $2`, string(data), id)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM attack_parts WHERE attack = $1`, id)
		}
		if err != nil || due != "end" {
			return err
		}
		ended, err := r.get(ctx, tx, realm, id)
		if err != nil {
			return err
		}
		victims, err := r.victims(ctx, tx, realm, id)
		report = &Ending{ended, victims, alerted}
		return err
	})
	if err == nil && report != nil {
		r.config.Ended(*report)
	}
	return err
}

// partsOf returns the sum of an attack's parts in the database, without unreadable ones.
func partsOf(ctx context.Context, db database.Runner, id string) (sum part, err error) {
	var parts []part
	err = database.Each(ctx, db, func(rows *sql.Rows) error {
		var data string
		var p part
		err := rows.Scan(&data)
		if err == nil && data != "" && json.Unmarshal([]byte(data), &p) == nil {
			parts = append(parts, p)
		}
		return err
	}, `SELECT summary FROM attacks WHERE id = $1 UNION ALL SELECT data FROM attack_parts WHERE attack = $1`, id)
	if len(parts) == 1 {
		return parts[0], err
	}
	return merge(parts...), err
}

// Purge deletes attacks that began before a time, and those beyond the newest thousand of each kind and realm. Attacks
// with and without compromised accounts are limited separately: those without cost an attacker nothing and must not
// displace the others.
func (r *Recorder) Purge(ctx context.Context, before time.Time) (rows int64, err error) {
	const lost = `EXISTS (SELECT 1 FROM attack_logins l WHERE l.attack = attacks.id AND l.why <> '')`
	delete := func(where string, args ...any) {
		var n int64
		if err == nil {
			n, err = database.Exec(ctx, r.config.DB, `DELETE FROM attacks WHERE ended_at > 0 AND `+where, args...)
		}
		rows += n
	}
	delete(`began_at < $1`, before.UnixMilli())
	for _, which := range []string{"NOT " + lost, lost} {
		delete(which+` AND id IN (SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY realm, kind
			ORDER BY began_at DESC, id) AS n
			FROM attacks WHERE ended_at > 0 AND `+which+`) AS numbered WHERE n > $1)`, mostKept)
	}
	if err == nil {
		_, err = database.Exec(ctx, r.config.DB, `DELETE FROM attack_operations WHERE at < $1`, before.UnixMilli())
	}
	if err != nil {
		err = fmt.Errorf("attacks: purge: %w", err)
	}
	return rows, err
}

// mostKept limits the attacks of each kind and realm, separately with and without compromised accounts.
const mostKept = 1000
