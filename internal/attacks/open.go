package attacks

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"authguard/internal/database"
)

// OpenFor is how long after its end an attack's possibly compromised accounts count as open.
const OpenFor = 7 * 24 * time.Hour

// lostOf selects the possibly compromised accounts of the attacks a that a condition names, with the operations since
// each account's last login.
func lostOf(condition string) string {
	return `SELECT l.attack, l.account, (SELECT COUNT(*) FROM attack_operations d
			WHERE d.realm = l.realm AND d.account = l.account AND d.at >= l.last) AS done,
		(SELECT COUNT(*) FROM attack_operations d
			WHERE d.realm = l.realm AND d.account = l.account AND d.at >= l.last AND d.what <> 'password') AS done_here
		FROM (SELECT g.attack, g.account, a.realm, MAX(g.last_at) AS last FROM attacks a JOIN attack_logins g ON g.attack = a.id
			WHERE ` + condition + ` GROUP BY g.attack, g.account, a.realm HAVING MAX(g.why) <> '') AS l`
}

const openSince = `a.realm = $1 AND (a.ended_at = 0 OR a.ended_at >= $2)`

// OpenAccounts returns the number of possibly compromised accounts that are not fully secured, of the attacks of a realm
// that were running after a time. Without passwords, an account is secured if sessions and known clients are.
func (r *Recorder) OpenAccounts(ctx context.Context, realm string, since time.Time, passwords bool) (n int, err error) {
	err = r.config.DB.QueryRowContext(ctx, `SELECT COUNT(DISTINCT account) FROM (`+lostOf(openSince)+`) AS lost
		WHERE `+openIf(passwords), realm, since.UnixMilli()).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("attacks: count open accounts: %w", err)
	}
	return n, nil
}

// Unsecured returns the attacks of OpenAccounts that are over and have such accounts, newest first.
func (r *Recorder) Unsecured(ctx context.Context, realm string, since time.Time, passwords bool,
	limit int) ([]Attack, error) {
	all, err := r.attacks(ctx, r.config.DB, `WHERE ended_at > 0 AND id IN (SELECT attack FROM (`+lostOf(openSince)+
		`) AS lost WHERE `+openIf(passwords)+`) ORDER BY began_at DESC, id DESC LIMIT $3`, realm, since.UnixMilli(), limit)
	if err != nil {
		return nil, fmt.Errorf("attacks: unsecured: %w", err)
	}
	return all, nil
}

func openIf(passwords bool) string {
	if passwords {
		return "done < 3"
	}
	return "done_here < 2"
}

func countCompromised(ctx context.Context, db database.Runner, a *Attack) error {
	err := database.Each(ctx, db, func(rows *sql.Rows) error {
		return rows.Scan(&a.Lost, &a.Open, &a.OpenHere, &a.Strange)
	}, `SELECT COUNT(*), COUNT(CASE WHEN done < 3 THEN 1 END), COUNT(CASE WHEN done_here < 2 THEN 1 END),
		(SELECT COUNT(DISTINCT account) FROM attack_logins WHERE attack = $1)
		FROM (`+lostOf(`a.id = $1`)+`) AS lost`, a.ID)
	a.Strange -= a.Lost
	return err
}
