package accounts

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"authguard/guard"
	"authguard/internal/database"
	"authguard/internal/passwords"
)

const (
	// queryTime is the timeout of a lookup during a login, including the wait for a connection.
	queryTime = 3 * time.Second
	// overlap is how far back Refresh reads again. A row gets its time when its change begins, but becomes visible at
	// commit; the import of a large file takes that long.
	overlap = time.Minute
)

// Config configures a Table. DB, Normalise and Hash are required; DB must be migrated.
type Config struct {
	DB *sql.DB
	// Realm owns the accounts: the same name in two realms is two accounts. Default guard.DefaultRealm.
	Realm string
	// Normalise returns the canonical form of a name, or an error for an invalid one. It is package guard's, and
	// idempotent.
	Normalise func(string) (string, error)
	// Hash hashes a password: passwords.Checker.Hash.
	Hash func(password string) (string, error)
	// Leaked reports whether a new password is known from leaks; nil: none is.
	Leaked func(password string) bool
	Now    func() time.Time // default time.Now
}

// Table is a realm's accounts in authguard's own table. It is safe for concurrent use, even by several processes;
// Refresh updates Canonical with their changes.
type Table struct {
	config Config
	seen   atomic.Int64 // time up to which the table was read, ms

	mu        sync.RWMutex
	usernames map[string]string // by email address
}

var _ Source = (*Table)(nil)

// New reads all email addresses into memory, for Canonical. With an error the Table is unusable.
func New(ctx context.Context, config Config) (*Table, error) {
	if config.DB == nil || config.Normalise == nil || config.Hash == nil {
		return nil, errors.New("accounts: DB, a normalizer and Hash are required")
	}
	config.Realm = cmp.Or(config.Realm, guard.DefaultRealm)
	if config.Now == nil {
		config.Now = time.Now
	}
	t := &Table{config: config, usernames: make(map[string]string)}
	return t, t.Refresh(ctx)
}

// FindForLogin implements Source: by user name or email address. An invalid name is unknown.
func (t *Table) FindForLogin(ctx context.Context, name string) (Login, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var l Login
	var hash string
	var disabled bool
	var groups string
	err := t.config.DB.QueryRowContext(ctx, `SELECT id, username, COALESCE(email, ''), member_of, password_hash, disabled,
		role, must_change, needs_code, version
		FROM accounts WHERE id = (SELECT account FROM account_names WHERE realm = $1 AND name = $2)`, t.config.Realm, name).
		Scan(&l.ID, &l.Account, &l.Email, &groups, &hash, &disabled, &l.Role, &l.MustChange, &l.NeedsCode, &l.Version)
	if errors.Is(err, sql.ErrNoRows) {
		return Login{}, false, nil
	}
	if err != nil {
		return Login{}, false, fmt.Errorf("accounts: look up: %w", err)
	}
	l.Password, l.Groups = stored(hash, !disabled), foreignGroups(groups)
	if l.Email == "" && strings.Contains(l.Account, "@") {
		l.Email = l.Account
	}
	return l, true, nil
}

func stored(hash string, usable bool) passwords.Stored {
	return passwords.Stored{Hash: hash, Usable: usable && !passwords.NoPassword(hash)}
}

// EachHash calls yield with the hashes of at most most accounts of a realm. IDs are random, so it is a random sample.
func EachHash(ctx context.Context, db *sql.DB, realm string, most int, yield func(hash string)) error {
	err := database.Each(ctx, db, func(rows *sql.Rows) error {
		var hash string
		err := rows.Scan(&hash)
		yield(hash)
		return err
	}, `SELECT password_hash FROM accounts WHERE realm = $1 ORDER BY id LIMIT $2`, realm, most)
	if err != nil {
		return fmt.Errorf("accounts: read kinds of hash: %w", err)
	}
	return nil
}

// Canonical returns the user name of the account with a normalized name; the name itself if none exists. It only reads
// memory.
func (t *Table) Canonical(name string) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if username, ok := t.usernames[name]; ok {
		return username
	}
	return name
}

// Refresh reads accounts that other processes added since the last call, for Canonical. Call it whenever
// database.AccountsChanged has a new number.
func (t *Table) Refresh(ctx context.Context) error {
	now := t.config.Now().UnixMilli()
	since := min(t.seen.Load(), now) - overlap.Milliseconds()
	err := database.Each(ctx, t.config.DB, func(rows *sql.Rows) error {
		var email, username string
		err := rows.Scan(&email, &username)
		t.alias(email, username)
		return err
	}, `SELECT email, username FROM accounts WHERE realm = $1 AND changed_at >= $2
		AND email IS NOT NULL`, t.config.Realm, since)
	if err != nil {
		return fmt.Errorf("accounts: read names: %w", err)
	}
	t.seen.Store(now)
	return nil
}

func (t *Table) alias(email, username string) {
	if email == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.usernames[email] = username
}

// Get returns an account by user name or email address, or ErrUnknown.
func (t *Table) Get(ctx context.Context, name string) (Account, error) {
	name, err := t.config.Normalise(name)
	if err != nil {
		return Account{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	all, err := t.query(ctx, `WHERE id = (SELECT account FROM account_names WHERE realm = $1
		AND name = $2)`, t.config.Realm, name)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	if err != nil {
		return Account{}, err
	}
	return all[0], nil
}

// List returns at most limit accounts in byte order of their user names, starting after the given one; "" for the first
// page.
func (t *Table) List(ctx context.Context, after string, limit int) ([]Account, error) {
	return t.query(ctx, `WHERE realm = $1 AND username > $2 ORDER BY username
		LIMIT $3`, t.config.Realm, database.Clean(after), limit)
}

// Search is List for accounts with text in their user name or email address.
func (t *Table) Search(ctx context.Context, text, after string, limit int) ([]Account, error) {
	pattern := "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(database.Clean(text)) + "%"
	return t.query(ctx, `WHERE id IN (SELECT account FROM account_names WHERE realm = $1 AND name LIKE $2 ESCAPE '\')
		AND username > $3
		ORDER BY username LIMIT $4`, t.config.Realm, pattern, database.Clean(after), limit)
}

// Counts are the numbers of a realm's accounts, by state.
type Counts struct{ All, MustChange, NeedsCode, Disabled int }

// Counts counts the accounts.
func (t *Table) Counts(ctx context.Context) (n Counts, err error) {
	err = t.config.DB.QueryRowContext(ctx, `SELECT COUNT(*), COUNT(CASE WHEN must_change THEN 1 END),
		COUNT(CASE WHEN needs_code THEN 1 END), COUNT(CASE WHEN disabled THEN 1 END) FROM accounts
		WHERE realm = $1`, t.config.Realm).Scan(&n.All, &n.MustChange, &n.NeedsCode, &n.Disabled)
	if err != nil {
		err = fmt.Errorf("accounts: count: %w", err)
	}
	return n, err
}

// stateColumns are the states of InState, with their columns.
var stateColumns = map[string]string{"must-change": "must_change", "needs-code": "needs_code", "disabled": "disabled"}

// InState is List for accounts in a state: "must-change", "needs-code" or "disabled". For other states there are none.
func (t *Table) InState(ctx context.Context, state, after string, limit int) ([]Account, error) {
	column, ok := stateColumns[state]
	if !ok {
		return nil, nil
	}
	return t.query(ctx, `WHERE realm = $1 AND username > $2 AND `+column+` ORDER BY username
		LIMIT $3`, t.config.Realm, database.Clean(after), limit)
}

// Those returns the existing accounts among the user names, in no order.
func (t *Table) Those(ctx context.Context, names []string) (all []Account, err error) {
	for part := range slices.Chunk(names, 500) {
		args, list := []any{t.config.Realm}, strings.Builder{}
		for i, name := range part {
			args = append(args, database.Clean(name))
			fmt.Fprintf(&list, ", $%d", i+2)
		}
		some, err := t.query(ctx, `WHERE realm = $1 AND username IN (`+list.String()[2:]+`)`, args...)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// HasUsers reports whether an account without the administrator role exists.
func (t *Table) HasUsers(ctx context.Context) (any bool, err error) {
	err = t.config.DB.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM accounts WHERE realm = $1
		AND role = 'user')`, t.config.Realm).Scan(&any)
	if err != nil {
		return false, fmt.Errorf("accounts: read: %w", err)
	}
	return any, nil
}

// Admins returns all administrators, by name.
func (t *Table) Admins(ctx context.Context) ([]Account, error) {
	return t.query(ctx, `WHERE realm = $1 AND role = 'admin' ORDER BY username`, t.config.Realm)
}

func (t *Table) query(ctx context.Context, where string, args ...any) ([]Account, error) {
	var all []Account
	err := database.Each(ctx, t.config.DB, func(rows *sql.Rows) error {
		var a Account
		var created, changed int64
		var groups string
		err := rows.Scan(&a.ID, &a.Username, &a.Email, &groups, &a.Role, &a.Disabled, &a.MustChange, &a.NeedsCode, &a.Version,
			&created, &changed)
		a.Groups = foreignGroups(groups)
		a.CreatedAt, a.ChangedAt = time.UnixMilli(created), time.UnixMilli(changed)
		all = append(all, a)
		return err
	}, `SELECT id, username, COALESCE(email, ''), member_of, role, disabled, must_change, needs_code, version, created_at,
		changed_at FROM accounts `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("accounts: read: %w", err)
	}
	return all, nil
}

// MaxGroups is the maximum number of an account's groups: forward auth sends all of them in one header.
const MaxGroups = 50

// groupPattern matches names that every gateway, log and comma-separated list can hold.
var groupPattern = regexp.MustCompile(`^[A-Za-z0-9._@:/+-]{1,64}$`)

// ParseGroups parses the groups of an account in authguard's table, separated by commas, semicolons or spaces. It sorts
// them and removes duplicates. The error is ErrGroup.
func ParseGroups(text string) ([]string, error) {
	all := groupsOf(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",; \t", r) }))
	for _, name := range all {
		if !groupPattern.MatchString(name) {
			return nil, fmt.Errorf("%w: %.70q; write 1 to 64 letters, digits and ._@:/+-", ErrGroup, name)
		}
	}
	if len(all) > MaxGroups {
		return nil, fmt.Errorf("%w: %d are too many: an account may be in %d", ErrGroup, len(all), MaxGroups)
	}
	return all, nil
}

// foreignGroups parses the groups of another program's account, separated by commas. Names may contain spaces and any
// letters; it drops those with control characters.
func foreignGroups(text string) []string {
	all := strings.Split(text, ",")
	for i, name := range all {
		if all[i] = strings.TrimSpace(name); !printable(name) {
			all[i] = ""
		}
	}
	return groupsOf(all)
}

func groupsOf(names []string) []string {
	all := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
	slices.Sort(all)
	return slices.Compact(all)
}

// printable reports whether a text is valid in a header.
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}
