package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"os"
	"time"
)

// soon is how long before its end a certificate is worth a word.
const soon = 14 * 24 * time.Hour

// A tlsFiles is what one setting names.
type tlsFiles struct {
	setting       string
	ca, cert, key string
}

// certificates looks at every file with certificates that the settings name.
func certificates(_ context.Context, c Config, n *notes) {
	r, a := c.Settings.Redis, c.Settings.Accounts
	all := []tlsFiles{
		{"redis", r.TLSCA, r.TLSCert, r.TLSKey},
		ofDSN("database", c.Settings.Database.Reveal()),
		ofDSN("accounts.database", a.Database.Reveal()),
	}
	for _, f := range all {
		f.look(c, n)
	}
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
	if info, err := os.Stat(f.key); err == nil && info.Mode().Perm()&0o037 != 0 {
		n.advice("tls", "chmod 600 "+f.key, "%s: others can use the key %s (mode %v).", f.setting, f.key, info.Mode().Perm())
	}
	if _, err := tls.LoadX509KeyPair(f.cert, f.key); err != nil {
		n.problem("tls", "Name a certificate and the key that belongs to it, as PEM files that the user who runs authguard serve can read.",
			"%s: the certificate %s and the key %s cannot be used together: %s.", f.setting, f.cert, f.key, why(err))
	}
}

// valid looks at the dates of every certificate in a file.
func (f tlsFiles) valid(c Config, n *notes, file string) {
	if file == "" {
		return
	}
	all, err := readCertificates(file)
	if err != nil {
		n.problem("tls", "Name a PEM file that the user who runs authguard serve can read.", "%s: %s cannot be read: %s.", f.setting, file, why(err))
		return
	}
	if len(all) == 0 {
		n.problem("tls", "Name a PEM file with a certificate.", "%s: %s holds no certificate.", f.setting, file)
		return
	}
	now := c.Now()
	for _, one := range all {
		switch until := one.NotAfter.UTC().Format(time.DateTime); {
		case now.After(one.NotAfter):
			n.problem("tls", "Renew it and restart the server.", "%s: a certificate in %s expired at %s UTC.", f.setting, file, until)
		case now.Before(one.NotBefore):
			n.problem("tls", "Set this machine's clock, or wait.", "%s: a certificate in %s is not valid before %s UTC.", f.setting, file, one.NotBefore.UTC().Format(time.DateTime))
		case now.Add(soon).After(one.NotAfter):
			n.advice("tls", "Renew it and restart the server.", "%s: a certificate in %s expires at %s UTC.", f.setting, file, until)
		default:
			n.ok("tls", "%s: a certificate in %s is valid until %s UTC.", f.setting, file, until)
		}
	}
}

func readCertificates(file string) (all []*x509.Certificate, err error) {
	rest, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return all, nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}
