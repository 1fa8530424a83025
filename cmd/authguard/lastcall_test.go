package main

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Ensure that whoever connects as a listener ends is answered or refused, and never
// reset: there is no moment between the last look into its queue and its end. Clients
// connect as fast as they can; without the filter one of some ten rounds resets somebody.
func TestNobodyIsResetAsAListenerEnds(t *testing.T) {
	t.Parallel()
	for range 4 {
		t.Run("rounds", func(t *testing.T) {
			t.Parallel()
			for round := range 10 {
				endsUnderLoad(t, round)
			}
		})
	}
}

func endsUnderLoad(t *testing.T, round int) {
	t.Helper()
	socket, err := listenTCP(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newLastCall(socket)
	var clients, answers sync.WaitGroup
	var answered atomic.Int64
	for range 4 {
		clients.Go(func() {
			for {
				c, err := net.Dial("tcp", socket.Addr().String())
				if errors.Is(err, syscall.ECONNREFUSED) {
					return
				}
				if err == nil {
					_, err = io.ReadFull(c, make([]byte, 2))
					_ = c.Close()
				}
				if err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	if err := l.SetDeadline(time.Now().Add(3 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		answers.Go(func() {
			_, _ = io.WriteString(c, "ok")
			_ = c.Close()
		})
	}
	answers.Wait()
	clients.Wait()
	if answered.Load() == 0 {
		t.Errorf("round %d: nobody was answered", round)
	}
}
