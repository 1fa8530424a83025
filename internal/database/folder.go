package database

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gofrs/flock"
)

// LockName is the name of the lock in a data folder.
const LockName = "lock"

// LockFolder locks a data folder for this process: two servers on one folder would each count half. A second lock on
// the folder itself survives the deletion of the file; not every file system supports it.
func LockFolder(folder string) (unlock func(), err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("the data folder cannot be created: %w", err)
	}
	file, whole := flock.New(filepath.Join(folder, LockName)), flock.New(folder, flock.SetFlag(os.O_RDONLY))
	unlock = func() { _, _ = file.Close(), whole.Close() }
	mine, err := file.TryLock()
	if err == nil && mine {
		if alone, failed := whole.TryLock(); failed == nil {
			mine = alone
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the data folder cannot be used: %w", err)
	case !mine:
		unlock()
		return nil, fmt.Errorf("another server is running from %s: stop it, or set data: to another folder", folder)
	}
	return unlock, nil
}

// FolderName names the data folder of a node without Redis, unique across machines; empty if the folder does not exist.
// Containers of one machine that share a folder get the same name.
func FolderName(folder string) string {
	var is syscall.Stat_t
	if syscall.Stat(folder, &is) != nil {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		host, _ := os.Hostname()
		boot = []byte(host)
	}
	return fmt.Sprintf("%s:%d:%d", strings.TrimSpace(string(boot)), is.Dev, is.Ino)
}
