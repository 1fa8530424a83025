package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"authguard/internal/secrets"
)

// files looks at the data folder, the secrets and the certificates.
func files(ctx context.Context, c Config) []Check {
	parts := []struct {
		name string
		do   func(context.Context, Config, *notes)
	}{{"data", dataFolder}, {"keys", keysFile}, {"tls", certificates}}
	return together(len(parts), func(i int) []Check {
		return lookAt(ctx, c.Within, parts[i].name, "", func(ctx context.Context, n *notes) { parts[i].do(ctx, c, n) })
	})
}

func dataFolder(_ context.Context, c Config, n *notes) {
	folder := c.Settings.Data
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		n.advice("data", "Nothing, before the first `authguard serve`: it makes the folder. Otherwise run this where the server runs, with its configuration.",
			"The data folder %s is not there.", folder)
		return
	case err != nil:
		n.problem("data", "Let the user who runs authguard serve into the folder.", "The data folder cannot be looked at: %s.", why(err))
		return
	case !info.IsDir():
		n.problem("data", "Move it away, or set data: to another folder.", "%s is no folder.", folder)
		return
	}
	if err := syscall.Access(folder, accessAll); err != nil {
		n.problem("data", "Run this as the user who runs authguard serve; if you do, give that user the folder: chown -R USER "+folder,
			"The data folder %s cannot be written to by whoever runs this: %v.", folder, err)
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o022 != 0:
		n.problem("data.private", "chmod 700 "+folder, "Others can replace what is in the data folder %s (mode %v).", folder, mode)
	case mode&0o077 != 0:
		n.advice("data.private", "chmod 700 "+folder, "Others can look into the data folder %s (mode %v).", folder, mode)
	default:
		n.ok("data.private", "Only its owner can use the data folder %s.", folder)
	}
	space(c, n, folder)
}

// accessAll is R_OK, W_OK and X_OK of access(2).
const accessAll = 4 | 2 | 1

func space(c Config, n *notes, folder string) {
	switch free, err := c.Free(folder); {
	case err != nil:
		n.advice("data.space", "Look with df.", "How much space is left for %s cannot be told: %v.", folder, err)
	case free < littleSpace:
		n.advice("data.space", "Make room there, or lower audit.rows and audit.keep.",
			"Only %d MiB are left on the file system of %s: when it is full, the counters and the audit log are no longer saved.", free>>20, folder)
	default:
		n.ok("data.space", "%d GiB are left on the file system of the data folder.", free>>30)
	}
}

func keysFile(_ context.Context, c Config, n *notes) {
	file := c.keysFile()
	_, err := secrets.Read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		n.advice("keys", "Nothing, before the first `authguard serve`. Otherwise copy the file of another node, or of a backup, there: with other keys counters and device cookies start anew.",
			"The keys file %s is not there; serve makes a new one.", file)
	case err != nil:
		n.problem("keys", "Make it a file that its owner alone can read (chmod 600), as `authguard serve` made it; restore it from a backup if it is damaged.",
			"The keys file cannot be used: %s.", why(err))
	default:
		n.ok("keys", "The keys file %s is good and private.", file)
	}
}
