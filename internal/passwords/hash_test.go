package passwords

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
)

const vectorPassword = "correct horse"

// A vector is a hash that another program made of vectorPassword.
type vector struct{ tool, hash string }

func vectors(t testing.TB) (all []vector) {
	t.Helper()
	text, err := os.ReadFile("testdata/hashes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if tool, hash, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			all = append(all, vector{tool, hash})
		}
	}
	if len(all) != 47 {
		t.Fatalf("%d hashes", len(all))
	}
	return all
}

func TestHashesOfOtherProgramsAreChecked(t *testing.T) {
	t.Parallel()
	kinds := map[string]bool{}
	for _, v := range vectors(t) {
		h, err := Parse(v.hash)
		if err != nil {
			t.Errorf("%s: %v", v.tool, err)
			continue
		}
		kinds[h.Kind()] = true
		decoy := h.decoy()
		switch {
		case !h.matches(vectorPassword):
			t.Errorf("%s (%s): the right password is wrong", v.tool, h.Kind())
		case h.matches("correct horse "):
			t.Errorf("%s (%s): a wrong password is right", v.tool, h.Kind())
		case decoy.matches(vectorPassword) || decoy.recipe != h.recipe:
			t.Errorf("%s (%s): its decoy %+v", v.tool, h.Kind(), decoy)
		}
	}
	if len(kinds) != 20 {
		t.Errorf("%d kinds: %v", len(kinds), kinds)
	}
}

// WordPress hashes what PHP's magic quotes once made of a form.
func TestWordPressPasswordsMayHaveQuotationMarks(t *testing.T) {
	t.Parallel()
	for _, hash := range []string{"$P$BVtWgzqW4tdCBPXuW7KU/EgXp/5G58.", "$wp$2y$05$SLuCA2MHnUkm4uK4ZXhhkeH6tEadbuhhBj8qo56/lO4ADtdB/GvqC"} {
		h, err := Parse(hash)
		if err != nil || !h.matches(`it's "a" \`) || h.matches(`its "a" \`) {
			t.Errorf("%s: %v", h.Kind(), err)
		}
	}
}

func TestLongPasswordsOfCryptAreChecked(t *testing.T) {
	t.Parallel()
	for hash, length := range map[string]int{
		"$5$rounds=1200$Vdd5Ze5bsmk8xZ14$iG.DXn5vKGzjsWoDMezl8RI4joevIBykMBhycTP/bH9":                                            200,
		"$6$rounds=1200$N075o6AoZD/29gz7$Hwm3TBypBjbDk7BJAlsLTsQ4znSBz4Uu37dyZf33jUHkVVxtbQTV/ZhZY93LWAwGNp7O2aqlj3LAEQm1030V60": 200,
		"$1$XOeydlmn$ttcp6u0NH/PXxxk6/Xd3K1": 100,
	} {
		h, err := Parse(hash)
		if err != nil || !h.matches(strings.Repeat("x", length)) || h.matches(strings.Repeat("x", length-1)) {
			t.Errorf("%s: %v", h.Kind(), err)
		}
	}
}

// R19: bcrypt reads 72 bytes of a password, and none of what follows.
func TestR19NoPasswordIsCutOff(t *testing.T) {
	t.Parallel()
	c, _ := NewChecker(4, nil)
	long := strings.Repeat("x", MaxNew)
	hash, err := c.Hash(long)
	if err != nil {
		t.Fatal(err)
	}
	for password, want := range map[string]bool{long: true, long + "y": false, long + long: false} {
		if got, err := c.Check(&Stored{Hash: hash, Usable: true}, password); got != want || err != nil {
			t.Errorf("%d bytes: %v, %v", len(password), got, err)
		}
	}
}

func TestR19HashesThatCostTooMuchAreRefusedAndNamed(t *testing.T) {
	t.Parallel()
	for hash, kind := range map[string]string{
		"$argon2id$v=19$m=4194304,t=1,p=1$c29tZXNhbHQ$ZUDqUgMuBMaaeInW9f9JPW7gJRYc7LolDNmfiyqbGOo":     "Argon2id",
		"$argon2id$v=19$m=65536,t=4294967295,p=1$c29tZXNhbHQ$ZUDqUgMuBMaaeInW9f9JPW7gJRYc7LolDNmfiyqb": "Argon2id",
		"$argon2i$v=19$m=65536,t=33,p=1$c29tZXNhbHQ$ZUDqUgMuBMaaeInW9f9JPW7gJRYc7LolDNmfiyqb":          "Argon2i",
		"pbkdf2_sha256$1000000000$saltsaltsalt$F7o7+5VTVzFAO998X6s3AHrDsJVdMiIlgndIMe19NvY=":           "PBKDF2-SHA256",
		"$pbkdf2-sha512$99999999999999999999$672XMmZMyfk$vCVtr0nKfCCdYxFIFQd2O3ZZayEuBvZBHKu8ke":       "PBKDF2-SHA512",
		"$2b$31$0yvY.UkZAHUWBmTaW2l54enKRR2kgsr1fLIuox5s0XlEI1Jn1xOC6":                                 "bcrypt",
		"$2b$17$0yvY.UkZAHUWBmTaW2l54enKRR2kgsr1fLIuox5s0XlEI1Jn1xOC6":                                 "bcrypt",
		"$6$rounds=999999999$saltsalt$" + strings.Repeat("a", 86):                                      "SHA-512 crypt",
		"$5$rounds=1000001$saltsalt$" + strings.Repeat("a", 43):                                        "SHA-256 crypt",
		"$scrypt$ln=31,r=8,p=1$GEOIUao1hvDee4$jfeYNqfWmBl7MWC6vXuDSo2yqy1":                             "scrypt",
		"$scrypt$ln=14,r=8,p=100000$GEOIUao1hvDee4$jfeYNqfWmBl7MWC6vXuDSo2yqy1":                        "scrypt",
		"scrypt$1073741824$saltsaltsalt$8$1$JLoeRlAiVzz":                                               "scrypt",
		"scrypt:1024:1073741824:1$saltsaltsalt$24ba1e46":                                               "scrypt",
		"$y$jFT$eHYVHiYb9nvGk.h5ihQ/71$t8yGzLWDSDl.XLaGbImcXiG..d6n4n13tlsUFTxu6r3":                    "yescrypt",
		"$P$SbFsrVZUDdgN2Jr6TnlkX9JqpObDd..":                                                           "phpass",
	} {
		_, err := Parse(hash)
		if !errors.Is(err, ErrHash) || !errors.Is(err, errCost) || !strings.Contains(err.Error(), "it is "+kind+", more expensive") {
			t.Errorf("%.40s: %v", hash, err)
		}
	}
}

func TestHashesThatCannotBeCheckedAreNamed(t *testing.T) {
	t.Parallel()
	for hash, says := range map[string]string{
		"6FZSgRFTLxtYc": "DES crypt", "hunter2": "plain text",
		"$2x$05$0yvY.UkZAHUWBmTaW2l54enKRR2kgsr1fLIuox5s0XlEI1Jn1xOC6":                       "$2x$",
		"$2b$05$0yvY.UkZAHUWBmTaW2l54enKRR2kgsr1fLIuox5s0XlEI1Jn1xO":                         "bcrypt, damaged",
		"$2b$03$0yvY.UkZAHUWBmTaW2l54enKRR2kgsr1fLIuox5s0XlEI1Jn1xOC6":                       "bcrypt, damaged",
		"$7$CU..../....xyNcEdA2nBtEtIq0trw2c.$8S888QgGXdLFO8.HC0.j2JmTnXwZ8/T2sDSPhKrUGh0":   "scrypt of crypt(5)",
		"$gy$j9T$ICThXZVxTNmokchPoJ6WP0$m4baTf7uCm8KCYY67CVK8owsCqMto6sEBHKTVY5ktD0":         "gost-yescrypt",
		"$md5,rounds=78089$EVEz3xRm$$q4E9kI.zbGEGt7NGXXUmS1":                                 "Sun MD5",
		"$3$$cfc43211ba8dc470832267827cac1407":                                               "NT hash",
		"$bcrypt-sha256$v=2,t=2b,r=5$pWZf/WenDP7RrZbbINDOHO$94bG17Zko8rYwiRutugyOvS2b6fQ6vm": "passlib",
		"{SSHA512}abc": "SHA-2 of LDAP", "{CRYPT}x": "a hash of LDAP", "$S$Dabc": "Drupal",
		"$argon2id$v=16$m=256,t=2,p=1$c29tZXNhbHQ$ZUDqUgMuBMaaeInW9f9JPW": "Argon2id, damaged",
		"$argon2id$v=19$m=7,t=2,p=1$c29tZXNhbHQ$ZUDqUgMuBMaaeInW9f9JPW":   "Argon2id, damaged",
		"$argon2id$v=19$m=256,t=0,p=1$c29tZXNhbHQ$ZUDqUgMuBMaaeInW9f9JPW": "Argon2id, damaged",
		"$argon2id$v=19$m=0,t=2,p=0$c29tZXNhbHQ$ZUDqUgMuBMaaeInW9f9JPW":   "Argon2id, damaged",
		"scrypt$1023$saltsaltsalt$8$1$JLoeRlAiVzz":                        "scrypt, damaged",
		"pbkdf2_sha256$0$saltsaltsalt$F7o7":                               "PBKDF2-SHA256, damaged",
		"pbkdf2_sha512$10$saltsaltsalt$F7o7":                              "PBKDF2",
		"pbkdf2_sha256$10$saltsaltsalt$":                                  "PBKDF2-SHA256, damaged",
		"$6$" + strings.Repeat("x", 2000):                                 "SHA-512 crypt, damaged",
	} {
		_, err := Parse(hash)
		if !errors.Is(err, ErrHash) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v, want %s", hash, err, says)
		}
	}
}

// Whatever a table holds, reading it neither panics nor costs more than is allowed.
func FuzzParse(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.hash)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := Parse(text)
		if err != nil && !errors.Is(err, ErrHash) || err == nil && (h.keySize == 0 || h.Kind() == "") {
			t.Errorf("%q: %+v, %v", text, h, err)
		}
		if err == nil && h.decoy().recipe != h.recipe {
			t.Errorf("%q: another recipe", text)
		}
	})
}

// A digest that was cut off is matched by wrong passwords: of one byte, 25 of 5,120 were
// right.
func TestADigestThatWasCutOffIsRefused(t *testing.T) {
	t.Parallel()
	digest := func(n int) []byte { return []byte(strings.Repeat("k", n)) }
	plain := func(n int) string { return base64.RawStdEncoding.EncodeToString(digest(n)) }
	digits := func(n int) string { return hex.EncodeToString(digest(n)) }
	for _, c := range []struct {
		begins string
		writes func(int) string
	}{
		{"$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$", plain}, {"argon2$argon2i$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$", plain},
		{"$scrypt$ln=4,r=8,p=1$c2FsdHNhbHQ$", plain}, {"scrypt:16:8:1$saltsalt$", digits}, {"scrypt$16$saltsalt$8$1$", plain},
		{"pbkdf2_sha256$10$saltsalt$", plain}, {"$pbkdf2-sha512$10$c2FsdHNhbHQ$", plain}, {"pbkdf2:sha256:10$saltsalt$", digits},
		{"{SSHA}", plain},
	} {
		for _, n := range []int{1, 4, 15} {
			if _, err := Parse(c.begins + c.writes(n)); !errors.Is(err, ErrHash) || !strings.Contains(err.Error(), "truncated") {
				t.Errorf("%s with %d bytes: %v", c.begins, n, err)
			}
		}
		if _, err := Parse(c.begins + c.writes(32)); err != nil {
			t.Errorf("%s with 32 bytes: %v", c.begins, err)
		}
	}
}
