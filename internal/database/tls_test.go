package database_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authguard/internal/database"
	"authguard/internal/testing/postgrestest"
	"authguard/internal/testing/redistest"
)

// certificate makes the server's certificate and key, for localhost.
func certificate(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func TestTimeoutsHoldAndAreLiftedOverTLS(t *testing.T) {
	t.Parallel()
	server := postgrestest.Own(t)
	public, private := certificate(t)
	server.WriteFile(t, "server.crt", public)
	server.WriteFile(t, "server.key", private)
	server.Do(t, "postgres", "ALTER SYSTEM SET ssl = on")
	server.Kill()
	server.Start(t)
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, public, 0o600); err != nil {
		t.Fatal(err)
	}
	dsn := strings.Replace(server.URL("postgres"), "127.0.0.1", "localhost", 1)
	dsn = strings.Replace(dsn, "sslmode=disable", "sslmode=verify-full&sslrootcert="+url.QueryEscape(authority), 1)
	db := opened(t, dsn+"&statement_timeout=200&connect_timeout=5")
	var secure bool
	redistest.Until(t, "PostgreSQL to answer", func() bool {
		return db.QueryRow("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&secure) == nil
	})
	if !secure {
		t.Fatal("no TLS")
	}
	slow, done, err := database.Unhurried(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := slow.ExecContext(t.Context(), "SELECT pg_sleep(2.5)"); err != nil { // longer than the other pool has patience
		t.Errorf("cut off: %v", err)
	}
	server.Stop(t)
	defer server.Continue(t)
	if _, err := db.ExecContext(t.Context(), "SELECT 1"); err == nil {
		t.Error("a server that hangs answered")
	}
}
