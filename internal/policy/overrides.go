// Package policy stores administrators' overrides of a realm's policy, whether limits are enforced or only monitored
// and which numbers they have, and counts the clients that each limit affected.
//
// An override replaces the configuration for all limits of a subject, or the setting enforce for the whole policy.
package policy

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/config"
	"authguard/internal/database"
)

// Whole is the LimitSet of an override for all limits.
const Whole = "all"

// An Override is an administrator's decision about the limits of a subject.
type Override struct {
	LimitSet string    `json:"limit"` // one of guard.Policy.LimitSets, or Whole
	Enforce  bool      `json:"enforce"`
	Limits   string    `json:"limits,omitempty"` // in place of the configured ones; Enforce is then not used
	Who      string    `json:"who"`
	Why      string    `json:"why"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until,omitzero"` // zero: until it is removed
}

// A Written is the configured policy.
type Written struct {
	Policy  guard.Policy
	Mode    captchamode.Config
	Enforce bool
	// Origin returns where a limit of a set is configured: "default", "authguard.yaml:12". Nil: unknown.
	Origin func(limitSet string, i int) string
}

// ForAdministrators returns the policy of the administrators' sign-in: no override applies to it.
func (w Written) ForAdministrators() (guard.Policy, captchamode.Config) {
	w.Policy.Events, w.Policy.StepUp, w.Mode.Monitor = nil, guard.StepUp{}, false // administrators have MFA
	return w.Policy, w.Mode
}

// Enforced reports whether the policy as a whole is enforced. Overrides of a subject can differ.
func (w Written) Enforced(overrides []Override) bool {
	for _, one := range overrides {
		if one.LimitSet == Whole {
			return one.Enforce
		}
	}
	return w.Enforce
}

// With returns the policy with these unexpired overrides. The error is that of an invalid policy (R8).
func (w Written) With(overrides []Override) (guard.Policy, captchamode.Config, error) {
	said, whole := map[string]guard.Override{}, guard.AsWritten
	if !w.Enforced(overrides) {
		whole = guard.Monitored
	}
	own := w.Policy
	for _, one := range overrides {
		switch {
		case one.Limits != "":
			limits, err := config.ParseLimits(one.LimitSet, one.Limits)
			if err != nil {
				return own, w.Mode, err
			}
			*own.Counted(one.LimitSet) = limits
		case one.Enforce:
			said[one.LimitSet] = guard.Enforced
		default:
			said[one.LimitSet] = guard.Monitored
		}
	}
	delete(said, Whole)
	say := func(limitSet string) guard.Override {
		if override, ok := said[limitSet]; ok {
			return override
		}
		return whole
	}
	p, mode := own.Overridden(say), w.Mode
	mode.Monitor = say(guard.ModeLimits).On(mode.Monitor)
	return p, mode, p.Validate()
}

// Enforceable drops the overrides that a changed configuration makes invalid: of single subjects, those that enforce or
// set other limits. The rest stay in force.
func (w Written) Enforceable(overrides []Override) []Override {
	if _, _, err := w.With(overrides); err == nil {
		return overrides
	}
	may := func(one Override) bool { return (one.Enforce || one.Limits != "") && one.LimitSet != Whole }
	valid := slices.DeleteFunc(slices.Clone(overrides), may)
	for _, one := range overrides {
		if _, _, err := w.With(append(slices.Clip(valid), one)); may(one) && err == nil {
			valid = append(valid, one)
		}
	}
	return valid
}

// Inherited drops other limits for sets whose limits in the route's policy are not the site's.
func (w Written) Inherited(overrides []Override, route guard.Policy) []Override {
	return slices.DeleteFunc(slices.Clone(overrides), func(one Override) bool {
		own, site := route.Counted(one.LimitSet), w.Policy.Counted(one.LimitSet)
		return one.Limits != "" && (own == nil || !slices.Equal(*own, *site))
	})
}

// A Table stores the overrides of all realms. It is safe for concurrent use.
type Table struct {
	db *sql.DB
	// Trying is held while an administrator tries other limits: a replay needs memory and time.
	Trying sync.Mutex
}

// NewTable returns a table over a migrated database.
func NewTable(db *sql.DB) *Table { return &Table{db: db} }

// Overrides returns those of a realm, including expired ones, ordered by subject.
func (t *Table) Overrides(ctx context.Context, realm string) (all []Override, err error) {
	err = database.Each(ctx, t.db, func(rows *sql.Rows) error {
		var w Override
		var enforce, since, until int64
		err := rows.Scan(&w.LimitSet, &enforce, &w.Limits, &w.Who, &w.Why, &since, &until)
		w.Enforce, w.Since, w.Until = enforce != 0, time.UnixMilli(since), database.Time(until)
		all = append(all, w)
		return err
	}, `SELECT limit_set, enforce, limits, who, why, since, until FROM policy_overrides
		WHERE realm = $1 ORDER BY limit_set`, realm)
	if err != nil {
		return nil, fmt.Errorf("policy: overrides: %w", err)
	}
	return all, nil
}

// Set sets the override of a subject, for all nodes.
func (t *Table) Set(ctx context.Context, realm string, w Override) error {
	enforce := 0
	if w.Enforce {
		enforce = 1
	}
	_, err := t.change(ctx, realm, `INSERT INTO policy_overrides (realm, limit_set, enforce, limits, who, why, since,
			until)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (realm, limit_set) DO UPDATE
			SET enforce = excluded.enforce, limits = excluded.limits, who = excluded.who, why = excluded.why,
				since = excluded.since, until = excluded.until`,
		realm, w.LimitSet, enforce, w.Limits, database.Clean(w.Who), database.Clean(w.Why), w.Since.UnixMilli(),
		database.Milliseconds(w.Until))
	return err
}

// Remove removes the override of a subject; with Whole, all of the realm.
func (t *Table) Remove(ctx context.Context, realm, limitSet string) (was bool, err error) {
	query, args := `DELETE FROM policy_overrides WHERE realm = $1 AND limit_set = $2`, []any{realm, limitSet}
	if limitSet == Whole {
		query, args = `DELETE FROM policy_overrides WHERE realm = $1`, args[:1]
	}
	rows, err := t.change(ctx, realm, query, args...)
	return rows > 0, err
}

// End deletes an expired override and reports whether this node was the first.
func (t *Table) End(ctx context.Context, realm string, w Override) (first bool, err error) {
	rows, err := t.change(ctx, realm, `DELETE FROM policy_overrides WHERE realm = $1 AND limit_set = $2 AND since = $3
		AND until = $4`,
		realm, w.LimitSet, w.Since.UnixMilli(), w.Until.UnixMilli())
	return rows > 0, err
}

func (t *Table) change(ctx context.Context, realm, query string, args ...any) (rows int64, err error) {
	err = database.InTx(ctx, t.db, func(tx *sql.Tx) error {
		if rows, err = database.Exec(ctx, tx, query, args...); err != nil {
			return err
		}
		return database.Announce(ctx, tx, database.PolicyChanged(realm))
	})
	if err != nil {
		return 0, fmt.Errorf("policy: %w", err)
	}
	return rows, nil
}
