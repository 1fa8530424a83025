package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"
)

// tlsFiles are the files that one setting names.
type tlsFiles struct {
	setting       string
	ca, cert, key string
}

// certificates looks at every file with certificates that the settings name.
func certificates(_ context.Context, c Config, n *notes) {
	r := c.Settings.Redis
	tlsFiles{"redis", r.TLSCA, r.TLSCert, r.TLSKey}.look(c, n)
	ofDSN("database", c.Settings.Database.Reveal()).look(c, n)
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

// valid looks at the dates of every certificate in a file.
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
