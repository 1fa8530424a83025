package outbox

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

	"github.com/wneessen/go-mail"
)

// MailServer sends plain text through one mail server. The connection is encrypted unless the server is this machine or
// the caller allows otherwise. It is safe for concurrent use.
type MailServer struct {
	host   string
	from   string
	dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	}
	options []mail.Option
}

// Email is one message to one recipient.
type Email struct {
	To, Subject, Text string
	// ID is the same for every try of one message, so that mailboxes recognize duplicates; empty: a new one.
	ID string
	// Urgent sets the headers by which mail programs show a high priority.
	Urgent bool
}

// NewMailServer takes the server's URL, smtp://user:password@host:port or smtps://, and the sender: an address, or a
// name and an address in angle brackets. smtp requires STARTTLS unless the server is this machine. The error never
// contains the URL, which has a password.
func NewMailServer(server, from string) (*MailServer, error) {
	return openMailServer(server, from, mail.TLSMandatory)
}

// NewLenientMailServer is NewMailServer for a server that may lack STARTTLS: it is used if offered.
func NewLenientMailServer(server, from string) (*MailServer, error) {
	return openMailServer(server, from, mail.TLSOpportunistic)
}

func openMailServer(server, from string, policy mail.TLSPolicy) (*MailServer, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" ||
		u.Fragment != "" {
		return nil, errors.New("must be a URL such as smtp://user:password@mail.example.org:587 or " +
			"smtps://mail.example.org:465")
	}
	s := &MailServer{host: u.Hostname(), from: from, dialer: new(net.Dialer),
		options: []mail.Option{mail.WithTimeout(SendTimeout)}}
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
func (s *MailServer) Trust(c *tls.Config) {
	c = c.Clone()
	c.ServerName = s.host
	s.options = append(s.options, mail.WithTLSConfig(c))
	if _, implicit := s.dialer.(*tls.Dialer); implicit {
		s.dialer = &tls.Dialer{Config: c}
	}
}

// CheckSender validates a sender.
func CheckSender(from string) error {
	if _, err := netmail.ParseAddress(from); err != nil {
		return fmt.Errorf("must be an address such as login@example.org, or Example <login@example.org>, not %.60q", from)
	}
	return nil
}

// dial closes the connection when ctx ends: the client only observes its own deadline.
func (s *MailServer) dial(ctx context.Context) mail.DialContextFunc {
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
var ErrAddress = errors.New("outbox: this address takes no mail")

// Send sends a message. An invalid address is an error, so user input cannot add recipients or headers (R23). If the
// server hangs up after it accepted the message, Send succeeds.
func (s *MailServer) Send(ctx context.Context, l Email) error {
	ctx, cancel := context.WithTimeout(ctx, SendTimeout)
	defer cancel()
	m := mail.NewMsg()
	if err := m.From(s.from); err != nil {
		return fmt.Errorf("outbox: %w", err)
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
		return fmt.Errorf("outbox: %w", err)
	}
	if err := client.DialAndSendWithContext(ctx, m); err != nil && !m.IsDelivered() {
		if refused, ok := errors.AsType[*mail.SendError](err); ok && refused.Reason == mail.ErrSMTPRcptTo &&
			!refused.IsTemp() {
			return fmt.Errorf("%w: %w", ErrAddress, err)
		}
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}
