package config_test

import (
	"strings"
	"testing"

	"authguard/internal/config"
)

// A password in a URL is not printed by the error that refuses it.
func TestR23NoProblemRepeatsThePasswordOfAURL(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{
		"AUTHGUARD_PROXY_UPSTREAM=http://app:hunter2@127.0.0.1:8000", "AUTHGUARD_TRACING_ENDPOINT=https://u:hunter2@traces.example.org",
		"AUTHGUARD_PROXY_UPSTREAM=http://app:hunter2@[bad", "AUTHGUARD_ORIGIN=https://u:hunter2@login.example.org",
		"AUTHGUARD_PAGES_HELP_URL=https://u:hunter2@example.org/help", "AUTHGUARD_ADMIN_URLS=https://u:hunter2@admin.example.org",
		"AUTHGUARD_ACCOUNTS_SOURCE=ldap\nAUTHGUARD_ACCOUNTS_LDAP_URL=ldap://cn:hunter2@ldap.example.org/x",
		"AUTHGUARD_METRICS_STATSD=u:hunter2@127.0.0.1",
	} {
		_, err := config.Load("", strings.Split(setting, "\n"))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
