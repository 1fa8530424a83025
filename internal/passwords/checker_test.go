package passwords

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// counting is a Compare that notes what it would do, and does nothing.
type counting struct {
	did   []recipe
	right bool
}

func (c *counting) compare(h *Hash, _ string) bool {
	c.did = append(c.did, h.recipe)
	return c.right
}

func hashOf(t *testing.T, cost int) string {
	t.Helper()
	return strings.Replace(aBcrypt, "$05$", map[int]string{4: "$04$", 10: "$10$", 12: "$12$", 31: "$31$"}[cost], 1)
}

const (
	aPBKDF2 = "pbkdf2_sha256$1000$saltsaltsalt$F7o7+5VTVzFAO998X6s3AHrDsJVdMiIlgndIMe19NvY="
	aBcrypt = "$2b$05$0yvY.UkZAHUWBmTaW2l54enKRR2kgsr1fLIuox5s0XlEI1Jn1xOC6"
	anApr1  = "$apr1$fAFnt3mN$ReKmiQO4pVTZetrP2svuZ0"
	aDES    = "6FZSgRFTLxtYc"
)

func TestR12EveryCheckIsOneCheckOfARecipeThatAccountsHave(t *testing.T) {
	t.Parallel()
	twelve, err := Parse(hashOf(t, 12))
	if err != nil {
		t.Fatal(err)
	}
	for name, stored := range map[string]Stored{
		"unknown account": {},
		"no password":     {Usable: true},
		"Django's none":   {Hash: "!abc", Usable: true},
		"disabled":        {Hash: hashOf(t, 12)},
		"known":           {Hash: hashOf(t, 12), Usable: true},
		"no kind of hash": {Hash: "secret", Usable: true},
		"broken":          {Hash: hashOf(t, 10)[:59] + "!", Usable: true},
		"far too costly":  {Hash: hashOf(t, 31), Usable: true},
	} {
		for _, right := range []bool{true, false} {
			count := &counting{right: right}
			c, err := NewChecker(10, count.compare)
			if err != nil {
				t.Fatal(err)
			}
			c.Learn(hashOf(t, 12))
			stored := stored
			ok, err := c.Check(&stored, "secret")
			if len(count.did) != 1 || count.did[0] != twelve.recipe {
				t.Errorf("%s: %v", name, count.did)
			}
			if ok != (name == "known" && right) {
				t.Errorf("%s: %v", name, ok)
			}
			bad := name == "no kind of hash" || name == "broken" || name == "far too costly"
			if errors.Is(err, ErrHash) != bad || !bad && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
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
		{Stored{Hash: hash, Usable: true}, "right", true},
		{Stored{Hash: "$2y$" + hash[4:], Usable: true}, "right", true},
		{Stored{Hash: hash, Usable: true}, "wrong", false},
		{Stored{Hash: hash, Usable: true}, "", false},
		{Stored{Hash: hash}, "right", false},
		{Stored{Usable: true}, "", false},
		{Stored{}, "right", false},
	} {
		if got, err := c.Check(&test.stored, test.password); got != test.want || err != nil {
			t.Errorf("%+v, %q: %v, %v", test.stored, test.password, got, err)
		}
	}
}

func TestR19LongPasswordsAreRefusedBeforeHashing(t *testing.T) {
	t.Parallel()
	count := new(counting)
	c, _ := NewChecker(10, count.compare)
	if _, err := c.Check(&Stored{}, strings.Repeat("é", 129)); !errors.Is(err, ErrTooLong) || len(count.did) != 0 {
		t.Errorf("%v after %v", err, count.did)
	}
	if _, err := c.Hash(strings.Repeat("x", 73)); !errors.Is(err, ErrTooLong) {
		t.Errorf("Hash: %v", err)
	}
	if _, err := c.Check(&Stored{}, strings.Repeat("x", 256)); err != nil {
		t.Errorf("256 bytes: %v", err)
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
		if ok, err := c.Check(&Stored{Hash: string(hash), Usable: true}, password); ok || !errors.Is(err, ErrNUL) {
			t.Errorf("%q: %v, %v", password, ok, err)
		}
		if _, err := c.Hash(password); !errors.Is(err, ErrNUL) {
			t.Errorf("Hash of %q: %v", password, err)
		}
	}
	if ok, err := c.Check(&Stored{Hash: string(hash), Usable: true}, "pass"); !ok || err != nil {
		t.Errorf("the password itself: %v, %v", ok, err)
	}
}

// To HMAC, and so to PBKDF2, "p" and "p", NUL are one key.
func TestR19WhatPBKDF2FillsUpIsRefusedBeforeHashing(t *testing.T) {
	t.Parallel()
	c, _ := NewChecker(bcrypt.MinCost, nil)
	h, _ := Parse(aPBKDF2)
	if !h.matches(vectorPassword + "\x00") {
		t.Error("the two differ: there is no need to refuse a NUL")
	}
	if ok, err := c.Check(&Stored{Hash: aPBKDF2, Usable: true}, vectorPassword+"\x00"); ok || !errors.Is(err, ErrNUL) {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestHashesOfAnotherKindOrALowerCostAreOutdated(t *testing.T) {
	t.Parallel()
	c, _ := NewChecker(10, nil)
	for hash, want := range map[string]bool{
		hashOf(t, 10): false, hashOf(t, 12): false, hashOf(t, 4): true, aPBKDF2: true, anApr1: true, aDES: false, "": false,
	} {
		if c.Outdated(&Stored{Hash: hash}) != want {
			t.Errorf("%s: %v", hash, !want)
		}
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
