//go:build apps

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// djangoSite is a site with nothing but the view of deploy/clients, and one account. It tells
// what it answers to logins: status, whether there is a session, and the cookie.
const djangoSite = `
import json, sys
import django
from django.conf import settings
settings.configure(SECRET_KEY="x", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}, PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"])
django.setup()
from django.core.management import call_command
from django.contrib.auth.models import User
from django.test import Client
from django.urls import path
call_command("migrate", verbosity=0)
User.objects.create_user("alice", password="correct horse")
from django_views import log_in
urlpatterns = [path("log-in", log_in)]
for password, address in [("correct horse", "198.51.100.1"), ("wrong 1", "203.0.113.1"), ("wrong 2", "203.0.113.1"), ("correct horse", "203.0.113.1"), ("correct horse", "192.0.2.66")]:
    browser = Client(REMOTE_ADDR=address)
    answer = browser.post("/log-in", {"username": "alice", "password": password})
    print(json.dumps([answer.status_code, "_auth_user_id" in browser.session, "device" in answer.cookies, answer.get("Retry-After", ""), "challenge" in answer.json()]))
`

func TestAppsDjangoAsksTheDecisionAPI(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"limits: {pair_delay: off, account: [2/24h challenge]}\n")
	s.must("ip", "block", "192.0.2.66")
	token := strings.TrimSpace(s.must("token", "create", "django"))
	dir := t.TempDir()
	for name, text := range map[string]string{
		"guard.py": clientFile(t, "guard.py"), "django_views.py": clientFile(t, "django_views.py"), "site_of_theirs.py": djangoSite,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(url string) (all [][]any) {
		cmd := exec.Command("/usr/bin/python3", "site_of_theirs.py") // Debian's, which has Django
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GUARD_URL="+url, "GUARD_TOKEN="+token)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			var one []any
			if err := json.Unmarshal([]byte(line), &one); err != nil {
				t.Fatal(line)
			}
			all = append(all, one)
		}
		return all
	}
	got := run(heldToTheDocument(t, s))
	for i, want := range [][]any{{200, true, true, "", false}, {401, false, false, "", false}, {401, false, false, "", false}, {403, false, false, "", true}, {429, false, false, nil, false}} {
		for j, field := range want {
			number, ok := field.(int)
			if field != nil && got[i][j] != field && (!ok || got[i][j] != float64(number)) {
				t.Errorf("login %d is answered %v, not %v", i+1, got[i], want)
			}
		}
	}
	if wait, _ := got[4][3].(string); wait == "" {
		t.Errorf("who is blocked is not told for how long: %v", got[4])
	}
	for _, one := range run("http://127.0.0.1:1") {
		if one[0] != 503.0 || one[1] != false || one[3] != "5" {
			t.Errorf("without authguard: %v", one)
		}
	}
}
