package guard

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/width"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/trusted"
)

func FuzzNormaliseAccount(f *testing.F) {
	for _, seed := range []string{"alice", " Ａlice ", "ALICE@Example.com", "\u212a", "İ", "e\u0301", "a\x00b", "\xff", "\u3000", "ﬁ", "Σς", "\u1e9e", "I\u0307", "J\u030c", "ｋ\u200dim", "น้ำ", "\uffa0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		for _, normalise := range []func(string) (string, error){NormaliseAccount, NormaliseExact} {
			name, err := normalise(typed)
			if err != nil {
				if !errors.Is(err, ErrAccountName) || name != "" {
					t.Fatalf("%q: %q, %v", typed, name, err)
				}
				continue
			}
			if name == "" || len(name) > MaxAccount {
				t.Fatalf("%q gives %q", typed, name)
			}
			if again, err := normalise(name); err != nil || again != name {
				t.Fatalf("%q gives %q, and that %q, %v", typed, name, again, err)
			}
			if !sameLetters(width.Fold.String(strings.TrimSpace(typed)), name) {
				t.Fatalf("%q has other letters than %q", typed, name)
			}
		}
	})
}

func newTestGuard(t testing.TB) *Guard {
	t.Helper()
	counts, err := failures.NewMemory(failures.Config{})
	if err != nil {
		t.Fatal(err)
	}
	places, err := trusted.NewMemory(trusted.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	mode, err := captchamode.NewMode(captchamode.DefaultConfig(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(Config{Policy: DefaultPolicy(), Secret: make([]byte, 32), Store: NewLocal(counts, places), Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func FuzzTicket(f *testing.F) {
	g := newTestGuard(f)
	// The processes that fuzz get their input from the one that started them: so
	// they have to know of the same ticket.
	const name = "AUTHGUARD_FUZZ_TICKET"
	issued := os.Getenv(name)
	if issued == "" {
		d, err := g.Begin(f.Context(), Attempt{Account: "alice", Integration: "api"})
		if err != nil {
			f.Fatal(err)
		}
		issued = g.Seal(&d.Ticket)
		f.Setenv(name, issued)
	}
	f.Add(issued)
	f.Add("")
	f.Add(issued[1:])
	f.Add(issued + "=")
	f.Fuzz(func(t *testing.T, text string) {
		ticket, err := g.Open(text)
		if text == issued {
			if err != nil || ticket.of.name != "alice" || time.Until(ticket.Expires()) > TicketTTL {
				t.Fatalf("what was issued is not opened: %v", err)
			}
			return
		}
		if err == nil {
			t.Fatalf("a ticket that was never issued opens: %q", text)
		}
	})
}
