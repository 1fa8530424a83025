package mfa

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"authguard/internal/database"
)

const (
	// MostPasskeys is the maximum number per account.
	MostPasskeys = 20
	// askedFor is how long a passkey may take to respond.
	askedFor = 5 * time.Minute
)

// Passkey is a passkey as its owner sees it.
type Passkey struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Host    string    `json:"host"` // where it is valid
	Created time.Time `json:"created"`
	Used    time.Time `json:"used,omitzero"`   // zero: never
	Cloned  time.Time `json:"cloned,omitzero"` // zero: no known clone; otherwise it is not accepted

	record webauthn.Credential
}

// Site is the server as browsers see it: a passkey works only there. Host is the name alone (the relying party's ID).
// Origins are the schemes, names and ports that a browser may send.
type Site struct {
	Host    string
	Origins []string
}

// SiteAt returns the Site of an origin. It returns false where passkeys cannot work: they belong to a domain name, not
// an IP address (WebAuthn, section 5.1.2). Browsers need TLS, except at localhost.
func SiteAt(origin string) (s Site, ok bool) {
	u, err := url.Parse(strings.ToLower(origin))
	if err != nil || u.Hostname() == "" {
		return s, false
	}
	s.Host = u.Hostname()
	s.Origins = []string{u.Scheme + "://" + strings.TrimSuffix(u.Host, map[string]string{"https": ":443"}[u.Scheme])}
	_, literal := netip.ParseAddr(s.Host)
	return s, literal != nil && (u.Scheme == "https" || s.Host == "localhost")
}

// relying configures the library. Passkeys must verify the user (fingerprint, face, PIN), so one is enough to sign in.
// They are discoverable: users type no name, and no name reveals a user's passkeys.
func (s Site) relying() (*webauthn.WebAuthn, error) {
	w, err := webauthn.New(&webauthn.Config{
		RPID: s.Host, RPDisplayName: "authguard", RPOrigins: s.Origins, AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{ResidentKey: protocol.ResidentKeyRequirementRequired,
			UserVerification: protocol.VerificationRequired},
	})
	if err != nil {
		return nil, fmt.Errorf("mfa: passkeys at %s: %w", s.Host, err)
	}
	return w, nil
}

// Owner is the account of a passkey. Its ID is random: passkeys store it, and must not reveal the name.
type Owner struct {
	ID, Name string
	Version  int64 // of the account when it asked for a new passkey
}

type owner struct {
	Owner
	passkeys []Passkey
}

func (o owner) WebAuthnID() []byte          { return []byte(o.ID) }
func (o owner) WebAuthnName() string        { return o.Name }
func (o owner) WebAuthnDisplayName() string { return o.Name }
func (o owner) WebAuthnCredentials() (all []webauthn.Credential) {
	for _, one := range o.passkeys {
		all = append(all, one.record)
	}
	return all
}

func (o owner) at(host string) owner {
	all := o.passkeys
	o.passkeys = nil
	for _, one := range all {
		if one.Host == host && one.Cloned.IsZero() {
			o.passkeys = append(o.passkeys, one)
		}
	}
	return o
}

// Question is a request to a browser's passkeys. State returns with the response: it seals the request, so that asking
// writes nothing.
type Question struct {
	Options json.RawMessage `json:"options"`
	State   string          `json:"state"`
}

type state struct {
	Asked   webauthn.SessionData
	Account string // empty: any account
	Until   time.Time
}

func (t *Table) question(account, purpose string, options any, asked *webauthn.SessionData) (q Question, err error) {
	if q.Options, err = json.Marshal(options); err != nil {
		return q, fmt.Errorf("mfa: %w", err)
	}
	text, err := json.Marshal(state{*asked, account, t.now().Add(askedFor)})
	if err != nil {
		return q, fmt.Errorf("mfa: %w", err)
	}
	q.State = t.box.Seal(text, purpose)
	return q, nil
}

func (t *Table) asked(account, purpose, text string) (s state, err error) {
	raw, err := t.box.Open(text, purpose)
	if err != nil || json.Unmarshal(raw, &s) != nil || s.Account != account || t.now().After(s.Until) {
		return s, ErrPasskey
	}
	return s, nil
}

const adding, proving = "passkey to add", "passkey to prove"

// AskNew asks a browser to create a passkey for an account, or returns ErrMost.
func (t *Table) AskNew(ctx context.Context, at Site, who Owner) (q Question, err error) {
	w, err := at.relying()
	if err != nil {
		return q, err
	}
	has, err := t.passkeys(ctx, who.ID)
	switch {
	case err != nil:
		return q, err
	case len(has) >= MostPasskeys:
		return q, ErrMost
	}
	there := owner{who, has}.at(at.Host)
	options, asked, err := w.BeginRegistration(there,
		webauthn.WithExclusions(webauthn.Credentials(there.WebAuthnCredentials()).CredentialDescriptors()))
	if err != nil {
		return q, fmt.Errorf("mfa: passkeys: %w", err)
	}
	return t.question(who.ID, adding, options.Response, asked)
}

// Add stores the passkey that a browser created. It returns ErrPasskey if the response does not match the request, or
// if the account has changed since: a request from an ended session must not undo what ended it.
func (t *Table) Add(ctx context.Context, at Site, who Owner, name, stateText string, answer []byte) error {
	w, err := at.relying()
	if err != nil {
		return err
	}
	s, err := t.asked(who.ID, adding, stateText)
	if err != nil {
		return err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return ErrPasskey
	}
	made, err := w.CreateCredential(owner{Owner: who}, s.Asked, parsed)
	if err != nil {
		return ErrPasskey
	}
	made.Attestation = webauthn.CredentialAttestation{} // not requested, so not stored
	data, err := json.Marshal(made)
	if err != nil {
		return fmt.Errorf("mfa: %w", err)
	}
	n, err := database.Exec(ctx, t.db, `INSERT INTO passkeys (id, account, host, name, data, sign_count, created_at)
		SELECT $1, $2, $3, $4, $5, CAST($6 AS BIGINT), CAST($7 AS BIGINT) WHERE (SELECT count(*) FROM passkeys
			WHERE account = $2) < $8 AND (SELECT version FROM accounts WHERE id = $2) = $9 ON CONFLICT (id) DO NOTHING`,
		idOf(made.ID), who.ID, at.Host, nameOf(name), string(data), made.Authenticator.SignCount, t.now().UnixMilli(),
		MostPasskeys, who.Version)
	switch {
	case err != nil:
		return fmt.Errorf("mfa: keep a passkey: %w", err)
	case n == 0:
		return ErrPasskey
	}
	return nil
}

const maxName = 60

func nameOf(name string) string {
	if name = strings.TrimSpace(database.Clean(name)); name == "" {
		return "passkey"
	}
	return strings.ToValidUTF8(name[:min(len(name), maxName)], "")
}

func idOf(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// RemovePasskey removes a passkey, or returns ErrUnknown.
func (t *Table) RemovePasskey(ctx context.Context, account, id string) error {
	return t.one(ctx, `DELETE FROM passkeys WHERE account = $1 AND id = $2`, account, database.Clean(id))
}

// RenamePasskey renames a passkey, or returns ErrUnknown.
func (t *Table) RenamePasskey(ctx context.Context, account, id, name string) error {
	return t.one(ctx, `UPDATE passkeys SET name = $1 WHERE account = $2
		AND id = $3`, nameOf(name), account, database.Clean(id))
}

// AskProof asks a browser for a passkey of this account, or of any account if it is empty.
func (t *Table) AskProof(ctx context.Context, at Site, account string) (q Question, err error) {
	w, err := at.relying()
	if err != nil {
		return q, err
	}
	options, asked, err := w.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return q, fmt.Errorf("mfa: passkeys: %w", err)
	}
	return t.question(account, proving, options.Response, asked)
}

// A Proof is a response whose signature is valid. Take accepts it.
type Proof struct {
	Owner
	asked state
	used  *webauthn.Credential
}

// Verify returns the account whose passkey a response proves, for an AskProof of any account. It writes nothing, so that
// a caller can charge an attempt to the account before Take. The error is ErrPasskey for any other response.
func (t *Table) Verify(ctx context.Context, at Site, stateText string, answer []byte) (p Proof, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return p, ErrPasskey
	}
	var who Owner
	err = t.db.QueryRowContext(ctx, `SELECT accounts.id, username FROM passkeys JOIN accounts ON accounts.id = account
		WHERE passkeys.id = $1`, idOf(parsed.RawID)).
		Scan(&who.ID, &who.Name)
	if errors.Is(err, sql.ErrNoRows) {
		return p, ErrPasskey
	}
	if err != nil {
		return p, fmt.Errorf("mfa: the account of a passkey: %w", err)
	}
	return t.verify(ctx, at, who, "", stateText, parsed)
}

func (t *Table) verify(ctx context.Context, at Site, who Owner, askedFor, stateText string,
	answer *protocol.ParsedCredentialAssertionData) (p Proof, err error) {
	w, err := at.relying()
	if err != nil {
		return p, err
	}
	p.Owner = who
	if p.asked, err = t.asked(askedFor, proving, stateText); err != nil {
		return p, err
	}
	has, err := t.passkeys(ctx, who.ID)
	if err != nil {
		return p, err
	}
	theirs := owner{who, has}.at(at.Host)
	_, p.used, err = w.ValidatePasskeyLogin(func(_, handle []byte) (webauthn.User, error) {
		if string(handle) != who.ID {
			return nil, ErrPasskey
		}
		return theirs, nil
	}, p.asked.Asked, answer)
	if err != nil {
		return p, ErrPasskey
	}
	return p, nil
}

// CheckPasskey returns nil if a response proves the presence of the account's passkey and its user. The response must
// match an AskProof for askedFor, and is valid once. Otherwise the error is ErrPasskey or ErrCloned.
func (t *Table) CheckPasskey(ctx context.Context, at Site, who Owner, askedFor, stateText string, answer []byte) error {
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return ErrPasskey
	}
	p, err := t.verify(ctx, at, who, askedFor, stateText, parsed)
	if err != nil {
		return err
	}
	return t.Take(ctx, p)
}

// Take consumes a response: it is valid once. The error is ErrPasskey or ErrCloned. Two nodes may get the same one at
// once, and a passkey without a counter (0) would be accepted by both: the challenge's row decides.
func (t *Table) Take(ctx context.Context, p Proof) error {
	s, used := p.asked, p.used
	now, refused := t.now().UnixMilli(), error(nil)
	err := database.InTx(ctx, t.db, func(tx *sql.Tx) error {
		refused = nil
		if _, err := tx.ExecContext(ctx, `DELETE FROM passkey_answers WHERE expires_at < $1`, now); err != nil {
			return err
		}
		n, err := database.Exec(ctx, tx, `INSERT INTO passkey_answers (challenge, expires_at) VALUES ($1, $2)
			ON CONFLICT (challenge) DO NOTHING`,
			s.Asked.Challenge, s.Until.UnixMilli())
		if err != nil {
			return err
		}
		count := used.Authenticator.SignCount
		switch {
		case n == 0:
			refused = ErrPasskey
			return nil
		case used.Authenticator.CloneWarning:
			refused = ErrCloned
		default:
			data, err := json.Marshal(used)
			if err != nil {
				return err
			}
			n, err := database.Exec(ctx, tx, `UPDATE passkeys SET data = $1, sign_count = $2, used_at = $3 WHERE id = $4
				AND cloned_at = 0 AND (sign_count < $2 OR sign_count = 0 AND $2 = 0)`,
				string(data), int64(count), now, idOf(used.ID))
			if err != nil {
				return err
			}
			if n == 0 {
				refused = ErrCloned
			}
		}
		if refused != nil {
			n, err = database.Exec(ctx, tx, `UPDATE passkeys SET cloned_at = $1 WHERE id = $2
				AND cloned_at = 0`, now, idOf(used.ID))
			if err == nil && n == 0 { // already reported
				refused = ErrPasskey
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("mfa: taking a passkey's answer: %w", err)
	}
	return refused
}

func (t *Table) passkeys(ctx context.Context, account string) (all []Passkey, err error) {
	err = database.Each(ctx, t.db, func(rows *sql.Rows) error {
		var one Passkey
		var data string
		var created, used, cloned int64
		if err := rows.Scan(&one.ID, &one.Host, &one.Name, &data, &created, &used, &cloned); err != nil {
			return err
		}
		one.Created, one.Used, one.Cloned = database.Time(created), database.Time(used), database.Time(cloned)
		if err := json.Unmarshal([]byte(data), &one.record); err != nil {
			return fmt.Errorf("the record of a passkey cannot be read: %w", err)
		}
		all = append(all, one)
		return nil
	}, `SELECT id, host, name, data, created_at, used_at, cloned_at FROM passkeys WHERE account = $1
		ORDER BY created_at, id`, account)
	if err != nil {
		return nil, fmt.Errorf("mfa: passkeys: %w", err)
	}
	return all, nil
}
