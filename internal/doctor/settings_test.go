package doctor_test

import (
	"strings"
	"testing"

	"authguard/internal/config"
	"authguard/internal/doctor"
)

func TestWhatMailWouldChangeIsSaid(t *testing.T) {
	t.Parallel()
	for server, says := range map[string]string{"": "at most 3 of them sign in per hour", "smtp://127.0.0.1:25": "by email"} {
		c := whole(t, func(s *config.Config) { s.Mail.Server = config.Secret(server) })
		found := false
		for _, one := range doctor.Examine(t.Context(), c) {
			found = found || one.Name == "mail" && one.State == good && strings.Contains(one.Text, says)
		}
		if !found {
			t.Errorf("with the mail server %q nothing says %q", server, says)
		}
	}
}
