package codes

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"authguard/internal/mail"
)

// An unknown client that asks for codes at an account with an unusable email address
// raises no alert.
func TestAnUnusableAddressRaisesNoAlert(t *testing.T) {
	t.Parallel()
	alerts := 0
	m := &Mailer{config: MailerConfig{Log: slog.New(slog.DiscardHandler), Failed: func(error) { alerts++ }}}
	for range 3 {
		m.sent(fmt.Errorf("to alice: %w", mail.ErrAddress))
	}
	if alerts != 0 {
		t.Errorf("%d alerts", alerts)
	}
	for range 2 {
		m.sent(errors.New("the server is gone"))
	}
	if alerts != 1 {
		t.Errorf("%d alerts of a server that is gone, want 1", alerts)
	}
}
