package accounts

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// connections is a pool of at most atOnce connections to a directory, all for one use.
type connections struct {
	dial  func() (*ldap.Conn, error)
	turns chan struct{}
	idle  chan *ldap.Conn
}

const atOnce = 16

func newConnections(dial func() (*ldap.Conn, error)) *connections {
	return &connections{dial, make(chan struct{}, atOnce), make(chan *ldap.Conn, atOnce)}
}

// do runs a request. An idle connection may be dead; then do retries on a new one.
func (p *connections) do(ctx context.Context, request func(*ldap.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		select {
		case c := <-p.idle:
			if err := p.on(c, request); !ldap.IsErrorWithCode(err, ldap.ErrorNetwork) || ctx.Err() != nil {
				return err
			}
			continue
		default:
		}
		c, err := p.dial()
		if err != nil {
			return err
		}
		return p.on(c, request)
	}
}

func (p *connections) on(c *ldap.Conn, request func(*ldap.Conn) error) error {
	err := request(c)
	if lost(err) || c.IsClosing() {
		_ = c.Close()
	} else {
		p.idle <- c
	}
	return err
}

func lost(err error) bool {
	return ldap.IsErrorAnyOf(err, ldap.ErrorNetwork, ldap.LDAPResultUnavailable, ldap.LDAPResultServerDown,
		ldap.LDAPResultTimeout)
}

func dial(c LDAPConfig, u *url.URL, dn, password string) (*ldap.Conn, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"ldap": ldap.DefaultLdapPort, "ldaps": ldap.DefaultLdapsPort}[u.Scheme]
	}
	raw, err := net.DialTimeout("tcp", net.JoinHostPort(u.Hostname(), port), queryTime)
	if err != nil {
		return nil, err
	}
	_ = raw.SetDeadline(time.Now().Add(queryTime))
	config := &tls.Config{}
	if c.TLS != nil {
		config = c.TLS.Clone()
	}
	config.ServerName = u.Hostname()
	var secured net.Conn = raw
	if u.Scheme == "ldaps" {
		encrypted := tls.Client(raw, config)
		if err := encrypted.Handshake(); err != nil {
			_ = raw.Close()
			return nil, err
		}
		secured = encrypted
	}
	conn := ldap.NewConn(secured, u.Scheme == "ldaps")
	conn.SetTimeout(queryTime)
	conn.Start()
	if c.StartTLS {
		err = conn.StartTLS(config)
	}
	if err == nil && dn != "" {
		err = conn.Bind(dn, password)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, raw.SetDeadline(time.Time{})
}
