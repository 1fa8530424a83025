//go:build apps

package appstest_test

import (
	"net/http"
	"testing"

	"authguard/internal/appstest"
)

func TestAppsStart(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *appstest.App{
		"/admin/login/": appstest.Django, "/wp-login.php": appstest.WordPress, "/index.php": appstest.PHPMyAdmin, "/doku.php": appstest.DokuWiki,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t)
			response, err := http.Get(a.URL + name)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK || a.Guesses(t) != 0 {
				t.Errorf("%s, after %d passwords", response.Status, a.Guesses(t))
			}
		})
	}
}
