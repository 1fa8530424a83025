package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// A lastCall is a listener that, before it closes, lets everybody in who has
// connected already, and knows who is still to be answered: closing the socket would
// reset them, as http.Server.Shutdown drops a request that is read after it began. A
// proxy that has sent a login there could only answer 502, since it must not send it
// twice.
type lastCall struct {
	*net.TCPListener
	over chan struct{} // closed when nobody is let in any more

	mu   sync.Mutex
	busy map[net.Conn]struct{} // connections that are owed an answer, or may yet ask
}

func newLastCall(l *net.TCPListener) *lastCall {
	return &lastCall{TCPListener: l, over: make(chan struct{}), busy: map[net.Conn]struct{}{}}
}

// lastCallFor is how long a listener waits for one more connection.
const lastCallFor = 20 * time.Millisecond

// Accept implements net.Listener. Once its deadline has passed, Go's own Accept
// takes nobody, even those who wait in the socket's queue, so they are taken here: on a
// busy machine there are many.
func (l *lastCall) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return c, err
	}
	if c := l.queued(); c != nil {
		return c, nil
	}
	_ = l.Close() // at once: whoever connects now is to be refused, not reset
	close(l.over)
	return nil, net.ErrClosed
}

// Close implements net.Listener. The server closes again what Accept has closed.
func (l *lastCall) Close() error {
	if err := l.TCPListener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// queued is the next connection in the socket's queue; nil if it is empty.
func (l *lastCall) queued() (c net.Conn) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(socket uintptr) {
		fd, _, err := syscall.Accept4(int(socket), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		file := os.NewFile(uintptr(fd), "connection")
		defer file.Close() // c is a copy
		c, _ = net.FileConn(file)
	})
	return c
}

// note is an http.Server's ConnState. The server calls it for a new connection before
// it accepts the next one.
func (l *lastCall) note(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateNew, http.StateActive:
		l.busy[c] = struct{}{}
	default:
		delete(l.busy, c)
	}
}

func (l *lastCall) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.busy) == 0
}

// silentFor is how long a connection may say nothing before it counts as a spare one.
const silentFor = 5 * time.Second

// end lets in those who are waiting, and returns when all are answered, or it is clear
// that whoever is left has sent no request; when ctx ends at the latest. Active
// connections are waited for too: the server calls one active just before it asks
// whether it is being shut down, and drops its request then.
func (l *lastCall) end(ctx context.Context) {
	if l.SetDeadline(time.Now().Add(lastCallFor)) != nil {
		return
	}
	select {
	case <-l.over:
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(ctx, silentFor)
	defer cancel()
	for tick := time.Tick(5 * time.Millisecond); !l.quiet(); {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
	}
}
