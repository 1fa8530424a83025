package passwords

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// counting is a Compare that adds up the work, in bcrypt rounds, and does none.
type counting struct {
	t     *testing.T
	work  int
	right string // the hash that matches
}

func (c *counting) compare(hash, _ []byte) error {
	cost, err := bcrypt.Cost(hash)
	if err != nil || len(hash) != hashLength {
		c.t.Errorf("compared with %q: %v", hash, err)
	}
	c.work += 1 << cost
	if string(hash) == c.right {
		return nil
	}
	return bcrypt.ErrMismatchedHashAndPassword
}

func hashOf(cost int) string {
	return "$2y$" + string(dummy(cost)[4:])
}

func TestEveryCheckTakesTheSameWork(t *testing.T) {
	t.Parallel()
	const target = 1 << 12
	for name, stored := range map[string]Stored{
		"unknown account": {},
		"no password":     {Usable: true},
		"disabled":        {Hash: hashOf(12)},
		"known":           {Hash: hashOf(12), Usable: true},
		"old hash":        {Hash: hashOf(4), Usable: true},
		"older, disabled": {Hash: hashOf(10)},
		"not bcrypt":      {Hash: "$6$salt$abc", Usable: true},
		"broken":          {Hash: hashOf(10)[:59] + "!", Usable: true},
		"far too costly":  {Hash: hashOf(31), Usable: true},
	} {
		for _, right := range []string{"", stored.Hash} {
			count := &counting{t: t, right: right}
			c, err := NewChecker(12, count.compare)
			if err != nil {
				t.Fatal(err)
			}
			c.Check(stored, "secret")
			if count.work != target {
				t.Errorf("%s: work %d, want %d", name, count.work, target)
			}
		}
	}
}

func TestTheHighestCostSeenIsWhatEverybodyPays(t *testing.T) {
	t.Parallel()
	count := &counting{t: t}
	c, _ := NewChecker(10, count.compare)
	c.Saw(13)
	c.Saw(11)
	for _, stored := range []Stored{{}, {Hash: hashOf(10)}, {Hash: hashOf(13)}} {
		count.work = 0
		c.Check(stored, "x")
		if count.work != 1<<13 {
			t.Errorf("%q: work %d", stored.Hash, count.work)
		}
	}
	c.Check(Stored{Hash: hashOf(14)}, "x")
	count.work = 0
	c.Check(Stored{}, "x")
	if count.work != 1<<14 {
		t.Errorf("after a hash of cost 14 an unknown account costs %d", count.work)
	}
	c.Saw(31)
	count.work = 0
	c.Check(Stored{}, "x")
	if count.work != 1<<MaxCost {
		t.Errorf("a cost of 31 makes everybody pay %d", count.work)
	}
}

func TestOnlyTheRightPasswordOfAUsableAccountIsRight(t *testing.T) {
	t.Parallel()
	c, err := NewChecker(5, nil)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := c.Hash("right")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		stored   Stored
		password string
		want     bool
	}{
		{Stored{hash, true}, "right", true},
		{Stored{"$2y$" + hash[4:], true}, "right", true},
		{Stored{hash, true}, "wrong", false},
		{Stored{hash, true}, "", false},
		{Stored{hash, false}, "right", false},
		{Stored{"", true}, "", false},
		{Stored{}, "right", false},
	} {
		if got, err := c.Check(test.stored, test.password); got != test.want || err != nil {
			t.Errorf("%+v, %q: %v, %v", test.stored, test.password, got, err)
		}
	}
}

func TestR19LongPasswordsAreRefusedBeforeHashing(t *testing.T) {
	t.Parallel()
	count := &counting{t: t}
	c, _ := NewChecker(10, count.compare)
	if _, err := c.Check(Stored{}, strings.Repeat("é", 37)); !errors.Is(err, ErrTooLong) || count.work != 0 {
		t.Errorf("%v after work %d", err, count.work)
	}
	if _, err := c.Hash(strings.Repeat("x", 73)); !errors.Is(err, ErrTooLong) {
		t.Errorf("Hash: %v", err)
	}
	if _, err := c.Check(Stored{}, strings.Repeat("x", 72)); err != nil {
		t.Errorf("72 bytes: %v", err)
	}
}

// bcrypt's key is the password and a NUL, again and again until it has 72 bytes:
// to it "p", NUL, "p" is "p".
func TestR19WhatBcryptRepeatsIsRefusedBeforeHashing(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte("pass"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := NewChecker(bcrypt.MinCost, nil)
	for _, password := range []string{"pass\x00pass", "pass\x00", "\x00"} {
		if ok, err := c.Check(Stored{Hash: string(hash), Usable: true}, password); ok || !errors.Is(err, ErrNUL) {
			t.Errorf("%q: %v, %v", password, ok, err)
		}
		if _, err := c.Hash(password); !errors.Is(err, ErrNUL) {
			t.Errorf("Hash of %q: %v", password, err)
		}
	}
	if ok, err := c.Check(Stored{Hash: string(hash), Usable: true}, "pass"); !ok || err != nil {
		t.Errorf("the password itself: %v, %v", ok, err)
	}
}

func TestHashesThatCannotBeUsedAreNamed(t *testing.T) {
	t.Parallel()
	for hash, says := range map[string]string{
		"$apr1$r31$x": "Apache MD5", "{SHA}x=": "SHA-1", "$6$x$y": "SHA-512", "$argon2id$v=19": "Argon2",
		"rqXexS6ZhobKA": "DES", "hunter2": "plain text", hashOf(31): "cost 31", hashOf(9)[:40]: "broken",
		"$2x" + hashOf(9)[3:]: "$2x$",
	} {
		if _, err := CostOf(hash); !errors.Is(err, ErrHash) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", hash, err, says)
		}
	}
	if cost, err := CostOf(hashOf(9)); cost != 9 || err != nil {
		t.Errorf("cost %d, %v", cost, err)
	}
}

func TestImpossibleCostsAreRefused(t *testing.T) {
	t.Parallel()
	for _, cost := range []int{-1, 3, 17} {
		if _, err := NewChecker(cost, nil); err == nil {
			t.Errorf("cost %d was taken", cost)
		}
	}
}

func TestADummyIsARealHashThatNothingMatches(t *testing.T) {
	t.Parallel()
	if err := bcrypt.CompareHashAndPassword(dummy(4), []byte("x")); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		t.Errorf("got %v", err)
	}
}
