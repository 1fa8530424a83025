package attacks

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"authguard/internal/database"
)

const attackColumns = `id, realm, kind, subject, began_at, ended_at, last_at, part_of`

// List returns the attacks of a realm: the running ones, then the newest.
func (r *Recorder) List(ctx context.Context, realm string, skip, limit int) (all []Attack, err error) {
	all, err = r.attacks(ctx, r.config.DB, `WHERE realm = $1 ORDER BY CASE WHEN ended_at = 0 THEN 0 ELSE 1 END, began_at DESC, id DESC
		LIMIT $2 OFFSET $3`, realm, limit, skip)
	if err != nil {
		return nil, fmt.Errorf("attacks: list: %w", err)
	}
	return all, nil
}

// Current returns the running attacks of a realm, that on the whole site first.
func (r *Recorder) Current(ctx context.Context, realm string, limit int) (all []Attack, err error) {
	all, err = r.attacks(ctx, r.config.DB, `WHERE realm = $1 AND ended_at = 0 ORDER BY CASE WHEN kind = 'site' THEN 0 ELSE 1 END,
		began_at, id LIMIT $2`, realm, limit)
	if err != nil {
		return all, fmt.Errorf("attacks: running: %w", err)
	}
	return all, nil
}

const eachAtOnce = 200

// Each calls do for all attacks of a realm, newest first, until do fails. One that begins meanwhile can be missing.
func (r *Recorder) Each(ctx context.Context, realm string, do func(Attack) error) error {
	last, id := int64(math.MaxInt64), ""
	for {
		all, err := r.attacks(ctx, r.config.DB, `WHERE realm = $1 AND (began_at < $2 OR began_at = $2 AND id < $3)
			ORDER BY began_at DESC, id DESC LIMIT $4`, realm, last, id, eachAtOnce)
		if err != nil {
			return fmt.Errorf("attacks: each: %w", err)
		}
		for _, one := range all {
			if err := do(one); err != nil {
				return err
			}
			last, id = one.Began.UnixMilli(), one.ID
		}
		if len(all) < eachAtOnce {
			return nil
		}
	}
}

// Count returns the number of recorded attacks of a realm.
func (r *Recorder) Count(ctx context.Context, realm string) (n int, err error) {
	if err = r.config.DB.QueryRowContext(ctx, `SELECT COUNT(*) FROM attacks
		WHERE realm = $1`, realm).Scan(&n); err != nil {
		return 0, fmt.Errorf("attacks: count: %w", err)
	}
	return n, nil
}

// Get returns one attack of a realm, or ErrUnknown.
func (r *Recorder) Get(ctx context.Context, realm, id string) (Attack, error) {
	return r.get(ctx, r.config.DB, realm, id)
}

func (r *Recorder) get(ctx context.Context, db database.Runner, realm, id string) (Attack, error) {
	all, err := r.attacks(ctx, db, `WHERE realm = $1 AND id = $2`, realm, id)
	if err == nil && len(all) == 0 {
		err = ErrUnknown
	}
	if err != nil {
		return Attack{}, fmt.Errorf("attacks: read: %w", err)
	}
	return all[0], nil
}

func (*Recorder) attacks(ctx context.Context, db database.Runner, where string, args ...any) ([]Attack, error) {
	all := []Attack{}
	err := database.Each(ctx, db, func(rows *sql.Rows) error {
		var a Attack
		var began, ended, last int64
		err := rows.Scan(&a.ID, &a.Realm, &a.Kind, &a.Subject, &began, &ended, &last, &a.PartOf)
		a.Began, a.Last, a.Ended = time.UnixMilli(began), time.UnixMilli(last), database.Time(ended)
		all = append(all, a)
		return err
	}, `SELECT `+attackColumns+` FROM attacks `+where, args...)
	for i := range all {
		if err == nil {
			err = fill(ctx, db, &all[i])
		}
	}
	return all, err
}

func fill(ctx context.Context, db database.Runner, a *Attack) error {
	sum, err := partsOf(ctx, db, a.ID)
	if err != nil {
		return err
	}
	a.fill(sum)
	return countCompromised(ctx, db, a)
}

// Victims returns the accounts with logins from unknown clients: those after failures first, then by time.
func (r *Recorder) Victims(ctx context.Context, realm, id string) (all []Victim, err error) {
	return r.victims(ctx, r.config.DB, realm, id)
}

func (*Recorder) victims(ctx context.Context, db database.Runner, realm, id string) (all []Victim, err error) {
	at := map[string]int{}
	err = database.Each(ctx, db, func(rows *sql.Rows) error {
		var l Login
		var why string
		var first, last int64
		err := rows.Scan(&l.Account, &l.Address, &l.Integration, &why, &l.Failures, &first, &last)
		l.Why, l.First, l.Last = []string{}, time.UnixMilli(first), time.UnixMilli(last)
		if why != "" {
			l.Why = strings.Split(why, ",")
		}
		i, ok := at[l.Account]
		if !ok {
			i = len(all)
			at[l.Account], all = i, append(all, Victim{Account: l.Account, Done: []Reset{}})
		}
		all[i].Lost, all[i].Logins = all[i].Lost || why != "", append(all[i].Logins, l)
		return err
	}, `SELECT account, address, door, why, failures, first_at, last_at FROM attack_logins WHERE attack = $1
		ORDER BY first_at, account, address`, id)
	if err == nil {
		err = resets(ctx, db, realm, id, all, at)
	}
	if err != nil {
		return nil, fmt.Errorf("attacks: read logins: %w", err)
	}
	slices.SortStableFunc(all, func(a, b Victim) int { return btoi(b.Lost) - btoi(a.Lost) })
	return all, nil
}

// resets adds the operations since each account's last login.
func resets(ctx context.Context, db database.Runner, realm, id string, all []Victim, at map[string]int) error {
	return database.Each(ctx, db, func(rows *sql.Rows) error {
		var account string
		var done Reset
		var ms int64
		err := rows.Scan(&account, &done.What, &ms, &done.Who, &done.Why)
		done.At = time.UnixMilli(ms)
		if i, ok := at[account]; ok && !done.At.Before(all[i].Last()) {
			all[i].Done = append(all[i].Done, done)
		}
		return err
	}, `SELECT account, what, at, who, why FROM attack_operations
		WHERE realm = $1 AND account IN (SELECT account FROM attack_logins WHERE attack = $2) ORDER BY account,
			CASE what WHEN 'sessions' THEN 1 WHEN 'known-clients' THEN 2 ELSE 3 END`, realm, id)
}

// Done records an operation on an account.
func (r *Recorder) Done(ctx context.Context, realm, account string, done Reset) error {
	_, err := r.config.DB.ExecContext(ctx, `INSERT INTO attack_operations (realm, account, what, at, who, why)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (realm, account, what) DO UPDATE SET at = excluded.at, who = excluded.who, why = excluded.why`,
		realm, database.Clean(account), done.What, done.At.UnixMilli(), database.Clean(done.Who), database.Clean(done.Why))
	if err != nil {
		return fmt.Errorf("attacks: note what was done: %w", err)
	}
	return nil
}
