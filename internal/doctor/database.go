package doctor

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"strings"
	"time"

	"authguard/internal/database"
	"authguard/internal/secrets"
)

// patience is how much longer than anything else a SQLite file may take: all
// its pages are read.
const patience = 6

// databases looks at authguard's own.
func databases(ctx context.Context, c Config) []Check {
	if c.Settings.Database != "" {
		return lookAt(ctx, c.Within, "postgres", "PostgreSQL", func(ctx context.Context, n *notes) { postgres(ctx, c, n) })
	}
	return lookAt(ctx, patience*c.Within, "sqlite", "The database", func(ctx context.Context, n *notes) { sqlite(ctx, c, n) })
}

func sqlite(ctx context.Context, c Config, n *notes) {
	file := c.sqliteFile()
	db, err := database.Inspect(ctx, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		n.ok("sqlite", "%s is not there yet: serve makes it.", file)
		return
	case errors.Is(err, database.ErrDamaged):
		n.problem("sqlite", "Stop the server, move the file away with its -wal and -shm, and restore a backup.", "is damaged: %s.", why(err))
		return
	case err != nil:
		n.problem("sqlite", "Let the user who runs authguard serve read and write it.", "cannot be opened: %s.", why(err))
		return
	}
	defer db.Close()
	n.ok("sqlite", "%s opens and is not damaged.", file)
	tables(ctx, db, n)
}

// tables looks whether they are those that this program knows.
func tables(ctx context.Context, db *sql.DB, n *notes) (good bool) {
	state, err := database.StateOf(ctx, db)
	switch {
	case err != nil:
		n.problem("migrations", "Let authguard's role read the table goose_db_version; see `authguard migrate`.", "does not tell its version: %s.", why(err))
	case state.Newer > 0:
		n.problem("migrations", "Run the newest authguard on every node, or restore the backup from before the update.",
			"was used by a newer authguard (migration %d): this one refuses to serve from it.", state.Newer)
	case state.Applied == 0:
		n.ok("migrations", "has no tables yet: serve makes them.")
	case len(state.Missing) > 0:
		n.advice("migrations", "Restart the server with this program: it migrates by itself.",
			"is of an older authguard: %s missing.", strings.Join(state.Missing, ", "))
	default:
		n.ok("migrations", "has the tables of this version.")
		return true
	}
	return false
}

const (
	oldestPostgres     = 120000
	oldestPostgresName = "12"
)

func postgres(ctx context.Context, c Config, n *notes) {
	dsn := c.Settings.Database.Reveal()
	encryption(ctx, c, "postgres.tls", dsn, n)
	db, err := database.OpenReadOnly(ctx, dsn)
	if err != nil {
		n.problem("postgres", "See that the server runs, that the address, role, password and TLS settings of database: are right, and that pg_hba.conf lets this machine in.",
			"cannot be used: %s.", why(err))
		return
	}
	defer db.Close()
	server(ctx, c, db, n)
	if tables(ctx, db, n) {
		fingerprint(ctx, c, db, n)
	}
}

// server asks PostgreSQL about itself.
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
	if err != nil {
		n.problem("postgres", "Ask its administrator.", "does not answer: %s.", why(err))
		return
	}
	n.ok("postgres", "answers.")
	postgresVersion(n, number, version)
	if standby {
		n.problem("postgres.standby", "Name the primary in database:, or add target_session_attrs=read-write with all hosts.", "is a standby, which cannot be written to.")
	}
	clock(n, "postgres.clock", offset(time.UnixMilli(int64(seconds*1000)), now, rtt), rtt)
}

func postgresVersion(n *notes, number int, version string) {
	if number < oldestPostgres {
		n.problem("postgres.version", "Update it to a version that is still maintained.", "is version %s; authguard needs %s.", version, oldestPostgresName)
		return
	}
	n.ok("postgres.version", "is version %s.", version)
}

// encryption looks whether somebody on the way could read the passwords'
// hashes.
func encryption(ctx context.Context, c Config, name, dsn string, n *notes) {
	ways, err := database.Ways(dsn)
	if err != nil {
		return // opening it says so
	}
	for _, w := range ways {
		if !w.Encrypted && c.reachOf(ctx, w.Host) == public {
			n.advice(name, "Add sslmode=verify-full to its URL, and sslrootcert=FILE if the system does not know who signed the certificate.",
				"may be talked to without encryption, and %s is on no private network.", w.Host)
			return
		}
	}
	n.ok(name, "is talked to with encryption, or on a network of one's own.")
}

// fingerprint looks whether this node's keys are those of the others.
func fingerprint(ctx context.Context, c Config, db *sql.DB, n *notes) {
	file := c.keysFile()
	keys, err := secrets.Read(file)
	if err != nil {
		return // files says so
	}
	switch err := secrets.Compare(ctx, db, keys, file); {
	case errors.Is(err, secrets.ErrDiffer):
		n.problem("keys.shared", "Stop this node, copy the keys file of a node that serves this database over "+file+", and start it again. If that file is lost: "+
			"stop all nodes, give all of them this one, and run DELETE FROM settings WHERE name = 'keys' (counters and device cookies start anew).",
			"was first used with other keys than those in %s: this node would count by itself, and refuse the challenges and device cookies of the others.", file)
	case err != nil:
		n.problem("keys.shared", "Let authguard's role read the table settings.", "does not tell which keys it is used with: %s.", why(err))
	default:
		n.ok("keys.shared", "is used with this node's keys.")
	}
}
