package database

import (
	"context"
	"crypto/tls"
	"database/sql"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
)

// A patient is a connection that waits for an answer only so long. The server
// cuts a long statement off by itself; this is for a server that has died, or
// cannot be reached any more, and says nothing. Without it a query waits until
// the kernel gives up, a quarter of an hour later.
type patient struct {
	net.Conn
	mu       sync.Mutex
	within   time.Duration // 0: for ever
	deadline time.Time     // what the driver has set
}

func newPatient(conn net.Conn, within time.Duration) *patient {
	return &patient{Conn: conn, within: within}
}

// Read waits until the driver's deadline or its own, whichever comes first. The
// driver only reads while it waits for an answer.
func (p *patient) Read(to []byte) (int, error) {
	if err := p.limit(p.Conn.SetReadDeadline); err != nil {
		return 0, err
	}
	return p.Conn.Read(to)
}

// Write is bounded likewise: a dead peer's window fills up.
func (p *patient) Write(from []byte) (int, error) {
	if err := p.limit(p.Conn.SetWriteDeadline); err != nil {
		return 0, err
	}
	return p.Conn.Write(from)
}

// limit holds the lock while it sets a deadline, so that one that the driver
// sets at the same time, because a context has ended, is never overwritten.
func (p *patient) limit(set func(time.Time) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	deadline := p.deadline
	if p.within > 0 {
		if own := time.Now().Add(p.within); deadline.IsZero() || own.Before(deadline) {
			deadline = own
		}
	}
	return set(deadline)
}

// SetDeadline is the driver's.
func (p *patient) SetDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = t
	return p.Conn.SetDeadline(t)
}

// SetReadDeadline is SetDeadline: the driver does not tell them apart.
func (p *patient) SetReadDeadline(t time.Time) error { return p.SetDeadline(t) }

// SetWriteDeadline is SetDeadline.
func (p *patient) SetWriteDeadline(t time.Time) error { return p.SetDeadline(t) }

func (p *patient) setWithin(d time.Duration) (before time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.within = p.within, d
	return before
}

// Unhurried lets the statements of one connection take as long as they need:
// for migrations and large imports, never while somebody waits to log in. Call
// restore before the connection goes back to its pool. On SQLite, which has no
// such limit, it does nothing.
func Unhurried(ctx context.Context, conn *sql.Conn) (restore func(), err error) {
	p := patientOf(conn)
	if p == nil {
		return func() {}, nil
	}
	if _, err := conn.ExecContext(ctx, "SET statement_timeout = 0"); err != nil {
		return nil, err
	}
	within := p.setWithin(0)
	return func() {
		p.setWithin(within)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer cancel()
		// If this fails the connection is broken, and the pool drops it.
		_, _ = conn.ExecContext(ctx, "RESET statement_timeout")
	}, nil
}

// patientOf is the network connection below conn; nil if it is not PostgreSQL.
func patientOf(conn *sql.Conn) (found *patient) {
	_ = conn.Raw(func(driver any) error {
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return nil
		}
		below := c.Conn().PgConn().Conn()
		if secure, ok := below.(*tls.Conn); ok {
			below = secure.NetConn()
		}
		found, _ = below.(*patient)
		return nil
	})
	return found
}
