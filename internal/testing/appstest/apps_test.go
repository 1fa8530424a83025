//go:build apps

package appstest_test

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"authguard/internal/testing/appstest"
	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

// As the page about Django has it started: the document's line, a site of that name.
func TestAppsGunicornListensAsTheDocsSay(t *testing.T) {
	if !doctest.Alone(t) {
		return
	}
	s := doctest.NewShell(t, "/bin/true")
	s.Write("mysite/wsgi.py", "def application(environ, start):\n    start('204 No Content', [])\n    return []\n")
	if said, ok := s.Run(strings.TrimSpace(doctest.Claimed(t, "docs/how-to/django.md")[0].Text) + " & gunicorn=$!"); !ok {
		t.Fatal(said)
	}
	redistest.Until(t, "gunicorn to listen", func() bool {
		_, err := http.Get("http://127.0.0.1:8000/")
		return err == nil
	})
	s.Try("kill $gunicorn; wait")
}

func TestAppsStart(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *appstest.App{
		"/admin/login/": appstest.Django, "/wp-login.php": appstest.WordPress, "/index.php": appstest.PHPMyAdmin, "/doku.php": appstest.DokuWiki,
		"/index.php?title=Special:UserLogin": appstest.MediaWiki, "/?_task=login": appstest.Roundcube,
		"/-/verdaccio/data/packages": appstest.Verdaccio, "/rest/noauth/health": appstest.Syncthing,
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

// The pages' settings are those that the tests run.
func TestAppsAreConfiguredAsTheDocsSay(t *testing.T) {
	for name, file := range map[string]string{"verdaccio": "config.yaml", "mediawiki": "count.php", "roundcube": "config.inc.php"} {
		config, err := os.ReadFile("files/" + name + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range doctest.Claimed(t, "docs/how-to/"+name+".md") {
			if !strings.Contains(string(config), b.Text) {
				t.Errorf("%s does not have\n%s", name, b.Text)
			}
		}
	}
}

// The page's lines for wp-config.php say where the site is, and that it is there by HTTPS.
func TestAppsPHPOfThePages(t *testing.T) {
	for _, b := range doctest.Claimed(t, "docs/how-to/wordpress.md") {
		code := b.Text + "echo WP_SITEURL, ' ', $_SERVER['HTTPS'] ?? 'no';"
		for proto, want := range map[string]string{"http": "http://127.0.0.1:8080 no", "https": "http://127.0.0.1:8080 on"} {
			out, err := exec.Command("/usr/bin/php", "-r", "$_SERVER['HTTP_X_FORWARDED_PROTO'] = '"+proto+"';\n"+code).CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("%s: %s %v, want %s", proto, out, err, want)
			}
		}
	}
}
