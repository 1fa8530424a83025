package web_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"authguard/internal/accounts"
	"authguard/internal/passwords"
	"authguard/internal/testing/world"
)

// Upgrade keeps the new hash of an account, and counts.
func (p *people) Upgrade(_ context.Context, login accounts.Login, hash string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upgrades++
	if p.readOnly {
		return errors.New("attempt to write a readonly database")
	}
	login.Password.Hash = hash
	p.all[login.Account] = login
	return nil
}

// Made by Django, of the password right.
const aDjangoHash = "pbkdf2_sha256$1000$saltsaltsalt$F7o7+5VTVzFAO998X6s3AHrDsJVdMiIlgndIMe19NvY="

// imported is a house where alice has a hash of Django's.
func imported(t *testing.T) *house {
	t.Helper()
	h := newHouseWith(t, world.Options{Mail: true})
	h.people.all["alice"] = accounts.Login{Account: "alice", Password: passwords.Stored{Hash: aDjangoHash, Usable: true}}
	return h
}

func TestTheFirstLoginUpgradesTheHashAndNoOther(t *testing.T) {
	t.Parallel()
	h := imported(t)
	for i, password := range []string{"wrong", right, right, right} {
		want := http.StatusSeeOther
		if i == 0 {
			want = http.StatusUnauthorized
		}
		if w := h.browser(page).login("alice", password); w.Code != want {
			t.Fatalf("%d: %d", i, w.Code)
		}
		if upgraded := i > 0; (h.people.upgrades == 1) != upgraded || strings.HasPrefix(h.people.all["alice"].Password.Hash, "$2a$04$") != upgraded {
			t.Errorf("%d: %d upgrades, %s", i, h.people.upgrades, h.people.all["alice"].Password.Hash)
		}
	}
}

// Twenty at once, all of which saw the old hash: one writes.
func TestLoginsAtTheSameTimeUpgradeOnce(t *testing.T) {
	t.Parallel()
	h := imported(t)
	gate, err := passwords.NewQueue(passwords.QueueConfig{AtOnce: 1, Queue: 100})
	if err != nil {
		t.Fatal(err)
	}
	p := h.login("login", gate, h.checker).Passwords
	before := h.people.all["alice"]
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { p.Upgrade(t.Context(), before, right, passwords.Request{}) })
	}
	all.Wait()
	if h.people.upgrades != 1 {
		t.Errorf("%d upgrades", h.people.upgrades)
	}
}

func TestAnUpgradeThatFailsIsNoFailedLogin(t *testing.T) {
	t.Parallel()
	h := imported(t)
	h.people.readOnly = true
	for i := range 2 {
		if w := h.browser(page).login("alice", right); w.Code != http.StatusSeeOther || h.people.upgrades != i+1 {
			t.Errorf("%d, %d upgrades", w.Code, h.people.upgrades)
		}
	}
	if n := h.charged(t, "alice"); n != 0 {
		t.Errorf("%d failures", n)
	}
}

// What an upgrade takes would tell that a sprayed password was right (R28).
func TestR28ASprayedPasswordUpgradesNothing(t *testing.T) {
	t.Parallel()
	h := imported(t)
	h.spray(t, 10)
	b := h.browser(page)
	b.from = "203.0.113.9"
	if w := b.login("alice", right); w.Code != http.StatusUnauthorized || h.people.upgrades != 0 {
		t.Errorf("%d, %d upgrades", w.Code, h.people.upgrades)
	}
}

// A hash that cannot be checked is answered like a wrong password, and told.
func TestR12AHashThatCannotBeCheckedLooksLikeAWrongPassword(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.people.all["alice"] = accounts.Login{Account: "alice", Password: passwords.Stored{Hash: "6FZSgRFTLxtYc", Usable: true}}
	l := h.login("login", h.gate, h.checker)
	var told []string
	l.Passwords.Unusable = func(account string, why error) { told = append(told, account+": "+why.Error()) }
	for _, name := range []string{"alice", "nobody"} {
		if login, ok, err := l.Passwords.Check(t.Context(), name, right, passwords.Request{}, nil); ok || err != nil {
			t.Errorf("%s: %+v, %v, %v", name, login, ok, err)
		}
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "alice: ") || !strings.Contains(told[0], "DES crypt") {
		t.Errorf("%q", told)
	}
}

// The look-up before the limits may have failed, or was of another moment.
func TestR1NoPasswordIsCheckedForANameThatWasNotCounted(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	p := h.login("login", h.gate, h.checker).Passwords
	var compared int
	p.Checker, _ = passwords.NewChecker(bcrypt.MinCost, func(*passwords.Hash, string) bool { compared++; return true })
	p.Normalise = h.Guard.Normalise
	alice := h.people.all["alice"]
	alice.Account = "Alice" // a column's spelling
	h.people.all["alice"], h.people.all["alice@example.org"] = alice, alice
	for _, password := range []string{right, "wrong"} {
		_, ok, err := p.Check(t.Context(), "alice@example.org", password, passwords.Request{}, nil)
		if ok || !errors.Is(err, accounts.ErrNotCounted) || compared != 0 {
			t.Errorf("by another name: %v, %v, %d comparisons", ok, err, compared)
		}
	}
	if _, ok, err := p.Check(t.Context(), "alice", right, passwords.Request{}, nil); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}
