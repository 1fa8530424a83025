package trusted_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"authguard/trusted"
)

var (
	oldKey = bytes.Repeat([]byte{1}, trusted.MinCookieKey)
	newKey = bytes.Repeat([]byte{2}, trusted.MinCookieKey)
)

func mustCookies(t testing.TB, keys ...[]byte) *trusted.Cookies {
	t.Helper()
	c, err := trusted.NewCookies(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestACookieTellsWhatWasIssued(t *testing.T) {
	t.Parallel()
	c := mustCookies(t, oldKey)
	now := noon.Add(123 * time.Millisecond)
	account, device, issued, err := c.Parse(c.Issue(trusted.Key{9}, trusted.Key{8}, now))
	if err != nil || account != (trusted.Key{9}) || device != (trusted.Key{8}) || !issued.Equal(now) {
		t.Errorf("got %v %v %v %v", account, device, issued, err)
	}
}

func TestACookieNamesItsAccountAlone(t *testing.T) {
	t.Parallel()
	mine := trusted.Key{1, 2, 3, 13: 4}
	cookie := mustCookies(t, oldKey).Issue(mine, trusted.Key{8}, noon)
	for other, want := range map[trusted.Key]bool{mine: true, {1, 2, 3, 13: 5}: false, {2, 2, 3, 13: 4}: false} {
		if trusted.NamesAccount(cookie, other) != want {
			t.Errorf("of %v: %v", other, !want)
		}
	}
	if trusted.NamesAccount("", mine) || trusted.NamesAccount(cookie[1:], mine) {
		t.Error("what is no cookie names an account")
	}
}

func TestARotatedKeyStillVerifies(t *testing.T) {
	t.Parallel()
	cookie := mustCookies(t, oldKey).Issue(trusted.Key{9}, trusted.Key{8}, noon)
	if _, _, _, err := mustCookies(t, newKey, oldKey).Parse(cookie); err != nil {
		t.Error(err)
	}
	if _, _, _, err := mustCookies(t, newKey).Parse(cookie); !errors.Is(err, trusted.ErrCookie) {
		t.Errorf("a removed key still verifies: %v", err)
	}
	fresh := mustCookies(t, newKey, oldKey).Issue(trusted.Key{9}, trusted.Key{8}, noon)
	if _, _, _, err := mustCookies(t, newKey).Parse(fresh); err != nil {
		t.Errorf("the first key does not sign: %v", err)
	}
}

func TestNoBitOfACookieCanBeChanged(t *testing.T) {
	t.Parallel()
	c := mustCookies(t, oldKey)
	cookie := c.Issue(trusted.Key{9}, trusted.Key{8}, noon)
	raw, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(raw) * 8 {
		raw[bit/8] ^= 1 << (bit % 8)
		if _, _, _, err := c.Parse(base64.RawURLEncoding.EncodeToString(raw)); !errors.Is(err, trusted.ErrCookie) {
			t.Fatalf("bit %d may be changed", bit)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
}

func TestOnlyOneSpellingOfACookieParses(t *testing.T) {
	t.Parallel()
	c := mustCookies(t, oldKey)
	cookie := c.Issue(trusted.Key{9}, trusted.Key{8}, noon)
	last := cookie[len(cookie)-1]
	for _, other := range []string{
		"", " " + cookie, cookie + "=", cookie + "\n", cookie[:50] + "\r\n" + cookie[50:],
		cookie[:len(cookie)-1], cookie[:len(cookie)-1] + string(last+1), strings.Repeat("A", 1<<20),
	} {
		if _, _, _, err := c.Parse(other); !errors.Is(err, trusted.ErrCookie) {
			t.Errorf("%.120q parses", other)
		}
	}
}

func TestCookiesNeedAKey(t *testing.T) {
	t.Parallel()
	if _, err := trusted.NewCookies(); err == nil {
		t.Error("no key is enough")
	}
	if _, err := trusted.NewCookies(oldKey, []byte("short")); err == nil {
		t.Error("a short key is enough")
	}
}

// The keys are random: a fuzzing worker is another process and must not take
// the seeds of the first for its own.
func FuzzDeviceCookie(f *testing.F) {
	own := make([]byte, trusted.MinCookieKey)
	rand.Read(own)
	c := mustCookies(f, own)
	issued := c.Issue(trusted.Key{9}, trusted.Key{8}, noon)
	foreign := mustCookies(f, oldKey).Issue(trusted.Key{9}, trusted.Key{8}, noon)
	for _, seed := range []string{"", issued, foreign, issued[:97], issued + "A", strings.Repeat("\n", 98)} {
		f.Add(seed, uint16(0), byte(0))
		f.Add(seed, uint16(60), byte(1))
	}
	f.Fuzz(func(t *testing.T, typed string, place uint16, change byte) {
		changed := []byte(issued)
		changed[int(place)%len(changed)] ^= change
		for _, cookie := range []string{typed, string(changed)} {
			account, device, when, err := c.Parse(cookie)
			switch {
			case cookie == issued:
				if err != nil {
					t.Fatalf("what was issued does not parse: %v", err)
				}
			case !errors.Is(err, trusted.ErrCookie):
				t.Fatalf("%q parses and was never issued", cookie)
			case account != trusted.Key{} || device != trusted.Key{} || !when.IsZero():
				t.Fatal("a refused cookie says something")
			}
		}
	})
}
