// Package ldaptest starts a real directory, OpenLDAP's slapd, for tests. It needs
// slapd (.ci/need).
package ldaptest

import (
	"authguard/internal/testing/redistest"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// What every directory has: a suffix, and an account that may read everything but
// passwords. Nobody else may read anything.
const (
	Base     = "dc=example,dc=org"
	Reader   = "cn=reader,dc=example,dc=org"
	Password = "reader's password"

	root, rootPassword = "cn=admin,dc=example,dc=org", "root's password"
)

// A Directory is a running slapd.
type Directory struct {
	URL, TLSURL string // ldap:// (with StartTLS) and ldaps://
	CA          string // PEM file of who signed its certificate
	dir         string
	cmd         *exec.Cmd
}

const configuration = `include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload memberof
TLSCertificateFile {{dir}}/cert.pem
TLSCertificateKeyFile {{dir}}/key.pem
TLSCACertificateFile {{dir}}/cert.pem
database mdb
suffix "dc=example,dc=org"
rootdn "cn=admin,dc=example,dc=org"
rootpw "root's password"
directory {{dir}}/data
overlay memberof
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=reader,dc=example,dc=org" read by * none
`

// New starts a directory with ou=people and ou=groups, and stops it with the test.
func New(t testing.TB) *Directory {
	t.Helper()
	d := &Directory{dir: t.TempDir()}
	d.URL, d.TLSURL, d.CA = "ldap://"+redistest.FreeAddress(
		t,
	), "ldaps://"+redistest.FreeAddress(
		t,
	), filepath.Join(
		d.dir,
		"cert.pem",
	)
	d.certificate(t)
	must(t, os.Mkdir(filepath.Join(d.dir, "data"), 0o700))
	must(
		t,
		os.WriteFile(filepath.Join(d.dir, "slapd.conf"), []byte(strings.ReplaceAll(configuration, "{{dir}}", d.dir)), 0o600),
	)
	d.Start(t)
	t.Cleanup(d.Kill)
	d.Add(t, Base, "objectClass: dcObject organization", "o: Example", "dc: example")
	d.Add(t, Reader, "objectClass: organizationalRole simpleSecurityObject", "cn: reader", "userPassword: "+Password)
	for _, ou := range []string{"people", "groups"} {
		d.Add(t, "ou="+ou+","+Base, "objectClass: organizationalUnit", "ou: "+ou)
	}
	return d
}

// Person adds somebody below ou=people, with further attributes.
func (d *Directory) Person(t testing.TB, uid, password string, more ...string) (dn string) {
	t.Helper()
	dn = "uid=" + ldap.EscapeDN(uid) + ",ou=people," + Base
	d.Add(
		t,
		dn,
		append(
			[]string{"objectClass: inetOrgPerson", "uid: " + uid, "cn: " + uid, "sn: " + uid, "userPassword: " + password},
			more...)...)
	return dn
}

// Add adds an entry: "attribute: value", and of objectClass several.
func (d *Directory) Add(t testing.TB, dn string, attributes ...string) {
	t.Helper()
	r := ldap.NewAddRequest(dn, nil)
	values := map[string][]string{}
	for _, one := range attributes {
		name, value, _ := strings.Cut(one, ": ")
		if values[name] = append(values[name], value); name == "objectClass" {
			values[name] = strings.Fields(value)
		}
	}
	for name, all := range values {
		r.Attribute(name, all)
	}
	d.as(t, func(c *ldap.Conn) error { return c.Add(r) })
}

// Replace sets an attribute of an entry.
func (d *Directory) Replace(t testing.TB, dn, name, value string) {
	t.Helper()
	r := ldap.NewModifyRequest(dn, nil)
	r.Replace(name, []string{value})
	d.as(t, func(c *ldap.Conn) error { return c.Modify(r) })
}

// Remove removes an entry.
func (d *Directory) Remove(t testing.TB, dn string) {
	t.Helper()
	d.as(t, func(c *ldap.Conn) error { return c.Del(ldap.NewDelRequest(dn, nil)) })
}

func (d *Directory) as(t testing.TB, do func(*ldap.Conn) error) {
	t.Helper()
	c, err := ldap.DialURL(d.URL)
	must(t, err)
	defer c.Close()
	must(t, c.Bind(root, rootPassword))
	must(t, do(c))
}

// Start starts it again, with what it had, and waits until it answers.
func (d *Directory) Start(t testing.TB) {
	t.Helper()
	d.cmd = exec.Command("slapd", "-f", filepath.Join(d.dir, "slapd.conf"), "-h", d.URL+" "+d.TLSURL, "-d", "0")
	d.cmd.Path = program()
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, d.cmd.Start())
	for {
		c, err := ldap.DialURL(d.TLSURL, ldap.DialWithTLSConfig(insecure()))
		if err == nil {
			_ = c.Close()
			return
		}
		if t.Context().Err() != nil || d.cmd.Process.Signal(syscall.Signal(0)) != nil {
			t.Fatalf("ldaptest: slapd does not answer: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Kill ends it.
func (d *Directory) Kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
}

// Hang has it answer nothing. It returns when every thread has stopped, which takes a
// moment.
func (d *Directory) Hang(t testing.TB) {
	t.Helper()
	must(t, d.cmd.Process.Signal(syscall.SIGSTOP))
	for running := true; running; {
		running = false
		all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", d.cmd.Process.Pid))
		must(t, err)
		for _, one := range all {
			text, err := os.ReadFile(one)
			must(t, err)
			_, state, _ := strings.Cut(string(text), ") ")
			running = running || !strings.HasPrefix(state, "T")
		}
		runtime.Gosched()
	}
}

// Continue has it answer again.
func (d *Directory) Continue(t testing.TB) { must(t, d.cmd.Process.Signal(syscall.SIGCONT)) }

func program() string {
	for _, path := range []string{"/usr/sbin/slapd", "/usr/libexec/slapd"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return "slapd"
}

// certificate is for 127.0.0.1, signed by itself.
func (d *Directory) certificate(t testing.TB) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(
			1,
		), Subject: pkix.Name{CommonName: "ldaptest"}, NotAfter: time.Now().Add(time.Hour * 24 * 365),
		NotBefore:   time.Now().Add(-time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: raw},
		"key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		must(t, os.WriteFile(filepath.Join(d.dir, name), pem.EncodeToMemory(block), 0o600))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fmt.Errorf("ldaptest: %w", err))
	}
}

// insecure is good enough to see whether anybody answers.
func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }
