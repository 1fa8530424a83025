package database

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// ErrUnreachable means that PostgreSQL did not answer or rejected the login.
var ErrUnreachable = errors.New("database: PostgreSQL cannot be used")

// Timeouts of a connection. A DSN may change the first two, as connect_timeout (seconds) and statement_timeout
// (milliseconds).
const (
	connectWithin   = 5 * time.Second
	statementWithin = 8 * time.Second
	// overhead is how long after its statement's limit an answer may arrive before the server or network counts as dead.
	overhead = 2 * time.Second
	// idleInTransaction ends transactions of a hung node, which may hold a row lock that all other nodes wait for.
	idleInTransaction = 10 * time.Second
)

// Sixteen connections keep six nodes below PostgreSQL's default limit of 100. Renewing connections gives a replaced
// server behind the same name its share, and applies changed settings (ALTER ROLE, ALTER DATABASE) to all of them.
const (
	postgresConnections = 16
	connectionIdle      = time.Minute
	connectionLife      = 5 * time.Minute
)

func isPostgres(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// IsPostgres reports whether a database is PostgreSQL, for the few statements that must differ. It does not query the
// server.
func IsPostgres(db *sql.DB) bool {
	_, ok := db.Driver().(*stdlib.Driver)
	return ok
}

func openPostgres(ctx context.Context, dsn string, readOnly bool) (*sql.DB, error) {
	config, err := parsePostgres(dsn)
	if err != nil {
		return nil, err
	}
	if readOnly {
		config.RuntimeParams["default_transaction_read_only"] = "on"
	}
	db := stdlib.OpenDB(*config, stdlib.OptionShouldPing(config.Tracer.(patience).dead), stdlib.OptionResetSession(unfit))
	db.SetMaxOpenConns(postgresConnections)
	db.SetMaxIdleConns(postgresConnections)
	db.SetConnMaxIdleTime(connectionIdle)
	db.SetConnMaxLifetime(connectionLife)
	ctx, cancel := context.WithTimeout(ctx, config.ConnectTimeout+overhead)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("%w: %s, database %s: %w", ErrUnreachable,
			net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))), config.Database, scrub(err, config.Password))
	}
	return db, nil
}

// parsePostgres parses a DSN. Its errors never contain the DSN: the wrong part may belong to the password.
func parsePostgres(dsn string) (*pgx.ConnConfig, error) {
	if err := checkURL(dsn); err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return nil, fmt.Errorf("database: the PostgreSQL URL cannot be used: %w", scrub(err, secretsOf(dsn)...))
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectWithin
	}
	for name, value := range map[string]string{
		"application_name":                    "authguard",
		"statement_timeout":                   milliseconds(statementWithin),
		"idle_in_transaction_session_timeout": milliseconds(idleInTransaction),
	} {
		config.RuntimeParams[name] = cmp.Or(config.RuntimeParams[name], value)
	}
	ms, err := strconv.Atoi(config.RuntimeParams["statement_timeout"])
	if err != nil || ms < 1 || ms > 3_600_000 {
		return nil, errors.New("database: statement_timeout: must be a number of milliseconds, from 1 to 3600000")
	}
	config.Tracer = patience(time.Duration(ms)*time.Millisecond + overhead)
	return config, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// checkURL rejects a URL that parses, but not as intended. In postgres://u:12/34@host/db the host is "u", and an error
// about it would reveal half of the password.
func checkURL(dsn string) error {
	u, err := url.Parse(dsn)
	if err == nil && u.Fragment == "" && (strings.Count(dsn, "@") == 0 || strings.Count(dsn, "@") == 1 && u.User != nil) {
		return nil
	}
	return errors.New("database: the PostgreSQL URL cannot be read; write postgres://user:password@host:5432/database, " +
		"with each of : / ? # [ ] @ % in the password written as %3A %2F %3F %23 %5B %5D %40 %25")
}

func secretsOf(dsn string) (all []string) {
	if u, err := url.Parse(dsn); err == nil {
		password, _ := u.User.Password()
		_, raw, _ := strings.Cut(u.User.String(), ":")
		all = append(all, password, raw, u.Query().Get("password"), u.Query().Get("sslpassword"))
	}
	return all
}

// scrub removes secrets from the text of an error. errors.Is and errors.As still find the original.
func scrub(err error, secrets ...string) error {
	text := err.Error()
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	if text == err.Error() {
		return err
	}
	return scrubbed{text, err}
}

type scrubbed struct {
	text string
	err  error
}

func (s scrubbed) Error() string { return s.text }
func (s scrubbed) Unwrap() error { return s.err }

// patience limits the time from a statement to the end of its answer. A live server ends long statements itself; this
// limit catches a dead or unreachable one. Without it, a query waits a quarter of an hour until the kernel gives up. It
// is a pgx.QueryTracer because pgx runs each statement with the context that its tracer returns.
type patience time.Duration

type cancelKey struct{}

// TraceQueryStart implements pgx.QueryTracer.
func (p patience) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p))
	return context.WithValue(ctx, cancelKey{}, cancel)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (p patience) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, end pgx.TraceQueryEndData) {
	ctx.Value(cancelKey{}).(context.CancelFunc)()
	if failed := new(pgconn.PgError); errors.As(end.Err, &failed) && failed.Code == readOnlyState {
		conn.PgConn().CustomData()[readOnlyState] = true
	}
}

// readOnlyState is read_only_sql_transaction. A connection made to a standby, or to a read-only server or role, stays
// read-only after the server becomes writable. It must not be reused.
const readOnlyState = "25006"

// unfit makes the pool drop such a connection.
func unfit(_ context.Context, conn *pgx.Conn) error {
	if conn.PgConn().CustomData()[readOnlyState] != nil {
		return driver.ErrBadConn
	}
	return nil
}

// dead pings a connection that was idle for a second. pgx's own ping is not a statement, so it would wait forever. An
// unanswered ping closes the connection; true then makes pgx's ping fail at once and drop it.
func (p patience) dead(ctx context.Context, params stdlib.ShouldPingParams) bool {
	if params.IdleDuration < time.Second {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p))
	defer cancel()
	return params.Conn.Ping(ctx) != nil
}

// ServerTime returns PostgreSQL's clock.
func ServerTime(ctx context.Context, db *sql.DB) (time.Time, error) {
	var micros int64
	err := db.QueryRowContext(ctx, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`).Scan(&micros)
	if err != nil {
		return time.Time{}, fmt.Errorf("database: ask for the time: %w", err)
	}
	return time.UnixMicro(micros), nil
}

// ErrReadOnly means that PostgreSQL does not let authguard write.
var ErrReadOnly = errors.New("database: PostgreSQL is read-only. Name the primary in database:, " +
	"or turn default_transaction_read_only off")

// Writable returns ErrReadOnly if transactions are read-only. It writes nothing; SQLite has no such setting.
func Writable(ctx context.Context, db *sql.DB) error {
	if !IsPostgres(db) {
		return nil
	}
	var readOnly string
	if err := db.QueryRowContext(ctx, `SHOW transaction_read_only`).Scan(&readOnly); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if readOnly == "on" {
		return ErrReadOnly
	}
	return nil
}

// Unhurried returns another pool of the same database without a statement timeout, for migrations and large imports.
// Never use it while a user waits to log in. Call done afterwards. For SQLite it returns db itself.
func Unhurried(ctx context.Context, db *sql.DB) (slow *sql.DB, done func(), err error) {
	if !IsPostgres(db) {
		return db, func() {}, nil
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("database: %w", err)
	}
	defer conn.Close()
	err = conn.Raw(func(driver any) error {
		config := driver.(*stdlib.Conn).Conn().Config()
		config.Tracer = nil
		config.RuntimeParams["statement_timeout"] = "0"
		slow = stdlib.OpenDB(*config)
		return nil
	})
	return slow, func() { _ = slow.Close() }, err
}

// Way is one way to connect that a PostgreSQL DSN allows.
type Way struct {
	Host      string // an address, a name, or a folder of sockets: /run/postgresql
	Encrypted bool
}

// Ways lists the ways of a DSN in the order in which they are tried: sslmode=prefer, for example, falls back to an
// unencrypted connection. SQLite has none.
func Ways(dsn string) ([]Way, error) {
	if !isPostgres(dsn) {
		return nil, nil
	}
	config, err := parsePostgres(dsn)
	if err != nil {
		return nil, err
	}
	ways := []Way{{config.Host, config.TLSConfig != nil}}
	for _, f := range config.Fallbacks {
		ways = append(ways, Way{f.Host, f.TLSConfig != nil})
	}
	return ways, nil
}
