package seal_test

import (
	"bytes"
	"testing"

	"authguard/internal/seal"
)

func box(t *testing.T, purpose string) *seal.Box {
	t.Helper()
	b, err := seal.NewBox([]byte("a secret of the tests"), purpose)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOnlyTheSamePurposeAndBoundOpen(t *testing.T) {
	t.Parallel()
	b := box(t, "forms")
	text := b.Seal([]byte("hunter2"), "/login")
	if plain, err := b.Open(text, "/login"); err != nil || string(plain) != "hunter2" {
		t.Errorf("%q, %v", plain, err)
	}
	if plain, err := box(t, "forms").Open(text, "/login"); err != nil || string(plain) != "hunter2" {
		t.Errorf("on another node: %q, %v", plain, err)
	}
	for i := range text {
		forged := []byte(text)
		forged[i] ^= 1
		if plain, err := b.Open(string(forged), "/login"); err == nil {
			t.Errorf("with another byte %d: %q", i, plain)
		}
	}
	if _, err := b.Open(text, "/other"); err == nil {
		t.Error("opened for another path")
	}
	if _, err := box(t, "tickets").Open(text, "/login"); err == nil {
		t.Error("opened with another purpose's key")
	}
	if b.Seal([]byte("hunter2"), "/login") == text {
		t.Error("the same text twice")
	}
}

func TestRoomIsWhatFits(t *testing.T) {
	t.Parallel()
	b := box(t, "tickets")
	for _, size := range []int{64, 1023, 1024} {
		if n := len(b.Seal(make([]byte, b.Room(size)), "")); n > size || n < size-1 {
			t.Errorf("%d bytes of %d", n, size)
		}
	}
}

func TestAShortSecretDerivesNoKey(t *testing.T) {
	t.Parallel()
	if _, err := seal.Key(make([]byte, 15), "x", 32); err == nil {
		t.Error("derived")
	}
	if _, err := seal.NewBox(nil, "x"); err == nil {
		t.Error("made a box")
	}
}

// RFC 4231, test case 2.
func TestMAC(t *testing.T) {
	t.Parallel()
	want := []byte{0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e}
	if got := seal.MAC([]byte("Jefe"), "what do ya ", "want for nothing?"); !bytes.HasPrefix(got, want) {
		t.Errorf("%x", got)
	}
}
