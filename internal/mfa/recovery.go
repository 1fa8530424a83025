package mfa

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"

	"authguard/internal/database"
	"authguard/internal/seal"
)

const (
	// RecoveryCodes is the number of codes in a new set.
	RecoveryCodes = 10
	// recoveryLetters are 80 bits: too many to guess, even with the key.
	recoveryLetters = 16
)

// NewRecovery replaces an account's recovery codes. They are stored as digests only: show them once.
func (t *Table) NewRecovery(ctx context.Context, account string) (codes []string, err error) {
	for range RecoveryCodes {
		letters := strings.ToLower(rand.Text())
		codes = append(codes, letters[:4]+"-"+letters[4:8]+"-"+letters[8:12]+"-"+letters[12:recoveryLetters])
	}
	err = database.InTx(ctx, t.db, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM recovery_codes WHERE account = $1`, account); err != nil {
			return err
		}
		for _, code := range codes {
			_, err := tx.ExecContext(ctx, `INSERT INTO recovery_codes (code_hash, account, created_at) VALUES ($1, $2, $3)`,
				t.digest(account, strings.ReplaceAll(code, "-", "")), account, t.now().UnixMilli())
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("mfa: recovery codes: %w", err)
	}
	return codes, nil
}

func (t *Table) takeRecovery(ctx context.Context, account, code string) (bool, error) {
	if len(code) != recoveryLetters {
		return false, nil
	}
	n, err := database.Exec(ctx, t.db, `DELETE FROM recovery_codes WHERE code_hash = $1
		AND account = $2`, t.digest(account, strings.ToLower(code)), account)
	if err != nil {
		return false, fmt.Errorf("mfa: taking a recovery code: %w", err)
	}
	return n == 1, nil
}

func (t *Table) digest(account, code string) string {
	return hex.EncodeToString(seal.MAC(t.codeKey, account, "\x00", code))
}
