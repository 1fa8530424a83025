package doctor_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"authguard/internal/alerts"
	"authguard/internal/config"
	"authguard/internal/doctor"
)

func TestWhatOthersCanUseIsTold(t *testing.T) {
	t.Parallel()
	for mode, state := range map[os.FileMode]doctor.State{0o700: good, 0o755: advice, 0o777: problem} {
		c := served(t, nil)
		if err := os.Chmod(c.Settings.Data, mode); err != nil {
			t.Fatal(err)
		}
		examine(t, c).wants(map[string]doctor.State{"data.private": state})
	}
	for mode, state := range map[os.FileMode]doctor.State{0o600: good, 0o644: problem} {
		c := served(t, nil)
		if err := os.Chmod(filepath.Join(c.Settings.Data, "keys"), mode); err != nil {
			t.Fatal(err)
		}
		examine(t, c).wants(map[string]doctor.State{"keys": state})
	}
}

func TestADamagedKeysFileAndAFileForAFolderAreProblems(t *testing.T) {
	t.Parallel()
	c := served(t, nil)
	write(t, filepath.Join(c.Settings.Data, "keys"), "counters 12\n")
	examine(t, c).wants(map[string]doctor.State{"keys": problem})
	c = whole(t, nil)
	write(t, c.Settings.Data, "no folder")
	examine(t, c).wants(map[string]doctor.State{"data": problem})
}

func TestLittleSpaceAndFewDescriptorsAreAdvice(t *testing.T) {
	t.Parallel()
	c := served(t, nil)
	c.Free = func(string) (uint64, error) { return 1<<30 - 1, nil }
	c.Descriptors = func() (uint64, error) { return 1024, nil }
	examine(t, c).wants(map[string]doctor.State{"data.space": advice, "machine.files": advice})
	c.Free = func(string) (uint64, error) { return 0, syscall.ENOSYS }
	c.Descriptors = func() (uint64, error) { return 0, syscall.ENOSYS }
	examine(t, c).wants(map[string]doctor.State{"data.space": advice, "machine.files": advice})
}

func TestADiskThatHangsIsAFindingNotAHang(t *testing.T) {
	t.Parallel()
	c := served(t, nil)
	c.Within = 200 * time.Millisecond
	hang := make(chan struct{})
	defer close(hang)
	c.Free = func(string) (uint64, error) { <-hang; return 0, nil }
	examine(t, c).wants(map[string]doctor.State{"data": problem})
}

func TestAnHtpasswdFileIsRead(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "htpasswd")
	c := served(t, func(s *config.Config) {
		s.Accounts = config.Accounts{Source: config.SourceHtpasswd, Htpasswd: file}
	})
	examine(t, c).wants(map[string]doctor.State{"accounts.htpasswd": problem})
	write(t, file, "ann:$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy\n")
	examine(t, c).wants(map[string]doctor.State{"accounts.htpasswd": good})
	write(t, file, "ann\n")
	r := examine(t, c)
	r.wants(map[string]doctor.State{"accounts.htpasswd": problem})
	r.says(file + " cannot be used: line 1: not of the form name:hash (a CSV file needs the format csv). A running server keeps its previous version; a restart would fail.")
	write(t, file, "ann\n\nann\n")
	if r := examine(t, c); !strings.Contains(r.String(), "format csv), and 1 more bad lines. A running server") {
		t.Error(r)
	}
}

func TestCertificatesAreReadAndTheirDatesLookedAt(t *testing.T) {
	t.Parallel()
	dir, day := t.TempDir(), 24*time.Hour
	cert, both := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "both.pem")
	for until, state := range map[time.Duration]doctor.State{-day: problem, 3 * day: advice, 100 * day: good} {
		certificate(t, cert, both, until)
		c := served(t, func(s *config.Config) { s.Redis.TLSCA, s.Redis.TLSCert = cert, both })
		examine(t, c).wants(map[string]doctor.State{"tls": state})
	}
	certificate(t, cert, both, 100*day)
	if err := os.Chmod(both, 0o644); err != nil {
		t.Fatal(err)
	}
	c := served(t, func(s *config.Config) { s.Redis.TLSCert = both })
	examine(t, c).wants(map[string]doctor.State{"tls": advice})
	c.Settings.Redis.TLSCert = cert
	examine(t, c).wants(map[string]doctor.State{"tls": problem})
	c.Settings.Redis = config.Redis{TLSCA: filepath.Join(dir, "none.pem")}
	examine(t, c).wants(map[string]doctor.State{"tls": problem})
	c.Settings.Redis.TLSCA = filepath.Join(dir, "key.pem")
	write(t, c.Settings.Redis.TLSCA, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}})))
	examine(t, c).wants(map[string]doctor.State{"tls": problem})
	c = whole(t, func(s *config.Config) {
		s.Database = config.Secret("postgres://127.0.0.1:1/x?sslrootcert=" + filepath.Join(dir, "none.pem"))
	})
	examine(t, c).wants(map[string]doctor.State{"tls": problem})
}

func TestTLSThatCannotBeMadeIsAProblem(t *testing.T) {
	t.Parallel()
	c := served(t, func(s *config.Config) {
		s.Redis.Addresses, s.Redis.TLS, s.Redis.TLSCA = []string{"127.0.0.1:1"}, true, filepath.Join(t.TempDir(), "none.pem")
	})
	examine(t, c).wants(map[string]doctor.State{"redis.tls": problem, "redis": ""})
}

func TestListeningBeyondThisMachineIsToldUnlessItIsSafe(t *testing.T) {
	t.Parallel()
	c := served(t, nil)
	examine(t, c).wants(map[string]doctor.State{"listen": good, "admin.listen": good})
	c.Settings.Listen, c.Settings.Admin.Listen = ":8080", "10.0.0.5:8081"
	examine(t, c).wants(map[string]doctor.State{"listen.cookies": advice, "listen.proxies": advice, "admin.listen": advice})
	c.Settings.SecureCookies, c.Settings.Admin.Listen = config.SecureAlways, ""
	c.Settings.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.9/32")}
	examine(t, c).wants(map[string]doctor.State{"listen.cookies": good, "listen.proxies": good, "admin.listen": good})
	c.Settings.SecureCookies, c.Settings.Origin = config.SecureAuto, "https://login.example.org"
	examine(t, c).wants(map[string]doctor.State{"listen.cookies": good})
	c.Settings.SecureCookies = config.SecureNever
	examine(t, c).wants(map[string]doctor.State{"listen.cookies": advice})
}

func TestSettingsThatCannotBeUsedAreTheProblem(t *testing.T) {
	t.Parallel()
	_, err := config.Parse("x.yaml", []byte("listen: nowhere\nsession: 1\n"), nil)
	r := examine(t, doctor.Config{Invalid: err})
	r.wants(map[string]doctor.State{"config": problem, "data": "", "machine.files": good})
	if len(r.all) != 3 {
		t.Errorf("%s", r)
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// certificate writes one that expires after a time from now, and its key.
// certificate writes a certificate, and one file with it and its key.
func certificate(t *testing.T, cert, both string, until time.Duration) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-100 * 24 * time.Hour), NotAfter: time.Now().Add(until),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	public := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, cert, public)
	write(t, both, public+string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})))
}

func TestTheAccountsOfEveryRealmAreLookedAt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "htpasswd")
	write(t, file, "")
	c := whole(t, func(s *config.Config) {
		s.Accounts = config.Accounts{Source: config.SourceHtpasswd, Htpasswd: file}
		s.Realms = []config.Realm{
			{Name: "like", Accounts: s.Accounts},
			{Name: "shop", Accounts: config.Accounts{Source: config.SourceHtpasswd, Htpasswd: file + ".gone"}},
			{Name: "blog", Accounts: config.Accounts{Source: config.SourceQuery, Database: "/nowhere/x.db", Query: "SELECT 1"}},
		}
	})
	found := map[string]int{}
	for _, one := range examine(t, c).all {
		if strings.HasPrefix(one.Name, "accounts.") {
			found[string(one.State)+" "+one.Name]++
		}
	}
	if found["ok accounts.htpasswd"] != 1 || found["problem accounts.htpasswd"] != 1 || found["problem accounts.database"] != 1 || len(found) != 3 {
		t.Errorf("%v", found)
	}
}

// A stopped server is no problem before the first start, but must not look well.
func TestAStoppedServerIsNotWell(t *testing.T) {
	t.Parallel()
	c := whole(t, nil)
	c.Ask = func(context.Context) ([]alerts.Warning, error) { return nil, doctor.ErrNotRunning }
	examine(t, c).wants(map[string]doctor.State{"server": advice})
}
