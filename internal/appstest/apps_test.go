//go:build apps

package appstest_test

import (
	"net/http"
	"os"
	"os/signal"
	"testing"

	"authguard/internal/appstest"
)

func TestAppsAnswer(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *appstest.App{
		"django": appstest.Django, "wordpress": appstest.WordPress, "phpmyadmin": appstest.PHPMyAdmin, "dokuwiki": appstest.DokuWiki,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t)
			if r, err := http.Get(a.URL); err != nil {
				t.Error(err)
			} else {
				t.Log(name, a.URL, r.Status, r.Request.URL)
			}
			if os.Getenv("HOLD") != "" {
				os.WriteFile("/tmp/apps-"+name, []byte(a.URL+" "+a.Folder()), 0o600)
				c := make(chan os.Signal, 1)
				signal.Notify(c, os.Interrupt)
				<-c
			}
		})
	}
}
