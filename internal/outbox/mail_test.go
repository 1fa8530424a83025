package outbox

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
)

// refusing is a mail server that answers every recipient so.
func refusing(t *testing.T, recipient string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				fmt.Fprint(c, "220 here\r\n")
				for lines := bufio.NewScanner(c); lines.Scan(); {
					answer := "250 ok"
					if strings.HasPrefix(lines.Text(), "RCPT") {
						answer = recipient
					}
					fmt.Fprint(c, answer+"\r\n")
				}
			}()
		}
	}()
	return l.Addr().String()
}

// An address that is none, or that the server refuses for good, is no failure of the
// server.
func TestAnUnusableAddressIsNoFailureOfTheServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		to, answer string
		unusable   bool
	}{
		{"not an address", "250 ok", true},
		{"alice@example.org", "550 5.1.1 no such mailbox", true},
		{"alice@example.org", "451 4.3.0 try again later", false},
	} {
		s, err := NewMailServer("smtp://"+refusing(t, c.answer), "login@example.org")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(t.Context(), Email{To: c.to, Subject: "s", Text: "t"}); err == nil || errors.Is(err, ErrAddress) != c.unusable {
			t.Errorf("%s, %s: %v", c.to, c.answer, err)
		}
	}
}
