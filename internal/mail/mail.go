// Package mail sends plain text through one mail server: alerts, verification codes, and notifications to account
// owners.
//
// The connection is encrypted unless the server is this machine or the caller allows otherwise. User input cannot add
// recipients or headers (R23).
package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/wneessen/go-mail"
)

// sendWithin is the timeout of one message, however slow the server is.
const sendWithin = 15 * time.Second

// Server sends email. It is safe for concurrent use.
type Server struct {
	host   string
	from   string
	dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	}
	options []mail.Option
}

// Message is one message to one recipient.
type Message struct {
	To, Subject, Text string
	// ID is the same for every try of one message, so that mailboxes recognize duplicates; empty: a new one.
	ID string
	// Urgent sets the headers by which mail programs show a high priority.
	Urgent bool
}

// New takes the server's URL, smtp://user:password@host:port or smtps://, and the sender: an address, or a name and an
// address in angle brackets. smtp requires STARTTLS unless the server is this machine. The error never contains the
// URL, which has a password.
func New(server, from string) (*Server, error) { return open(server, from, mail.TLSMandatory) }

// NewLenient is New for a server that may lack STARTTLS: it is used if offered.
func NewLenient(server, from string) (*Server, error) {
	return open(server, from, mail.TLSOpportunistic)
}

func open(server, from string, policy mail.TLSPolicy) (*Server, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" ||
		u.Fragment != "" {
		return nil, errors.New("must be a URL such as smtp://user:password@mail.example.org:587 or " +
			"smtps://mail.example.org:465")
	}
	s := &Server{host: u.Hostname(), from: from, dialer: new(net.Dialer),
		options: []mail.Option{mail.WithTimeout(sendWithin)}}
	port := 587
	switch ip, _ := netip.ParseAddr(s.host); {
	case u.Scheme == "smtps":
		port = 465
		s.options, s.dialer = append(s.options, mail.WithSSL()), &tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12,
			ServerName: s.host}}
	case s.host == "localhost" || ip.IsLoopback():
		s.options = append(s.options, mail.WithTLSPolicy(mail.TLSOpportunistic))
	default:
		s.options = append(s.options, mail.WithTLSPolicy(policy))
	}
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil || port < 1 || port > 65535 {
			return nil, errors.New("must end in a port from 1 to 65535")
		}
	}
	s.options = append(s.options, mail.WithPort(port))
	if password, set := u.User.Password(); set {
		s.options = append(s.options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(u.User.Username()),
			mail.WithPassword(password))
	}
	return s, nil
}

// Trust sets the TLS configuration for the server's certificate.
func (s *Server) Trust(c *tls.Config) {
	c = c.Clone()
	c.ServerName = s.host
	s.options = append(s.options, mail.WithTLSConfig(c))
	if _, implicit := s.dialer.(*tls.Dialer); implicit {
		s.dialer = &tls.Dialer{Config: c}
	}
}

// CheckFrom validates a sender.
func CheckFrom(from string) error {
	if _, err := netmail.ParseAddress(from); err != nil {
		return fmt.Errorf("must be an address such as login@example.org, or Example <login@example.org>, not %.60q", from)
	}
	return nil
}

// dial closes the connection when ctx ends: the client only observes its own deadline.
func (s *Server) dial(ctx context.Context) mail.DialContextFunc {
	return func(_ context.Context, network, address string) (net.Conn, error) {
		c, err := s.dialer.DialContext(ctx, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = c.Close() })
		}
		return c, err
	}
}

// ErrAddress means that one recipient's address is invalid, or the server rejects it permanently. Other recipients are
// not affected.
var ErrAddress = errors.New("mail: this address takes no mail")

// Send sends a message. An invalid address is an error, so user input cannot add recipients or headers (R23). If the
// server hangs up after it accepted the message, Send succeeds.
func (s *Server) Send(ctx context.Context, l Message) error {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	m := mail.NewMsg()
	if err := m.From(s.from); err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	if err := m.To(l.To); err != nil {
		return fmt.Errorf("%w: %w", ErrAddress, err)
	}
	m.Subject(l.Subject)
	if m.SetMessageID(); l.ID != "" {
		m.SetMessageIDWithValue(l.ID)
	}
	m.SetDate()
	if l.Urgent {
		m.SetImportance(mail.ImportanceHigh)
	}
	m.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no out-of-office replies
	m.SetBodyString(mail.TypeTextPlain, l.Text)
	client, err := mail.NewClient(s.host, append(slices.Clone(s.options), mail.WithDialContextFunc(s.dial(ctx)))...)
	if err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	if err := client.DialAndSendWithContext(ctx, m); err != nil && !m.IsDelivered() {
		if refused, ok := errors.AsType[*mail.SendError](err); ok && refused.Reason == mail.ErrSMTPRcptTo &&
			!refused.IsTemp() {
			return fmt.Errorf("%w: %w", ErrAddress, err)
		}
		return fmt.Errorf("mail: %w", err)
	}
	return nil
}
