package database

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"modernc.org/sqlite" // registers the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	magic      = "SQLite format 3\x00"
	headerSize = 100
	// SQLite allows one writer; eight connections let readers continue meanwhile. More would only queue for the same lock.
	maxConnections = 8
	// checkedBytes is the largest file whose pages are all checked at start. Larger ones would take seconds, so only
	// header and size are checked.
	checkedBytes = 256 << 20
)

// damages are the result codes for a file that is not SQLite's, or is damaged.
var damages = []int{sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}

func openSQLite(ctx context.Context, path string, params url.Values) (*sql.DB, error) {
	name := (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: params.Encode()}).String()
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("database: open %s: %w", path, err)
	}
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	if err := checkPages(ctx, db, path); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// prepareFile creates the file, or checks that the existing one is a database. SQLite gives its -wal and -shm files the
// mode of the database, so setting the mode first covers all three.
func prepareFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("database: create the folder: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer file.Close()
	if err := file.Chmod(0o600); err != nil {
		return fmt.Errorf("database: make %s private: %w", path, err)
	}
	return checkHeader(path)
}

// checkHeader checks the first bytes. An empty file is a new database. SQLite itself would treat some damaged files as
// empty and write into them.
func checkHeader(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("database: %s is not a file", path)
	}
	if info.Size() == 0 {
		return nil
	}
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(file, header); err != nil || string(header[:len(magic)]) != magic {
		return fmt.Errorf("%w: %s: wrong header; move it away, or restore a backup", ErrDamaged, path)
	}
	return checkSize(path, header, info.Size())
}

// checkSize detects a truncated file. The header's page count is valid only if the two change counters agree (SQLite
// file format, 1.3.7). A file with a write-ahead log may lag behind.
func checkSize(path string, header []byte, size int64) error {
	if hasLog(path) {
		return nil
	}
	page := int64(binary.BigEndian.Uint16(header[16:]))
	if page == 1 {
		page = 1 << 16
	}
	pages := int64(binary.BigEndian.Uint32(header[28:]))
	valid := binary.BigEndian.Uint32(header[24:]) == binary.BigEndian.Uint32(header[92:])
	if valid && size < page*pages {
		return fmt.Errorf("%w: %s: %d bytes of %d are left; restore a backup", ErrDamaged, path, size, page*pages)
	}
	return nil
}

func checkPages(ctx context.Context, db *sql.DB, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	query := "SELECT 'ok' FROM (SELECT count(*) FROM sqlite_master)"
	if info.Size() <= checkedBytes {
		query = "PRAGMA quick_check(1)"
	}
	var verdict string
	err = db.QueryRowContext(ctx, query).Scan(&verdict)
	var failed *sqlite.Error
	switch {
	case errors.As(err, &failed) && slices.Contains(damages, failed.Code()&0xff):
		return fmt.Errorf("%w: %s: %w; move it away, or restore a backup", ErrDamaged, path, err)
	case err != nil:
		return fmt.Errorf("database: open %s: %w", path, err)
	case verdict != "ok":
		return fmt.Errorf("%w: %s: %s", ErrDamaged, path, verdict)
	}
	return nil
}

// Inspect opens a SQLite file that may be in use or damaged, without creating or writing anything. Its errors are
// Open's and fs.ErrNotExist. Close it soon: it may not see other processes' writes.
func Inspect(ctx context.Context, path string) (*sql.DB, error) {
	path, err := filePath(path)
	if err != nil {
		return nil, err
	}
	unused := !hasLog(path)
	db, err := openToRead(ctx, path, "busy_timeout(1000)", unused)
	if errors.Is(err, ErrDamaged) && unused && hasLog(path) { // another process has just opened it
		return openToRead(ctx, path, "busy_timeout(1000)", false)
	}
	return db, err
}

// Copy writes a consistent copy of a SQLite file that may be in use to a new, private file. Its errors are Open's and
// fs.ErrNotExist, or fs.ErrExist if the new file exists.
func Copy(ctx context.Context, from, to string) error {
	from, err := filePath(from)
	if err != nil {
		return err
	}
	if err := checkHeader(from); err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("database: copy to %s: %w", to, fs.ErrExist)
	}
	db, err := openSQLite(ctx, from, url.Values{"mode": {"rw"}, "_pragma": {"busy_timeout(10000)"}})
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", to)
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("database: copy %s: %w", from, err)
	}
	return os.Chmod(to, 0o600)
}

// hasLog reports whether the file has a write-ahead log. A file without one is not in use.
func hasLog(path string) bool {
	_, err := os.Stat(path + "-wal")
	return err == nil
}

// openToRead opens a file read-only. An unused file is declared immutable, or SQLite would create a log next to it and
// leave it there.
func openToRead(ctx context.Context, path, wait string, unused bool) (*sql.DB, error) {
	if err := checkHeader(path); err != nil {
		return nil, err
	}
	params := url.Values{"mode": {"ro"}, "_pragma": {wait, "query_only(1)"}}
	if unused {
		params.Set("immutable", "1")
	}
	return openSQLite(ctx, path, params)
}
