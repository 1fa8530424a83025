package passwords_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authguard/internal/passwords"
)

// write writes a file for a test and returns its path.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func build(t testing.TB, b *passwords.ListBuild) *passwords.LeakedFilter {
	t.Helper()
	b.Output = filepath.Join(t.TempDir(), "leaked.bin")
	if _, err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := passwords.ReadLeaked(b.Output)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Hashes of "password": SHA-1 and NTLM.
const (
	sha  = "5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8"
	ntlm = "8846F7EAEE8FB117AD06BDD830B7586C"
)

// Ensure that each form that a list comes in gives the same answers.
func TestAListIsReadInEachForm(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]string{
		"hashes with counts":   write(t, "pwned.txt", strings.Repeat("0", 40)+":7\r\n\n"+sha+":52256179\n"),
		"hashes, small":        write(t, "pwned.txt", strings.ToLower(sha)),
		"a file of a prefix":   write(t, sha[:5]+".txt", strings.Repeat("0", 35)+":1\n"+sha[5:]+":52256179\n"),
		"a folder of prefixes": filepath.Dir(write(t, sha[:5], sha[5:]+":3")),
		"NTLM hashes":          write(t, "pwned.txt", "\xEF\xBB\xBF"+ntlm+":52256179\n"),
		"NTLM by prefix":       write(t, ntlm[:5]+".txt", ntlm[5:]+":52256179\n"),
		"passwords":            write(t, "rockyou.txt", "123456\npassword\r\n\nletmein\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := build(t, &passwords.ListBuild{From: []string{from}})
			if !f.Has("password") {
				t.Error("password is not on the list")
			}
			hash, other := sha, ntlm
			if f.Kind == passwords.NTLM {
				hash, other = ntlm, sha
			}
			if on, err := f.HasHash(strings.ToLower(hash)); err != nil || !on {
				t.Errorf("its hash: %v %v", on, err)
			}
			for _, bad := range []string{other, hash[1:], "g" + hash[1:], ""} {
				if _, err := f.HasHash(bad); err == nil {
					t.Errorf("%q is a hash", bad)
				}
			}
		})
	}
}

// Ensure that a bad line stops the build with its place, without the text, and leaves the output as it was.
func TestABadLineIsNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		sha + ":3\nsecret\n":                   "pwned.txt:2: must be 40 hexadecimal digits and :COUNT, like the file's first line",
		sha + ":3\n" + sha + ":x":              "pwned.txt:2: the count after the colon must be a whole number",
		sha + "\n\n" + sha + ":-1":             "pwned.txt:3: the count after the colon must be a whole number",
		sha + ":3\n" + ntlm + ":3":             "pwned.txt:2: must be 40 hexadecimal digits and :COUNT, like the file's first line",
		"secret\n" + strings.Repeat("x", 5000): "pwned.txt:2: the line is longer than 4096 bytes",
		"\n\n":                                 "there are no passwords to put on the list",
		sha + ":0\n":                           "there are no passwords to put on the list",
	} {
		out := write(t, "out.bin", "before")
		_, err := (&passwords.ListBuild{From: []string{write(t, "pwned.txt", text)}, Output: out}).Run(t.Context())
		if err == nil || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
		left, _ := os.ReadDir(filepath.Dir(out))
		if now, _ := os.ReadFile(out); string(now) != "before" || len(left) != 1 {
			t.Errorf("%.60q: the output has changed to %q, beside %d files", text, now, len(left)-1)
		}
	}
	both := []string{write(t, "a", sha), write(t, "b", ntlm)}
	_, err := (&passwords.ListBuild{From: both, Output: write(t, "out", "")}).Run(t.Context())
	if err == nil || !strings.HasSuffix(err.Error(), "b: it has NTLM hashes, and the files before have SHA-1: build a list of one kind") {
		t.Error(err)
	}
}

func TestMinCountLeavesOutRareHashes(t *testing.T) {
	t.Parallel()
	rare := hex.EncodeToString(bytes.Repeat([]byte{7}, 20))
	f := build(t, &passwords.ListBuild{From: []string{write(t, "pwned.txt", sha+":3\n"+rare+":2\n")}, MinCount: 3})
	if f.Passwords() != 1 || !f.Has("password") {
		t.Errorf("%d passwords", f.Passwords())
	}
	for _, text := range []string{sha, "a password"} {
		_, err := (&passwords.ListBuild{From: []string{write(t, "x", text)}, Output: write(t, "out", ""), MinCount: 2}).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "--min-count needs") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Ensure that a file that is cut off or changed anywhere is refused.
func TestADamagedFileIsRefused(t *testing.T) {
	t.Parallel()
	b := &passwords.ListBuild{From: []string{write(t, "list", "password\nletmein\n")}}
	build(t, b)
	whole, err := os.ReadFile(b.Output)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, bytes []byte, want string) {
		t.Helper()
		if _, err := passwords.ReadLeaked(write(t, "x", string(bytes))); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
	const other, damaged = "it was not made by authguard password-list build",
		"it is truncated or damaged: its checksum does not match"
	for at := range whole {
		want := damaged
		if at < 24 {
			want = other
		}
		refused(fmt.Sprint("the first ", at, " bytes"), whole[:at], want)
		changed := bytes.Clone(whole)
		changed[at]++
		switch {
		case at < 16:
			want = other
		case at == 16:
			want = "it is of another version of authguard: build it again"
		default:
			want = damaged
		}
		refused(fmt.Sprint("byte ", at, " changed"), changed, want)
	}
	refused("a byte more", append(bytes.Clone(whole), 0), damaged)
	if _, err := passwords.ReadLeaked(filepath.Join(t.TempDir(), "gone")); err == nil ||
		err.Error() != "it cannot be opened: no such file or directory" {
		t.Error(err)
	}
}

// FuzzRead reads files whose checksum is right: they are refused or can be asked.
func FuzzRead(f *testing.F) {
	b := &passwords.ListBuild{From: []string{write(f, "list", "password\nletmein\n")}}
	build(f, b)
	whole, _ := os.ReadFile(b.Output)
	f.Add(whole[:len(whole)-sha256.Size])
	f.Fuzz(func(t *testing.T, start []byte) {
		sum := sha256.Sum256(start)
		list, err := passwords.ReadLeaked(write(t, "x", string(start)+string(sum[:])))
		if err != nil {
			return
		}
		for i := range 100 {
			list.Has(fmt.Sprint(i))
		}
	})
}

// FuzzBuild reads lists of any form: an error, or a list that can be read.
func FuzzBuild(f *testing.F) {
	f.Add("list", sha+":3\r\n"+sha+"\n")
	f.Add(sha[:5]+".txt", sha[5:]+":3\n")
	f.Add("list", "\xEF\xBB\xBF"+ntlm+":3\n")
	f.Fuzz(func(t *testing.T, name, text string) {
		if name == "" || len(name) > 200 || strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
			t.Skip()
		}
		b := &passwords.ListBuild{From: []string{write(t, name, text)}, Output: filepath.Join(t.TempDir(), "out")}
		built, err := b.Run(t.Context())
		if err != nil {
			return
		}
		if list, err := passwords.ReadLeaked(b.Output); err != nil || list.Passwords() != built.Passwords {
			t.Fatal(err)
		}
	})
}

func TestACanceledBuildLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := filepath.Join(t.TempDir(), "out")
	_, err := (&passwords.ListBuild{From: []string{write(t, "list", "password")}, Output: out}).Run(ctx)
	if left, _ := os.ReadDir(filepath.Dir(out)); err == nil || len(left) > 0 {
		t.Errorf("%v, and %v", err, left)
	}
}

func TestCommonPasswordsAreRecognized(t *testing.T) {
	t.Parallel()
	for password, want := range map[string]bool{
		"password": true, "PassWord": true, "1234567890": true, "qwertyuiop": true, "": false, "12345": false,
		"correct horse battery staple": false, "password\n": false, "passwor": false,
	} {
		if passwords.IsCommon(password) != want {
			t.Errorf("%q: %v", password, !want)
		}
	}
}

// hashes writes n hashes with counts, as Have I Been Pwned orders them: not at all.
func hashes(t testing.TB, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pwned.txt")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var b bytes.Buffer
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		var hash [sha1.Size]byte
		for i := 0; i < len(hash); i += 4 {
			binary.LittleEndian.PutUint32(hash[i:], r.Uint32())
		}
		fmt.Fprintf(&b, "%X:%d\n", hash, 1+r.IntN(1000))
		if b.Len() > 1<<20 {
			_, _ = b.WriteTo(file)
		}
	}
	if _, err := b.WriteTo(file); err != nil {
		t.Fatal(err)
	}
	return path
}

func BenchmarkHas(b *testing.B) {
	f := build(b, &passwords.ListBuild{From: []string{hashes(b, 10_000_000)}})
	words := make([]string, 1<<16)
	for i := range words {
		words[i] = fmt.Sprint("password ", i)
	}
	i := 0
	for b.Loop() {
		f.Has(words[i&(len(words)-1)])
		i++
	}
}

// Ensure that a list follows its file: a replacement is in force after two checks, and one that is cut off, changed or
// gone leaves the previous one in force.
func TestAListFollowsItsFile(t *testing.T) {
	t.Parallel()
	path, now := filepath.Join(t.TempDir(), "leaked.bin"), time.Now().Add(-time.Hour)
	var log bytes.Buffer
	list := &passwords.LeakedList{Log: slog.New(slog.NewTextHandler(&log, nil))}
	content := func(password string) []byte {
		b := &passwords.ListBuild{From: []string{write(t, "list", password)}}
		build(t, b)
		whole, err := os.ReadFile(b.Output)
		if err != nil {
			t.Fatal(err)
		}
		return whole
	}
	becomes := func(whole []byte) { // in place
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
		if err := os.Chtimes(path, now, now); err != nil {
			t.Fatal(err)
		}
	}
	has := func(when, password, kept string) {
		t.Helper()
		if s := list.State(); !list.Has(password) || s.Kept != kept || s.Passwords != 1 {
			t.Errorf("%s: %+v, %s: %v", when, s, password, list.Has(password))
		}
	}
	first, second := content("password"), content("letmein1")
	becomes(first)
	list.Configure(path, true)
	has("at the start", "password", "")
	becomes(second)
	list.Check(t.Context())
	has("while it may be being written", "password", "")
	list.Check(t.Context())
	has("replaced", "letmein1", "")
	damaged := bytes.Clone(first)
	damaged[60]++
	for what, whole := range map[string][]byte{"cut off": first[:len(first)-1], "changed": damaged, "empty": nil} {
		log.Reset()
		becomes(whole)
		for range 3 {
			list.Check(t.Context())
		}
		if why := list.State().Kept; why == "" || strings.Count(log.String(), "WARN") > 1 {
			t.Errorf("%s: %q, %s", what, why, &log)
		}
		has(what, "letmein1", list.State().Kept)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	list.Check(t.Context())
	list.Check(t.Context())
	has("removed", "letmein1", "it cannot be opened: no such file or directory")
	becomes(first)
	list.Check(t.Context())
	list.Check(t.Context())
	has("mended", "password", "")
	list.Configure(path+" elsewhere", true)
	has("another file, which is missing", "password", "it cannot be opened: no such file or directory")
	if list.Configure("", true); list.Has("password") || list.State() != (passwords.LeakedState{}) {
		t.Errorf("without a file: %+v", list.State())
	}
}
