package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/database"
	"authguard/internal/seal"
)

func sqlite(ctx context.Context, c Config, n *notes) {
	file := c.Settings.DSN()
	db, err := database.Inspect(ctx, file)
	if errors.Is(err, fs.ErrNotExist) {
		n.ok("sqlite", "%s does not exist yet.", file)
		return
	}
	if !n.check("sqlite", fmt.Sprintf("%s can be opened and is intact.", file),
		problem(errors.Is(err, database.ErrDamaged),
			"Stop the server, move the file with its -wal and -shm files away, and restore a backup.", "is damaged: %s.",
			why(err)),
		problem(err != nil, "Let the user that runs authguard serve read and write it.", "cannot be opened: %s.", why(err))) {
		return
	}
	defer db.Close()
	denied := syscall.Access(file, 4|2) // R_OK and W_OK of access(2)
	n.check("sqlite.write", "",
		problem(denied != nil, "Run doctor as the user that runs authguard serve. If you do: chown USER "+file+
			", and mount the file system read-write.",
			"cannot be written by the present user: %v.", denied))
	if tables(ctx, db, n) {
		ownHashes(ctx, c, db, n)
	}
}

// tables checks that this program knows the tables. It reports whether they exist and are usable.
func tables(ctx context.Context, db *sql.DB, n *notes) bool {
	state, err := database.StateOf(ctx, db)
	if err == nil && state.Newer == 0 && state.Applied == 0 && !state.TooOld {
		n.ok("migrations", "has no tables yet; authguard serve creates them.")
		return false
	}
	return n.check("migrations", "has the tables of this version.",
		problem(err != nil, "Let authguard's role read the table goose_db_version; see authguard migrate.",
			"does not return its version: %s.", why(err)),
		problem(state.TooOld, "See the problem of start.", "is from an earlier build from source, which cannot be migrated."),
		problem(state.Newer > 0, "Run the newest authguard on every node, or restore the backup from before the upgrade.",
			"was used by a newer authguard (migration %d), so this version does not start with it.", state.Newer),
		advice(len(state.Missing) > 0, "Restart the server with this version: it migrates the database.",
			"is from an older authguard: %s missing.", strings.Join(state.Missing, ", ")))
}

func postgres(ctx context.Context, c Config, n *notes) {
	dsn := c.Settings.Database.Reveal()
	encryption(ctx, c, "postgres.tls", dsn, n)
	db, err := database.OpenReadOnly(ctx, dsn)
	if !n.check("postgres", "",
		problem(err != nil, "Check that the server runs, that address, role, password and TLS settings in database: are "+
			"right, and that pg_hba.conf allows this machine.",
			"cannot be used: %s.", why(err))) {
		return
	}
	defer db.Close()
	server(ctx, c, db, n)
	if tables(ctx, db, n) {
		fingerprint(ctx, c, db, n)
		writable(ctx, dsn, n)
		ownHashes(ctx, c, db, n)
	}
}

// writable inserts a session without an account and rolls it back.
func writable(ctx context.Context, dsn string, n *notes) {
	db, err := database.Open(ctx, dsn)
	if err == nil {
		defer db.Close()
		err = tryToWrite(ctx, db)
	}
	n.check("postgres.write", "can be written.",
		problem(err != nil, "Check that its disk has space, that default_transaction_read_only is off (SHOW "+
			"default_transaction_read_only), "+
			"and that authguard's role may INSERT into its tables.", "cannot be written, so every login gets 503. Error: %s.",
			why(err)))
}

func tryToWrite(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, `INSERT INTO sessions (token_hash, data, expires_at) VALUES ('authguard doctor', '', 0)`)
	return err
}

func server(ctx context.Context, c Config, db *sql.DB, n *notes) {
	var (
		number  int
		version string
		standby bool
		seconds float64
	)
	began := time.Now()
	err := db.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
		pg_is_in_recovery(), extract(epoch FROM clock_timestamp())::float8`).Scan(&number, &version, &standby, &seconds)
	rtt, now := time.Since(began), c.Now()
	if !n.check("postgres", "answers.", problem(err != nil, "Ask the database's administrator.", "does not answer: %s.",
		why(err))) {
		return
	}
	postgresVersion(n, number, version)
	n.check("postgres.standby", "",
		problem(standby, "Name the primary in database:, or add target_session_attrs=read-write with all hosts.",
			"is a standby, which cannot be written to."))
	clock(n, "postgres.clock", time.UnixMilli(int64(seconds*1000)), now, rtt)
}

func postgresVersion(n *notes, number int, version string) {
	n.check("postgres.version", fmt.Sprintf("is version %s.", version),
		problem(number < 120000, "Upgrade it to a maintained version.", "is version %s; authguard needs 12.", version))
}

func encryption(ctx context.Context, c Config, name, dsn string, n *notes) {
	ways, err := database.Ways(dsn)
	if err != nil {
		return // the check that opens it reports this
	}
	var plain string // a host on a public network that is reached unencrypted
	for _, w := range ways {
		if !w.Encrypted && c.reachOf(ctx, w.Host) == public {
			plain = w.Host
		}
	}
	n.check(name, "is reached over TLS or a private network.",
		advice(plain != "", "Add sslmode=verify-full to its URL, and sslrootcert=FILE if the system does not trust the "+
			"certificate's issuer.",
			"may be reached without TLS, and %s is not on a private network.", plain))
}

func fingerprint(ctx context.Context, c Config, db *sql.DB, n *notes) {
	file := c.Settings.KeysPath()
	keys, err := seal.Read(file)
	if err != nil {
		return // keysFile reports this
	}
	err = database.CompareKeys(ctx, db, keys, file)
	n.check("keys.shared", "uses this node's keys.",
		problem(errors.Is(err, database.ErrKeysDiffer),
			"Stop this node, copy the keys file of a node that serves this database over "+file+
				", and start it again. If that file is lost: "+
				"stop all nodes, give all of them this one, and run DELETE FROM settings WHERE name = 'keys' (this resets "+
				"counters and device cookies).",
			"was first used with other keys than those in %s, so this node would count separately and reject the challenges "+
				"and device cookies of the others.", file),
		problem(err != nil, "Let authguard's role read the table settings.",
			"does not return which keys it is used with: %s.", why(err)))
}

func queries(ctx context.Context, c Config, n *notes) {
	const (
		mend   = "Check that the database runs, that the DSN is right, and that its role may read what the queries select."
		nobody = "authguard-doctor"
	)
	a := c.Settings.Accounts
	dsn, open := a.Database.Reveal(), database.Inspect
	if ways, err := database.Ways(dsn); err != nil || len(ways) > 0 { // PostgreSQL
		encryption(ctx, c, "accounts.tls", dsn, n)
		open = database.OpenReadOnly
	}
	db, err := open(ctx, dsn)
	if !n.check("accounts.database", "", problem(err != nil, mend, "cannot be used: %s.", why(err))) {
		return
	}
	defer db.Close()
	source, err := accounts.NewSQLSource(accounts.SQLSourceConfig{DB: db, Query: a.Query, Canonical: a.CanonicalQuery})
	if err == nil {
		_, _, err = source.FindForLogin(ctx, nobody)
	}
	n.check("accounts.database", "answers the queries.",
		problem(err != nil, mend, "does not answer the queries: %s.", why(err)))
}

// clock compares a server's clock with now, this machine's time just after the answer. The server read its clock at
// some moment of the round trip.
func clock(n *notes, name string, told, now time.Time, rtt time.Duration) {
	const mend = "Synchronize both machines by NTP (timedatectl set-ntp true, or chrony)."
	off := told.Sub(now.Add(-rtt / 2))
	apart, way := max(0, off.Abs()-rtt/2).Round(time.Millisecond), "ahead of"
	if off < 0 {
		way = "behind"
	}
	n.check(name, "has the same time as this machine.",
		problem(apart > 5*time.Second, mend,
			"has a clock %v %s this machine's, so windows, known clients and alerts disagree.", apart, way),
		advice(apart > time.Second, mend, "has a clock %v %s this machine's.", apart, way))
}
