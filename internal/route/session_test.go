package route

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// What is made up has the form of the password that it stands for, and is another one.
func TestWhatIsMadeUpIsAnotherPasswordOfTheSameForm(t *testing.T) {
	t.Parallel()
	kinds := func(s string) (all []bool) {
		for _, c := range s {
			all = append(all, unicode.IsLower(c), unicode.IsUpper(c), unicode.IsDigit(c), c > unicode.MaxASCII)
		}
		return all
	}
	check := func(t rapid.TB, password string) {
		made := MadeUp("alice", password)
		if strings.EqualFold(made, password) || len(made) != len(password) || !utf8.ValidString(made) {
			t.Fatalf("%q for %q", made, password)
		}
		for _, c := range password {
			if c > unicode.MaxASCII {
				return // of which there are too many kinds
			}
		}
		for i, kind := range kinds(made) {
			if kind != kinds(password)[i] {
				t.Fatalf("%q for %q", made, password)
			}
		}
	}
	for _, one := range []string{
		"a", "Z", "7", "!", " ", "!!!!", "Correct-Horse-7", "пароль", "Ārger", "\u07ff\uffff\U0010ffff", strings.Repeat("x", 300),
	} {
		check(t, one)
	}
	for c := range unicode.MaxRune {
		if utf8.ValidRune(c) {
			check(t, string(c))
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.StringN(1, 40, -1).Draw(t, "password")) })
	if MadeUp("alice", "") == "" {
		t.Error("nothing is made up for an empty password")
	}
}

// Repeated probes of one account check one made-up password, or two: a PIN has few.
func TestMadeUpPasswordsOfOneFormatAreFew(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range 10_000 {
		seen[MadeUp("alice", fmt.Sprintf("%04d", i))] = true
	}
	if len(seen) > 2 {
		t.Errorf("%d made-up passwords, want 2 at most", len(seen))
	}
	digits := map[string]bool{} // as Python's int() reads them
	first := MadeUp("alice", "0000")
	for _, pin := range []string{"0000", "1111", first, MadeUp("alice", first)} {
		for _, zero := range []rune{'0', '\uff10', '\u0660'} {
			for _, beside := range []string{"", "_", " ", "+", "\u200b"} {
				inScript := strings.Map(func(c rune) rune { return c - '0' + zero }, pin)
				made := MadeUp("alice", beside+inScript+beside)
				digits[strings.Map(func(c rune) rune {
					if !unicode.IsDigit(c) {
						return -1
					}
					return (c-zero)%10 + '0'
				}, made)] = true
			}
		}
	}
	if len(digits) > 2 {
		t.Errorf("%d made-up PINs, want 2 at most", len(digits))
	}
	if chosen := MadeUp("alice", strings.Map(func(c rune) rune { return c ^ 2 }, "длинныйпароль")); chosen == "длинныйпароль" {
		t.Error("an attacker chooses the made-up password")
	}
	others := map[string]bool{}
	for i := range 100 {
		others[MadeUp(fmt.Sprint("user", i), "0000")] = true
	}
	if len(others) < 50 {
		t.Errorf("100 accounts share %d made-up passwords", len(others))
	}
}

// An app's schema takes a digest for what it is only if it is hexadecimal.
func TestAMadeUpDigestIsHexadecimal(t *testing.T) {
	t.Parallel()
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte("secret")))
	made := MadeUp("alice", digest)
	if strings.Trim(made, "0123456789abcdef") != "" || len(made) != len(digest) || made == digest {
		t.Errorf("%s, made up for %s", made, digest)
	}
	if other := MadeUp("alice", fmt.Sprintf("%x", sha256.Sum256([]byte("another")))); other != made {
		t.Errorf("%s and %s: each is a guess", made, other)
	}
}

// A made-up name is no real account: another customer number would be one.
func TestAMadeUpNameIsNoAccount(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"4711", "bob", "0151-2345678", "bob@example.org", "7@example.org", "a.long-name", ""} {
		made := madeUpName(name)
		own, domain, _ := strings.Cut(made, "@")
		_, want, _ := strings.Cut(name, "@")
		if n := len(regexp.MustCompile(`[^a-z]`).ReplaceAllString(own, "")); n < 9 || domain != want || made != madeUpName(name) {
			t.Errorf("%q for %q", made, name)
		}
	}
	if madeUpName("4711") != madeUpName("4712") {
		t.Error("each name has another, and with it another guess")
	}
}

// What is sent in place of an attempt differs from it in one value: apps reject a number or a digest that has changed.
func TestASpoiledRequestKeepsTheRest(t *testing.T) {
	t.Parallel()
	const body = `{"id": 9223372036854775807, "in":{"user" :"bob" ,"list":["user"],"secret":"x\u0041"},"kind":1}`
	one, err := Compile(Spec{Name: "login", Path: "/login", Account: "json:/in/user", Password: "json:/in/secret",
		Success: []string{"status 200"}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Digest", "sha-256=:x:")
	_, o, err := Table{one}.Find(r, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for other, want := range map[Credential]string{
		{Password: `"`}: strings.Replace(body, `"x\u0041"`, `"\""`, 1), {Account: "eve"}: strings.Replace(body, "bob", "eve", 1),
	} {
		if got := string(o.Spoil(r, []byte(body), other)); got != want || r.Header.Get("Content-Digest") != "" {
			t.Errorf("%+v: %s, want %s, %v", other, got, want, r.Header)
		}
	}
}
