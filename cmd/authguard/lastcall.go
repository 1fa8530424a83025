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
	deaf bool          // nobody new can connect; Accept's alone
	over chan struct{} // closed when nobody is let in any more

	mu   sync.Mutex
	busy map[net.Conn]struct{} // connections that are owed an answer, or may yet ask
}

// listenTCP listens without multipath TCP, which is Go's default and takes no filter (see
// deafen).
func listenTCP(ctx context.Context, address string) (*net.TCPListener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	socket, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return socket.(*net.TCPListener), nil
}

func newLastCall(l *net.TCPListener) *lastCall {
	return &lastCall{TCPListener: l, over: make(chan struct{}), busy: map[net.Conn]struct{}{}}
}

// lastCallFor is how long a listener waits for one more connection.
const lastCallFor = 20 * time.Millisecond

// Accept implements net.Listener, for one caller. Once its deadline has passed, Go's own
// Accept takes nobody, even those who wait in the socket's queue, so they are taken here:
// on a busy machine there are many.
func (l *lastCall) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return c, err
	}
	if c := l.queued(); c != nil {
		return c, nil
	}
	if !l.deaf { // who is half in comes in yet, and nobody else
		l.deaf = true
		l.deafen()
		if l.SetDeadline(time.Now().Add(lastCallFor)) == nil {
			return l.Accept()
		}
	}
	_ = l.Close()
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

// deafen has the kernel drop each SYN that comes for the socket, so that nobody can join
// its queue between the last look into it and the end: they would be reset. Whoever
// connects meanwhile asks again a second later (RFC 6298), and is refused or has the next
// process. Where no filter may be set, there is that moment.
func (l *lastCall) deafen() {
	raw, err := l.SyscallConn()
	if err != nil {
		return
	}
	const flags, syn, all = 13, 0x02, 0xffffffff // of the TCP header
	_ = raw.Control(func(socket uintptr) {
		_ = syscall.AttachLsf(int(socket), []syscall.SockFilter{
			*syscall.LsfStmt(syscall.BPF_LD+syscall.BPF_B+syscall.BPF_ABS, flags),
			*syscall.LsfJump(syscall.BPF_JMP+syscall.BPF_JSET+syscall.BPF_K, syn, 0, 1),
			*syscall.LsfStmt(syscall.BPF_RET+syscall.BPF_K, 0),
			*syscall.LsfStmt(syscall.BPF_RET+syscall.BPF_K, all),
		})
	})
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
