package mfa_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"

	"authguard/internal/database/databasetest"
	"authguard/internal/mfa"
)

var here = mfa.Site{Host: "localhost", Origins: []string{"http://localhost:8081"}}

// A key is an authenticator with one passkey (ES256, no attestation).
type key struct {
	t       *testing.T
	private *ecdsa.PrivateKey
	id      []byte
	user    string
	count   uint32
	origin  string
	flags   byte
}

const present, verified, attested = 1, 4, 64

func newKey(t *testing.T) *key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &key{t: t, private: private, id: []byte(rand.Text()), origin: here.Origins[0], flags: present | verified}
}

type options struct {
	Challenge string
	User      struct{ ID string }
	RP        struct{ ID string }
	RPID      string `json:"rpId"`
}

func (k *key) asked(q mfa.Question) (o options) {
	k.t.Helper()
	if err := json.Unmarshal(q.Options, &o); err != nil {
		k.t.Fatal(err)
	}
	return o
}

func (k *key) client(kind, challenge string) []byte {
	return fmt.Appendf(nil, `{"type":%q,"challenge":%q,"origin":%q,"crossOrigin":false}`, kind, challenge, k.origin)
}

func (k *key) data(rp string, flags byte) []byte {
	sum := sha256.Sum256([]byte(rp))
	return binary.BigEndian.AppendUint32(append(sum[:], flags), k.count)
}

func b64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// made answers a question for a new passkey.
func (k *key) made(q mfa.Question) []byte {
	k.t.Helper()
	o := k.asked(q)
	user, err := base64.RawURLEncoding.DecodeString(o.User.ID)
	if err != nil {
		k.t.Fatal(err)
	}
	k.user = string(user)
	public, err := webauthncbor.Marshal(map[int]any{1: 2, 3: -7, -1: 1, -2: k.private.X.FillBytes(make([]byte, 32)), -3: k.private.Y.FillBytes(make([]byte, 32))})
	if err != nil {
		k.t.Fatal(err)
	}
	data := append(k.data(o.RP.ID, k.flags|attested), make([]byte, 16)...)
	data = append(append(binary.BigEndian.AppendUint16(data, uint16(len(k.id))), k.id...), public...)
	attestation, err := webauthncbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": data})
	if err != nil {
		k.t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"id":%q,"rawId":%q,"type":"public-key","response":{"clientDataJSON":%q,"attestationObject":%q}}`,
		b64(k.id), b64(k.id), b64(k.client("webauthn.create", o.Challenge)), b64(attestation))
}

// signs answers a question for a passkey.
func (k *key) signs(q mfa.Question) []byte {
	k.t.Helper()
	o := k.asked(q)
	client, data := k.client("webauthn.get", o.Challenge), k.data(o.RPID, k.flags)
	hash := sha256.Sum256(client)
	sum := sha256.Sum256(append(append([]byte{}, data...), hash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, k.private, sum[:])
	if err != nil {
		k.t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"id":%q,"rawId":%q,"type":"public-key","response":{"clientDataJSON":%q,"authenticatorData":%q,"signature":%q,"userHandle":%q}}`,
		b64(k.id), b64(k.id), b64(client), b64(data), b64(signature), b64([]byte(k.user)))
}

// adds gives ann a passkey.
func (d *desk) adds(k *key) {
	d.t.Helper()
	q, err := d.AskNew(d.t.Context(), here, d.ann)
	d.must(err)
	d.must(d.Add(d.t.Context(), here, d.ann, "phone", q.State, k.made(q)))
}

func (d *desk) asks(account string) mfa.Question {
	d.t.Helper()
	q, err := d.AskProof(d.t.Context(), here, account)
	d.must(err)
	return q
}

func TestAPasskeyAnswersWhatWasAskedOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d, k := newDesk(t, db), newKey(t)
		d.adds(k)
		other := d.node("the server's secret")
		for _, asked := range []string{"", d.ann.ID} { // as a whole login, and as the second factor
			q := d.asks(asked)
			k.count++
			answer := k.signs(q)
			who, known, err := other.Claims(t.Context(), answer)
			if who != d.ann || !known || err != nil {
				t.Fatalf("%+v, %t, %v", who, known, err)
			}
			if err := other.CheckPasskey(t.Context(), here, d.ann, asked, q.State, answer); err != nil {
				t.Fatalf("asked of %q: %v", asked, err)
			}
			if err := d.CheckPasskey(t.Context(), here, d.ann, asked, q.State, answer); !errors.Is(err, mfa.ErrPasskey) {
				t.Errorf("the same answer a second time, at another node: %v", err)
			}
		}
		if kept, err := d.Of(t.Context(), d.ann.ID); err != nil || len(kept.Passkeys) != 1 || !kept.Passkeys[0].Used.Equal(noon) || kept.Passkeys[0].Name != "phone" {
			t.Errorf("%+v, %v", kept, err)
		}
	})
}

// A passkey of a phone's, which is in many places, counts nothing: what was answered is
// used up all the same.
func TestAPasskeyThatCountsNothingAnswersOnce(t *testing.T) {
	t.Parallel()
	d, k := newDesk(t, databasetest.SQLite(t)), newKey(t)
	d.adds(k)
	for range 2 {
		q := d.asks("")
		answer := k.signs(q)
		d.must(d.CheckPasskey(t.Context(), here, d.ann, "", q.State, answer))
		if err := d.CheckPasskey(t.Context(), here, d.ann, "", q.State, answer); !errors.Is(err, mfa.ErrPasskey) {
			t.Error(err)
		}
	}
}

func TestACopyOfAPasskeyEndsIt(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d, k := newDesk(t, db), newKey(t)
		d.adds(k)
		use := func(count uint32) error {
			k.count = count
			q := d.asks("")
			return d.CheckPasskey(t.Context(), here, d.ann, "", q.State, k.signs(q))
		}
		d.must(use(7))
		if err := use(7); !errors.Is(err, mfa.ErrCloned) {
			t.Errorf("the count stood still: %v", err)
		}
		if err := use(8); !errors.Is(err, mfa.ErrPasskey) {
			t.Errorf("a passkey that was copied lets in: %v", err)
		}
		if kept, err := d.Of(t.Context(), d.ann.ID); err != nil || !kept.Passkeys[0].Cloned.Equal(noon) {
			t.Errorf("%+v, %v", kept, err)
		}
	})
}

func TestAPasskeyAnswersNothingElse(t *testing.T) {
	t.Parallel()
	d, k := newDesk(t, databasetest.SQLite(t)), newKey(t)
	d.adds(k)
	for what, wrong := range map[string]func(*key, *mfa.Question, *mfa.Site, *string){
		"another origin": func(k *key, _ *mfa.Question, _ *mfa.Site, _ *string) {
			k.origin = "http://localhost.example:8081"
		},
		"a person unverified":    func(k *key, _ *mfa.Question, _ *mfa.Site, _ *string) { k.flags = present },
		"another key":            func(k *key, _ *mfa.Question, _ *mfa.Site, _ *string) { k.private = newKey(t).private },
		"another passkey":        func(k *key, _ *mfa.Question, _ *mfa.Site, _ *string) { k.id = []byte("made up") },
		"another account":        func(k *key, _ *mfa.Question, _ *mfa.Site, _ *string) { k.user = "eve" },
		"asked of somebody else": func(_ *key, _ *mfa.Question, _ *mfa.Site, asked *string) { *asked = "eve" },
		"another name of ours":   func(_ *key, _ *mfa.Question, at *mfa.Site, _ *string) { at.Host = "admin.example.org" },
		"too late":               func(*key, *mfa.Question, *mfa.Site, *string) { d.clock.Advance(5*time.Minute + time.Second) },
		"nothing that was asked": func(_ *key, q *mfa.Question, _ *mfa.Site, _ *string) { q.State = "x" },
		"asked for a new one": func(_ *key, q *mfa.Question, _ *mfa.Site, _ *string) {
			other, err := d.AskNew(t.Context(), here, d.ann)
			d.must(err)
			q.State = other.State
		},
	} {
		copied, q, at, asked := *k, d.asks(""), here, ""
		copied.count = 9
		before := q
		wrong(&copied, &q, &at, &asked)
		if err := d.CheckPasskey(t.Context(), at, d.ann, asked, q.State, copied.signs(before)); !errors.Is(err, mfa.ErrPasskey) {
			t.Errorf("%s: %v", what, err)
		}
	}
	q, err := d.AskNew(t.Context(), here, d.ann)
	d.must(err)
	if err := d.Add(t.Context(), here, mfa.Owner{ID: "eve", Name: "eve"}, "", q.State, newKey(t).made(q)); !errors.Is(err, mfa.ErrPasskey) {
		t.Errorf("what was asked for ann was added to eve: %v", err)
	}
}

// Whoever knows the ID of somebody's passkey neither removes nor renames it.
func TestAPasskeyIsChangedByItsOwnerOnly(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d, k := newDesk(t, db), newKey(t)
		d.adds(k)
		id := b64(k.id)
		for _, err := range []error{
			d.RemovePasskey(t.Context(), "somebody", id), d.RenamePasskey(t.Context(), "somebody", id, "mine"),
			d.RemovePasskey(t.Context(), d.ann.ID, "x"), d.RenamePasskey(t.Context(), d.ann.ID, "x", "mine"),
		} {
			if !errors.Is(err, mfa.ErrUnknown) {
				t.Error(err)
			}
		}
		d.must(d.RenamePasskey(t.Context(), d.ann.ID, id, " \u202ework "+strings.Repeat("é", 60)))
		if kept, err := d.Of(t.Context(), d.ann.ID); err != nil || len(kept.Passkeys) != 1 || len(kept.Passkeys[0].Name) > 60 || !utf8.ValidString(kept.Passkeys[0].Name) {
			t.Errorf("%+v, %v", kept, err)
		}
		d.must(d.RemovePasskey(t.Context(), d.ann.ID, id))
	})
}

func TestAnAccountHasTwentyPasskeysAtMost(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		asked, err := d.AskNew(t.Context(), here, d.ann) // before there are so many
		d.must(err)
		for i := range mfa.MostPasskeys {
			_, err := db.Exec(`INSERT INTO passkeys (id, account, host, data, created_at) VALUES ($1, $2, 'localhost', '{}', 1)`, fmt.Sprint(i), d.ann.ID)
			d.must(err)
		}
		if _, err := d.AskNew(t.Context(), here, d.ann); !errors.Is(err, mfa.ErrMost) {
			t.Errorf("asked for one more: %v", err)
		}
		if err := d.Add(t.Context(), here, d.ann, "one more", asked.State, newKey(t).made(asked)); !errors.Is(err, mfa.ErrPasskey) {
			t.Errorf("one more that was asked for before: %v", err)
		}
	})
}
