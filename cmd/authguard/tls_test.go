package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"authguard/internal/testing/redistest"
)

// A Redis that speaks nothing but TLS, wants a certificate of its clients, and
// an ACL user with a password.
func TestRedisOverTLSWithAUser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	selfSigned(t, cert, key)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	both := filepath.Join(dir, "both.pem")
	public, _ := os.ReadFile(cert)
	private, _ := os.ReadFile(key)
	if err := os.WriteFile(both, append(public, private...), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := redistest.Standalone(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	redis.Do(t, "ACL", "SETUSER", "authguard", "on", ">secret", "~ag:*", "+@all", "-@dangerous")
	redis.Do(t, "ACL", "SETUSER", "default", "off")
	config := fmt.Sprintf("addresses: ['127.0.0.1:%s'], username: authguard, password: secret, tls: true, tls_ca: %s, tls_cert: %s, timeout: 5s",
		port, cert, both)
	s := newNodes(t, 2, config, quiet, "alice")
	for i, node := range s {
		if got := from("127.6.6.6").login(t, node, "alice", rightPassword); got.status != http.StatusOK {
			t.Errorf("node %d: %d %s", i, got.status, got.body)
		}
		if node.gauge(t, "authguard_redis_up") != 1 || node.gauge(t, "authguard_redis_failures_total") != 0 {
			t.Errorf("node %d does not reach Redis:\n%s", i, lastLines(node.log.String(), 5))
		}
	}
}

// selfSigned writes a certificate for 127.0.0.1, localhost and wiki.localhost that is good for both ends.
func selfSigned(t *testing.T, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost", "wiki.localhost"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
