// Package passkeytest is an authenticator for tests.
package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
)

// A Key is an authenticator with one passkey (ES256, no attestation).
type Key struct {
	t       *testing.T
	Private *ecdsa.PrivateKey
	ID      []byte
	User    string // the user handle
	Count   uint32
	Origin  string
	Flags   byte
}

// Flags of a response.
const (
	Present  = 1
	Verified = 4
	attested = 64
)

// New returns a Key that answers at an origin.
func New(t *testing.T, origin string) *Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &Key{t: t, Private: private, ID: []byte(rand.Text()), Origin: origin, Flags: Present | Verified}
}

// Text is bytes as WebAuthn's JSON has them.
func Text(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

type options struct {
	Challenge string
	User      struct{ ID string }
	RP        struct{ ID string }
	RPID      string `json:"rpId"`
}

func (k *Key) asked(q []byte) (o options) {
	k.t.Helper()
	if err := json.Unmarshal(q, &o); err != nil {
		k.t.Fatal(err)
	}
	return o
}

func (k *Key) client(kind, challenge string) []byte {
	return fmt.Appendf(nil, `{"type":%q,"challenge":%q,"origin":%q,"crossOrigin":false}`, kind, challenge, k.Origin)
}

func (k *Key) data(rp string, flags byte) []byte {
	sum := sha256.Sum256([]byte(rp))
	return binary.BigEndian.AppendUint32(append(sum[:], flags), k.Count)
}

// Made answers the options for a new passkey.
func (k *Key) Made(q []byte) []byte {
	k.t.Helper()
	o := k.asked(q)
	user, err := base64.RawURLEncoding.DecodeString(o.User.ID)
	if err != nil {
		k.t.Fatal(err)
	}
	k.User = string(user)
	public, err := webauthncbor.Marshal(map[int]any{1: 2, 3: -7, -1: 1, -2: k.Private.X.FillBytes(make([]byte, 32)), -3: k.Private.Y.FillBytes(make([]byte, 32))})
	if err != nil {
		k.t.Fatal(err)
	}
	data := append(k.data(o.RP.ID, k.Flags|attested), make([]byte, 16)...)
	data = append(append(binary.BigEndian.AppendUint16(data, uint16(len(k.ID))), k.ID...), public...)
	attestation, err := webauthncbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": data})
	if err != nil {
		k.t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"id":%q,"rawId":%q,"type":"public-key","response":{"clientDataJSON":%q,"attestationObject":%q}}`,
		Text(k.ID), Text(k.ID), Text(k.client("webauthn.create", o.Challenge)), Text(attestation))
}

// Signs answers the options for a passkey.
func (k *Key) Signs(q []byte) []byte {
	k.t.Helper()
	o := k.asked(q)
	client, data := k.client("webauthn.get", o.Challenge), k.data(o.RPID, k.Flags)
	hash := sha256.Sum256(client)
	sum := sha256.Sum256(append(append([]byte{}, data...), hash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, k.Private, sum[:])
	if err != nil {
		k.t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"id":%q,"rawId":%q,"type":"public-key","response":{"clientDataJSON":%q,"authenticatorData":%q,"signature":%q,"userHandle":%q}}`,
		Text(k.ID), Text(k.ID), Text(client), Text(data), Text(signature), Text([]byte(k.User)))
}
