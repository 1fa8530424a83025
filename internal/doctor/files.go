package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"syscall"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/lists"
	"authguard/internal/secrets"
)

const (
	fewDescriptors = 4096
	littleSpace    = 1 << 30
	noSpace        = 1 << 20
	accessAll      = 4 | 2 | 1 // R_OK, W_OK and X_OK of access(2)
)

// machine checks the limits that the system sets a process.
func machine(_ context.Context, c Config, n *notes) {
	most, err := c.Descriptors()
	n.check("machine.files", fmt.Sprintf("A process may have %d files and connections open.", most),
		advice(err != nil, "Nothing, if this system has no such limit.",
			"How many files and connections a process may have open cannot be told: %v.", err),
		advice(most < fewDescriptors, "Raise it for the server: LimitNOFILE=65536 in the systemd unit, or ulimit -n 65536 before it starts.",
			"A process may have only %d files and connections open here: every client needs one, so an attack uses them up.", most))
}

func dataFolder(_ context.Context, c Config, n *notes) {
	folder := c.Settings.Data
	info, err := os.Stat(folder)
	if !n.check("data", "",
		advice(errors.Is(err, fs.ErrNotExist), "Nothing, before the first `authguard serve`: it makes the folder. Otherwise run this where the server runs, with its configuration.",
			"The data folder %s is not there.", folder),
		problem(err != nil, "Let the user who runs authguard serve into the folder.", "The data folder cannot be looked at: %s.", why(err)),
		problem(err == nil && !info.IsDir(), "Move it away, or set data: to another folder.", "%s is not a folder.", folder)) {
		return
	}
	denied := syscall.Access(folder, accessAll)
	n.check("data", "",
		problem(denied != nil, "Run this as the user who runs authguard serve; if you do, give that user the folder: chown -R USER "+folder,
			"The user who runs this cannot write to the data folder %s: %v.", folder, denied))
	mode := info.Mode().Perm()
	n.check("data.private", fmt.Sprintf("Only its owner can use the data folder %s.", folder),
		problem(mode&0o022 != 0, "chmod 700 "+folder, "Others can replace what is in the data folder %s (mode %v).", folder, mode),
		advice(mode&0o077 != 0, "chmod 700 "+folder, "Others can look into the data folder %s (mode %v).", folder, mode))
	free, err := c.Free(folder)
	n.check("data.space", fmt.Sprintf("%d GiB are left on the file system of the data folder.", free>>30),
		advice(err != nil, "Look with df.", "How much space is left for %s cannot be told: %v.", folder, err),
		problem(err == nil && free < noSpace, "Make room there; then lower audit.max_size and audit.retention.",
			"The file system of the data folder %s is full (%d KiB are left): nobody can log in, and counters are not saved.", folder, free>>10),
		advice(free < littleSpace, "Make room there, or lower audit.max_size and audit.retention.",
			"Only %d MiB are left on the file system of %s: when it is full, the counters and the audit log are no longer saved.", free>>20, folder))
}

func keysFile(_ context.Context, c Config, n *notes) {
	file := c.keysFile()
	_, err := secrets.Read(file)
	n.check("keys", fmt.Sprintf("The keys file %s is good and private.", file),
		advice(errors.Is(err, fs.ErrNotExist), "Nothing, before the first `authguard serve`. Otherwise copy the file of another node, or of a backup, there: with other keys counters and device cookies start anew.",
			"The keys file %s is not there.", file),
		problem(err != nil, "Make it a file that its owner alone can read (chmod 600), as `authguard serve` made it; restore it from a backup if it is damaged.",
			"The keys file cannot be used: %s.", why(err)))
}

func htpasswd(_ context.Context, c Config, n *notes) {
	a, normalise := c.Settings.Accounts, guard.NormaliseAccount
	if a.CaseSensitive {
		normalise = guard.NormaliseExact
	}
	source, err := accounts.NewHtpasswdSource(a.Htpasswd, normalise, nil, slog.New(slog.DiscardHandler))
	if n.check("accounts.htpasswd", fmt.Sprintf("The accounts in %s can be read.", a.Htpasswd),
		problem(err != nil, "Mend the file, or let the user who runs authguard serve read it, before the next restart.",
			"%s cannot be used: %s. A server that runs goes on with what it read before; a restart would fail.",
			a.Htpasswd, badLines(err))) {
		hashes(n, source.Census(), a.Htpasswd, "")
	}
}

// listFiles reads the files of the named lists.
func listFiles(_ context.Context, c Config, n *notes) {
	for _, s := range c.Settings.Sources() {
		l, err := lists.Read(s)
		first := lists.LineProblem{}
		if len(l.Problems) > 0 {
			first = l.Problems[0]
		}
		n.check("lists."+s.Name, fmt.Sprintf("The list %s has %d ranges in %s.", s.Name, len(l.Ranges), s.File),
			problem(err != nil, "Mend the file, or let the user who runs authguard serve read it. Write a new one beside it and move it there.",
				"The list %s: %s cannot be used: %s. A server that runs goes on with what it read before; after a restart the list is empty.", s.Name, s.File, why(err)),
			advice(l.BadLines > 0, "Mend the lines, or choose the format that the file has.",
				"The list %s: %d of the lines in %s are bad; line %d: %s.", s.Name, l.BadLines, s.File, first.Line, first.Text),
			advice(len(l.Ranges) == 0, "Nothing, if that is as it should be.", "The list %s: %s holds no range.", s.Name, s.File),
			advice(len(l.Private) > 0, "Take those lines out, unless they are meant: proxies and machines of your own have such addresses.",
				"The list %s holds private addresses: %v.", s.Name, l.Private))
	}
}

// badLines is why(err), or the first of the bad lines if that is what is wrong.
func badLines(err error) string {
	bad := new(accounts.ImportError)
	if !errors.As(err, &bad) {
		return why(err)
	}
	first, more := bad.Problems[0], len(bad.Problems)+bad.More-1
	text := fmt.Sprintf("line %d: %s", first.Line, first.Text)
	if more > 0 {
		text += fmt.Sprintf(", and %d more bad lines", more)
	}
	return text
}

// tlsFiles are the files that one setting names.
type tlsFiles struct {
	setting       string
	ca, cert, key string
}

// certificates checks every certificate file that the settings name.
func certificates(_ context.Context, c Config, n *notes) {
	r := c.Settings.Redis
	tlsFiles{"redis", r.TLSCA, r.TLSCert, r.TLSKey}.look(c, n)
	ofDSN("database", c.Settings.Database.Reveal()).look(c, n)
	tlsFiles{setting: "accounts.ldap", ca: c.Settings.Accounts.LDAP.TLSCA}.look(c, n)
	ofDSN("accounts.database", c.Settings.Accounts.Database.Reveal()).look(c, n)
}

// ofDSN are the files that a PostgreSQL URL names.
func ofDSN(setting, dsn string) tlsFiles {
	u, err := url.Parse(dsn)
	if err != nil {
		return tlsFiles{setting: setting}
	}
	q := u.Query()
	f := tlsFiles{setting, q.Get("sslrootcert"), q.Get("sslcert"), q.Get("sslkey")}
	if f.ca == "system" {
		f.ca = ""
	}
	return f
}

func (f tlsFiles) look(c Config, n *notes) {
	f.valid(c, n, f.ca)
	f.valid(c, n, f.cert)
	if f.key == "" {
		return
	}
	var mode fs.FileMode
	if info, err := os.Stat(f.key); err == nil {
		mode = info.Mode().Perm()
	}
	n.check("tls", "", advice(mode&0o037 != 0, "chmod 600 "+f.key, "%s: others can use the key %s (mode %v).", f.setting, f.key, mode))
	_, err := tls.LoadX509KeyPair(f.cert, f.key)
	n.check("tls", "",
		problem(err != nil, "Name a certificate and the key that belongs to it, as PEM files that the user who runs authguard serve can read.",
			"%s: the certificate %s and the key %s cannot be used together: %s.", f.setting, f.cert, f.key, why(err)))
}

// valid checks the dates of every certificate in a file.
func (f tlsFiles) valid(c Config, n *notes, file string) {
	const soon = 14 * 24 * time.Hour
	if file == "" {
		return
	}
	all, err := readCertificates(file)
	if !n.check("tls", "",
		problem(err != nil, "Name a PEM file that the user who runs authguard serve can read.", "%s: %s cannot be read: %s.", f.setting, file, why(err)),
		problem(len(all) == 0, "Name a PEM file with a certificate.", "%s: %s holds no certificate.", f.setting, file)) {
		return
	}
	now, about := c.Now(), fmt.Sprintf("%s: a certificate in %s", f.setting, file)
	for _, one := range all {
		from, until := one.NotBefore.UTC().Format(time.DateTime), one.NotAfter.UTC().Format(time.DateTime)
		n.check("tls", fmt.Sprintf("%s is valid until %s UTC.", about, until),
			problem(now.After(one.NotAfter), "Renew it and restart the server.", "%s expired at %s UTC.", about, until),
			problem(now.Before(one.NotBefore), "Set this machine's clock, or wait.", "%s is not valid before %s UTC.", about, from),
			advice(now.Add(soon).After(one.NotAfter), "Renew it and restart the server.", "%s expires at %s UTC.", about, until))
	}
}

func readCertificates(file string) (all []*x509.Certificate, err error) {
	text, err := os.ReadFile(file)
	for block, rest := pem.Decode(text); err == nil && block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		var one *x509.Certificate
		one, err = x509.ParseCertificate(block.Bytes)
		all = append(all, one)
	}
	return all, err
}
