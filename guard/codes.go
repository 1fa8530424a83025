package guard

import (
	"context"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authguard/captchamode"
	"authguard/internal/seal"
	"authguard/trusted"
)

// TakesCodes reports whether Config.Codes is set, and so whether a page asks for a code.
func (g *Guard) TakesCodes() bool { return g.config.Codes != nil }

// CodeFor returns a Code without text, for issuing one to the account of a typed name. The error is ErrAccountName.
func (g *Guard) CodeFor(account string, address netip.Addr) (Code, error) {
	var v view
	if err := g.name(&v, &Attempt{Account: account}); err != nil {
		return Code{}, err
	}
	return Code{Account: v.name, Address: g.digests.addressKey(address), Now: g.config.Now()}, nil
}

func (v *view) verificationCode(a *Attempt) Code {
	return Code{Account: v.name, Address: v.from.address, Text: a.VerificationCode, Now: v.Now}
}

// checkCode sets v.code. An invalid code leaves nothing charged to the account, so that made-up codes do not block it.
// But it is a guess, and the IP address is charged for it. The attempt is then decided as if it had no code.
func (g *Guard) checkCode(ctx context.Context, a *Attempt, v *view) error {
	valid, err := g.tryOwnCode(ctx, v, a.VerificationCode)
	if !valid && err == nil && g.config.Codes != nil {
		valid, err = g.config.Codes.Show(ctx, v.verificationCode(a))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("guard: checking a verification code: %w", err), g.withdraw(ctx, &v.Charge))
	}
	if valid {
		v.code = codeValid
		return nil
	}
	guessed, withdrawn := v.Charge, v.Charge
	for i := range v.Subjects() {
		if s := &v.Subjects()[i]; s.rule.ofAddress() {
			withdrawn.Subjects()[i].For = 0
		} else {
			guessed.Subjects()[i].For = 0
		}
	}
	v.code, v.in = codeInvalid, v.in&^withCode
	v.Status, v.AtDevice = trusted.Unknown, false
	g.subjects(a.Fingerprint, v)
	g.config.Mode.Observe(captchamode.Failure, v.from.address)
	if err := g.config.Store.Settle(afterwards(ctx), &guessed, Failed); err != nil {
		return fmt.Errorf("guard: charging a wrong code: %w", err)
	}
	return g.withdraw(ctx, &withdrawn)
}

// ownCode derives a verification code from the secret, so that nothing has to be stored: 80 bits, for the account and
// the hour. It names no client: the owner may read it elsewhere than the attempt came from.
func (g *Guard) ownCode(v *view, now time.Time) string {
	purpose := fmt.Sprintf("verification code %d %x", now.UnixNano()/int64(codeLife), v.Account)
	key, _ := seal.Key(g.config.Secret, purpose+" "+g.config.Realm, 10) // fails as newDigester does
	return base32.StdEncoding.EncodeToString(key)
}

// tryOwnCode reports whether a code is the guard's own and has tries left. It charges one.
func (g *Guard) tryOwnCode(ctx context.Context, v *view, typed string) (valid bool, err error) {
	code, ok := ReadCode(typed)
	if !ok {
		return false, nil
	}
	now := subtle.ConstantTimeCompare([]byte(code), []byte(g.ownCode(v, v.Now)))
	if now|subtle.ConstantTimeCompare([]byte(code), []byte(g.ownCode(v, v.Now.Add(-codeLife)))) == 0 {
		return false, nil
	}
	c := Charge{Now: v.Now}
	key := g.digests.ofQuota("tries of "+code, v.Account)
	c.add(v.rules.codeTries, OnAccount, key, key, EveryClient, 0)
	wait, err := g.take(ctx, &c)
	return wait == 0 && err == nil, err
}

// codeLetters of base32 are 80 bits.
const codeLetters = 16

// SpellCode formats a verification code for users: ABCD-EFGH-JKLM-NPQR.
func SpellCode(code string) string {
	var groups []string
	for group := range slices.Chunk([]byte(code), 4) {
		groups = append(groups, string(group))
	}
	return strings.Join(groups, "-")
}

// misread replaces digits that base32 lacks by similar letters.
var misread = strings.NewReplacer("0", "O", "1", "I", "8", "B", "-", "", " ", "")

// ReadCode returns a typed verification code in canonical form; false if it is none.
func ReadCode(typed string) (code string, ok bool) {
	if len(typed) > 4*codeLetters {
		return "", false
	}
	code = misread.Replace(strings.ToUpper(typed))
	return code, len(code) == codeLetters && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// ErrInsufficient means that the password was right but is not enough: the client is unknown, and the site is under
// attack, or the password is known from leaks (R32) or used for password spraying (R28). The attempt was settled as
// failed; answer it so.
var ErrInsufficient = errors.New("guard: the password is right but not sufficient for an unknown client")

// A CodeRequired is the ErrInsufficient of an attempt with WantsCode: the owner needs a verification code.
type CodeRequired struct {
	// Code is to be sent to the account's owner, who enters it with the password within an hour. It is empty if the owner
	// was sent one less than CodeEvery ago, or CodesPerDay.
	Code string
}

// Error implements error.
func (*CodeRequired) Error() string { return ErrInsufficient.Error() }

// Is makes a CodeRequired an ErrInsufficient.
func (*CodeRequired) Is(target error) bool { return target == ErrInsufficient }

// sendCode returns the code for the owner of an account whose right password is not enough. A wrong password takes as
// many round trips.
func (g *Guard) sendCode(ctx context.Context, v *view, right bool) error {
	c := Charge{Now: g.config.Now()}
	key := g.digests.ofQuota("verification codes", v.Account)
	c.add(v.rules.sentCodes, OnAccount, key, key, EveryClient, 0)
	if !right {
		if _, err := g.config.Store.Read(afterwards(ctx), &c); err != nil {
			g.config.Failed(fmt.Errorf("guard: reading an account's codes: %w", err))
		}
		return nil
	}
	required := new(CodeRequired)
	if wait, err := g.take(afterwards(ctx), &c); err != nil {
		g.config.Failed(fmt.Errorf("guard: charging a verification code: %w", err))
	} else if wait == 0 {
		required.Code = SpellCode(g.ownCode(v, c.Now))
	}
	return required
}
