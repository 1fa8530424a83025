package mfa

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"database/sql"
	"encoding/base32"
	"errors"
	"fmt"
	"image/png"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"authguard/internal/database"
)

const (
	digits = 6
	// step is how long a code is shown. Codes one step early or late are accepted because clocks differ (RFC 6238, section
	// 5.2).
	step, skew = 30 * time.Second, 1
	// secretBytes is RFC 4226's recommendation: the length of SHA-1's output.
	secretBytes = 20
)

// Enrolment is what an app needs to show codes. It is secret.
type Enrolment struct {
	Secret string `json:"secret"` // base32, to type in
	URL    string `json:"url"`    // otpauth://
	QR     []byte `json:"-"`      // the URL as a PNG image
}

// Enrol starts the setup of an app with a new secret, which Confirm activates. It replaces an unconfirmed one. The app
// shows issuer and name. The error is ErrEnrolled if an app is already confirmed.
func (t *Table) Enrol(ctx context.Context, account, issuer, name string) (Enrolment, error) {
	secret := make([]byte, secretBytes)
	rand.Read(secret) // never fails: it ends the program instead
	n, err := database.Exec(ctx, t.db, `INSERT INTO totp (account, secret, created_at) VALUES ($1, $2, $3)
		ON CONFLICT (account) DO UPDATE SET secret = excluded.secret, created_at = excluded.created_at, last_step = 0
			WHERE totp.confirmed_at = 0`,
		account, t.box.Seal(secret, totpOf(account)), t.now().UnixMilli())
	switch {
	case err != nil:
		return Enrolment{}, fmt.Errorf("mfa: enrol: %w", err)
	case n == 0:
		return Enrolment{}, ErrEnrolled
	}
	return enrolment(secret, issuer, name)
}

// Enrolling returns the unconfirmed enrolment, or ErrUnknown.
func (t *Table) Enrolling(ctx context.Context, account, issuer, name string) (Enrolment, error) {
	secret, _, err := t.secret(ctx, account, false)
	if err != nil {
		return Enrolment{}, err
	}
	return enrolment(secret, issuer, name)
}

func enrolment(secret []byte, issuer, name string) (e Enrolment, err error) {
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: name, Secret: secret,
		Period: uint(step / time.Second), Digits: digits})
	if err != nil {
		return e, fmt.Errorf("mfa: enrol: %w", err)
	}
	picture, err := key.Image(240, 240)
	if err != nil {
		return e, fmt.Errorf("mfa: drawing the QR code: %w", err)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		return e, fmt.Errorf("mfa: drawing the QR code: %w", err)
	}
	return Enrolment{Secret: key.Secret(), URL: key.URL(), QR: b.Bytes()}, nil
}

// Confirm activates an enrolment. The error is ErrCode for a wrong code, or ErrUnknown without an enrolment.
func (t *Table) Confirm(ctx context.Context, account, code string) error {
	ok, err := t.checkTOTP(ctx, account, code, false)
	if err == nil && !ok {
		err = ErrCode
	}
	if err != nil {
		return err
	}
	return t.one(ctx, `UPDATE totp SET confirmed_at = $1 WHERE account = $2
		AND confirmed_at = 0`, t.now().UnixMilli(), account)
}

// RemoveTOTP removes the app, or returns ErrUnknown.
func (t *Table) RemoveTOTP(ctx context.Context, account string) error {
	return t.one(ctx, `DELETE FROM totp WHERE account = $1 AND confirmed_at > 0`, account)
}

// secret returns the confirmed secret, or the unconfirmed one.
func (t *Table) secret(ctx context.Context, account string, confirmed bool) (secret []byte, last int64, err error) {
	var text string
	err = t.db.QueryRowContext(ctx, `SELECT secret, last_step FROM totp WHERE account = $1
		AND (confirmed_at > 0) = $2`, account, confirmed).Scan(&text, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, ErrUnknown
	}
	if err == nil {
		secret, err = t.box.Open(text, totpOf(account))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("mfa: the secret of an app cannot be read (other keys?): %w", err)
	}
	return secret, last, nil
}

func totpOf(account string) string { return "totp of " + account }

// checkTOTP accepts a code once: it invalidates the code's time step and all earlier ones on all nodes. Otherwise an
// attacker who observes a code, over the shoulder or on the wire, could reuse it for a minute.
func (t *Table) checkTOTP(ctx context.Context, account, code string, confirmed bool) (bool, error) {
	secret, last, err := t.secret(ctx, account, confirmed)
	if errors.Is(err, ErrUnknown) && confirmed {
		return false, nil
	} else if err != nil {
		return false, err
	}
	matched := int64(-1)
	for at, now := int64(-skew), t.now().Unix()/int64(step/time.Second); at <= skew; at++ {
		want, err := hotp.GenerateCodeCustom(base32.StdEncoding.EncodeToString(secret), uint64(now+at),
			hotp.ValidateOpts{Digits: otp.DigitsSix})
		if err != nil {
			return false, fmt.Errorf("mfa: %w", err)
		}
		if subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 && now+at > last {
			matched = now + at
		}
	}
	if matched < 0 {
		return false, nil
	}
	n, err := database.Exec(ctx, t.db, `UPDATE totp SET last_step = $1, used_at = $2 WHERE account = $3
		AND last_step < $1`, matched, t.now().UnixMilli(), account)
	if err != nil {
		return false, fmt.Errorf("mfa: taking a code: %w", err)
	}
	return n == 1, nil
}
