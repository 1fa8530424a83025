package database

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	magic      = "SQLite format 3\x00"
	headerSize = 100
)

// prepareFile creates the file, or makes sure that what is there is a database.
// SQLite gives its -wal and -shm files the mode of the database, so setting it
// here, before SQLite sees the file, covers all three.
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

// checkHeader looks at the first bytes. An empty file is a new database. SQLite
// itself would treat some broken files as empty ones and write into them.
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

// checkSize notices a file that was cut short. The page count in the header is
// valid only if the two change counters agree (SQLite file format, 1.3.7), and
// with a write-ahead log beside it the file may lag behind.
func checkSize(path string, header []byte, size int64) error {
	if _, err := os.Stat(path + "-wal"); err == nil {
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

func explain(path string, err error) error {
	var failed *sqlite.Error
	if errors.As(err, &failed) {
		switch failed.Code() & 0xff {
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			return fmt.Errorf("%w: %s: %w; move it away, or restore a backup", ErrDamaged, path, err)
		}
	}
	return fmt.Errorf("database: open %s: %w", path, err)
}
