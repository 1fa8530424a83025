// Package mailtest runs a real mail server in the test's own process: SMTP with
// STARTTLS and authentication, by a library that production servers use.
package mailtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Password is that of every user.
const Password = "letmein-letmein"

// A Message is what has arrived.
type Message struct {
	From, To  string
	User      string // who was let in; empty: nobody
	Encrypted bool
	*mail.Message
	Text string // the body, as it was sent
}

// A Server takes mail.
type Server struct {
	// Address is host:port, Roots what its certificate is checked by.
	Address string
	Roots   *x509.CertPool
	// Messages has each that arrives.
	Messages chan Message

	server *smtp.Server
	mu     sync.Mutex
	down   bool
}

// Open starts a server that demands STARTTLS and a password.
func Open(t testing.TB) *Server {
	t.Helper()
	certificate, roots := selfSigned(t)
	s := &Server{Messages: make(chan Message, 1000), Roots: roots}
	s.server = smtp.NewServer(s)
	s.server.Domain, s.server.TLSConfig = "localhost", &tls.Config{Certificates: []tls.Certificate{certificate}}
	s.server.ErrorLog = quiet{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Address = l.Addr().String()
	go func() { _ = s.server.Serve(l) }()
	t.Cleanup(func() { _ = s.server.Close() })
	return s
}

// Down has the server answer every client that it is out of order, or take mail again.
func (s *Server) Down(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// NewSession implements smtp.Backend.
func (s *Server) NewSession(c *smtp.Conn) (smtp.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, &smtp.SMTPError{Code: 421, Message: "out of order"}
	}
	return &session{server: s, conn: c}, nil
}

type session struct {
	server  *Server
	conn    *smtp.Conn
	message Message
}

var _ smtp.AuthSession = (*session)(nil)

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if password != Password {
			return smtp.ErrAuthFailed
		}
		s.message.User = user
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.message.User == "" {
		return smtp.ErrAuthRequired
	}
	s.message.From = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.message.To != "" {
		return errors.New("one recipient is enough")
	}
	s.message.To = to
	return nil
}

func (s *session) Data(r io.Reader) error {
	all, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	l := s.message
	_, l.Encrypted = s.conn.TLSConnectionState()
	if l.Message, err = mail.ReadMessage(strings.NewReader(string(all))); err != nil {
		return err
	}
	_, l.Text, _ = strings.Cut(string(all), "\r\n\r\n")
	s.server.Messages <- l
	return nil
}

func (s *session) Reset()        { s.message = Message{User: s.message.User} }
func (s *session) Logout() error { return nil }

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

func selfSigned(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(
			1,
		), NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}
