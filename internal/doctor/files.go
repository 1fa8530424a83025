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
	"authguard/internal/passwords"
	"authguard/internal/seal"
	"authguard/internal/times"
)

const (
	fewDescriptors = 4096
	littleSpace    = 1 << 30
	noSpace        = 1 << 20
	accessAll      = 4 | 2 | 1 // R_OK, W_OK and X_OK of access(2)
)

// machine checks the limits of a process.
func machine(_ context.Context, c Config, n *notes) {
	most, err := c.Descriptors()
	n.check("machine.files", fmt.Sprintf("The limit on open files and connections is %d.", most),
		advice(err != nil, "No action is needed if this system has no such limit.",
			"The limit on open files and connections cannot be read: %v.", err),
		advice(most < fewDescriptors, "Raise it for the server: LimitNOFILE=65536 in the systemd unit, or ulimit -n 65536 "+
			"before the start.",
			"The limit on open files and connections is only %d. Every client needs one, so an attack can exhaust them.", most))
}

func dataFolder(_ context.Context, c Config, n *notes) {
	folder := c.Settings.Data
	info, err := os.Stat(folder)
	if !n.check("data", "",
		advice(errors.Is(err, fs.ErrNotExist),
			"No action is needed before the first authguard serve, which creates it. Otherwise run doctor on the server's "+
				"machine, with its configuration.",
			"The data folder %s does not exist.", folder),
		problem(err != nil, "Let the user that runs authguard serve read the folder.", "The data folder cannot be read: %s.",
			why(err)),
		problem(err == nil && !info.IsDir(), "Move it away, or set data: to another folder.", "%s is not a folder.",
			folder)) {
		return
	}
	denied := syscall.Access(folder, accessAll)
	n.check("data", "",
		problem(denied != nil, "Run doctor as the user that runs authguard serve. If you do, give that user the folder: "+
			"chown -R USER "+folder,
			"The present user cannot write to the data folder %s: %v.", folder, denied))
	mode := info.Mode().Perm()
	n.check("data.private", fmt.Sprintf("The data folder %s is private.", folder),
		problem(mode&0o022 != 0, "chmod 700 "+folder, "Other users can change the data folder %s (mode %v).", folder, mode),
		advice(mode&0o077 != 0, "chmod 700 "+folder, "Other users can list the data folder %s (mode %v).", folder, mode))
	free, err := c.Free(folder)
	n.check("data.space", fmt.Sprintf("%d GiB are free on the file system of the data folder.", free>>30),
		advice(err != nil, "Check with df.", "The free space of %s cannot be read: %v.", folder, err),
		problem(err == nil && free < noSpace, "Free disk space, then lower audit.max_rows and audit.retention.",
			"The file system of the data folder %s is full (%d KiB free): logins get 503 once a write fails, and counters are "+
				"not saved.",
			folder, free>>10),
		advice(free < littleSpace, "Free disk space, or lower audit.max_rows and audit.retention.",
			"Only %d MiB are free on the file system of %s. Once it is full, counters and the audit log are no longer saved.",
			free>>20, folder))
}

func keysFile(_ context.Context, c Config, n *notes) {
	file := c.Settings.KeysPath()
	_, err := seal.Read(file)
	n.check("keys", fmt.Sprintf("The keys file %s is valid and private.", file),
		advice(errors.Is(err, fs.ErrNotExist),
			"No action is needed before the first authguard serve. Otherwise restore it from a backup or another node: new "+
				"keys reset counters and device cookies.",
			"The keys file %s does not exist.", file),
		problem(err != nil, "Make it readable by its owner only (chmod 600). If it is damaged, restore it from a backup.",
			"The keys file cannot be used: %s.", why(err)))
}

func htpasswd(_ context.Context, c Config, n *notes) {
	a, normalise := c.Settings.Accounts, guard.NormaliseAccount
	if a.CaseSensitive {
		normalise = guard.NormaliseExact
	}
	source, err := accounts.NewHtpasswdSource(a.Htpasswd, normalise, slog.New(slog.DiscardHandler))
	if n.check("accounts.htpasswd", fmt.Sprintf("The accounts in %s can be read.", a.Htpasswd),
		problem(err != nil, "Fix the file, or let the user that runs authguard serve read it, before the next restart.",
			"%s cannot be used: %s. A running server keeps its previous version; a restart would fail.",
			a.Htpasswd, badLines(err))) {
		count := census{}
		for _, hash := range source.Hashes() {
			count.add(hash)
		}
		count.write(n, a.Htpasswd, "")
	}
}

func listFiles(_ context.Context, c Config, n *notes) {
	for _, s := range c.Settings.Sources() {
		l, err := lists.Read(s)
		first := lists.LineProblem{}
		if len(l.Problems) > 0 {
			first = l.Problems[0]
		}
		n.check("lists."+s.Name, fmt.Sprintf("The list %s has %d ranges in %s.", s.Name, len(l.Ranges), s.File),
			problem(err != nil, "Fix the file, or let the user that runs authguard serve read it. Replace it by moving a new "+
				"one over it.",
				"The list %s: %s cannot be used: %s. A running server keeps its previous version; after a restart the list is "+
					"empty.", s.Name, s.File, why(err)),
			advice(l.BadLines > 0, "Fix the lines, or set the file's format.",
				"The list %s: %d of the lines in %s are bad; line %d: %s.", s.Name, l.BadLines, s.File, first.Line, first.Text),
			advice(len(l.Ranges) == 0, "No action is needed if that is intended.", "The list %s: %s contains no range.", s.Name,
				s.File),
			advice(len(l.Private) > 0, "Remove these lines unless they are intended: your own proxies and machines have such "+
				"addresses.",
				"The list %s contains private addresses: %v.", s.Name, l.Private))
	}
}

func leakedPasswords(_ context.Context, c Config, n *notes) {
	file := c.Settings.Passwords.Leaked.File
	list, err := passwords.ReadLeaked(file)
	if err != nil {
		n.check("leaked", "", problem(true, "Build it again with authguard password-list build, or let the user that runs "+
			"authguard serve read it.", "passwords.leaked.file: %s cannot be used: %s. A running server keeps its previous "+
			"version; after a restart there is none.", file, why(err)))
		return
	}
	n.check("leaked", fmt.Sprintf("The list %s has %d leaked passwords.", file, list.Passwords()))
}

// badLines describes the first bad line of an ImportError; for other errors it is why.
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

type tlsFiles struct {
	setting       string
	ca, cert, key string
}

func certificates(_ context.Context, c Config, n *notes) {
	r := c.Settings.Redis
	tlsFiles{"redis", r.TLSCA, r.TLSCert, r.TLSCert}.look(c, n)
	ofDSN("database", c.Settings.Database.Reveal()).look(c, n)
	tlsFiles{setting: "accounts.ldap", ca: c.Settings.Accounts.LDAP.TLSCA}.look(c, n)
	ofDSN("accounts.database", c.Settings.Accounts.Database.Reveal()).look(c, n)
}

// ofDSN returns the files that a PostgreSQL URL names.
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
	n.check("tls", "", advice(mode&0o037 != 0, "chmod 600 "+f.key, "%s: other users can read the key %s (mode %v).",
		f.setting, f.key, mode))
	_, err := tls.LoadX509KeyPair(f.cert, f.key)
	n.check("tls", "",
		problem(err != nil, "Set a certificate and its key, as PEM files that the user that runs authguard serve can read.",
			"%s: the certificate %s and the key %s cannot be used together: %s.", f.setting, f.cert, f.key, why(err)))
}

func (f tlsFiles) valid(c Config, n *notes, file string) {
	const soon = 14 * 24 * time.Hour
	if file == "" {
		return
	}
	all, err := readCertificates(file)
	if !n.check("tls", "",
		problem(err != nil, "Set a PEM file that the user that runs authguard serve can read.", "%s: %s cannot be read: %s.",
			f.setting, file, why(err)),
		problem(len(all) == 0, "Set a PEM file with a certificate.", "%s: %s contains no certificate.", f.setting, file)) {
		return
	}
	now, about := c.Now(), fmt.Sprintf("%s: a certificate in %s", f.setting, file)
	for _, one := range all {
		from, until := times.Text(one.NotBefore.UTC()), times.Text(one.NotAfter.UTC())
		n.check("tls", fmt.Sprintf("%s is valid until %s.", about, until),
			problem(now.After(one.NotAfter), "Renew it and restart the server.", "%s expired at %s.", about, until),
			problem(now.Before(one.NotBefore), "Correct this machine's clock, or wait.", "%s is not valid before %s.", about,
				from),
			advice(now.Add(soon).After(one.NotAfter), "Renew it and restart the server.", "%s expires at %s.", about, until))
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
