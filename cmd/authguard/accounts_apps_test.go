//go:build apps

package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authguard/internal/testing/appstest"
)

// A site that Django itself has made, with accounts by each of its hashers: by
// createsuperuser, by create_user, and by set_password.
const djangoAccounts = `
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
os.environ["DJANGO_SUPERUSER_PASSWORD"] = "correct horse"
import django
from django.conf import settings
every = ["PBKDF2PasswordHasher", "PBKDF2SHA1PasswordHasher", "Argon2PasswordHasher", "BCryptSHA256PasswordHasher", "BCryptPasswordHasher"]
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers." + one for one in every]
django.setup()
from django.contrib.auth.hashers import make_password, get_hashers_by_algorithm
from django.contrib.auth.models import User
from django.core.management import call_command
call_command("createsuperuser", "--noinput", "--username", "root", "--email", "root@example.org")
User.objects.create_user("plain", "plain@example.org", "correct horse")
for name in get_hashers_by_algorithm():
    user = User.objects.create_user("u." + name, "x@example.org", "another")
    user.password = make_password("correct horse", hasher=name)
    user.save()
User.objects.create_user("unusable", "y@example.org")
gone = User.objects.create_user("gone", "z@example.org", "correct horse")
gone.is_active = False
gone.save()
`

func TestAppsADjangoSiteLogsInAsTheDocsSay(t *testing.T) {
	app := appstest.Django(t)
	make := exec.Command("/usr/bin/python3", "-c", djangoAccounts)
	make.Dir = app.Folder()
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := newServer(t, recipe(t, "Django", "database", filepath.Join(app.Folder(), "db.sqlite3")))
	allIn(t, s, 130, "root", "plain", "u.pbkdf2_sha256", "u.pbkdf2_sha1", "u.argon2", "u.bcrypt_sha256", "u.bcrypt")
	for i, name := range []string{"unusable", "gone", "Root", "nobody"} {
		if a := from(loopback(131, i)).login(t, s, name, rightPassword); a.status != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, a.status)
		}
	}
}

// A site that WordPress's own installer has made: its hash, one by MD5 as its
// documentation resets passwords, and a password with quotation marks as a form sends it.
func TestAppsAWordPressSiteLogsInAsTheDocsSay(t *testing.T) {
	app := appstest.WordPress(t)
	more := exec.Command("/usr/bin/php", "-r", `define("WP_INSTALLING", true); require "www/wp-load.php";
		wp_create_user("md5", "x", "md5@example.org"); wp_create_user("bob", addslashes("it's \"a\" \\"), "bob@example.org");
		$wpdb->query("UPDATE wp_users SET user_pass = MD5('correct horse') WHERE user_login = 'md5'");`)
	more.Dir = app.Folder()
	if out, err := more.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := newServer(t, "")
	said := export(t, s, "#!/bin/sh\nexec /usr/bin/mariadb --no-defaults --socket="+filepath.Join(app.Folder(), "mysql/socket")+" -u root \"$@\"\n")
	if !strings.Contains(said, "3 accounts imported") {
		t.Fatal(said)
	}
	for i, one := range []struct{ user, password string }{{appstest.User, appstest.Password}, {"md5", rightPassword}, {"bob", `it's "a" \`}, {"bob@example.org", `it's "a" \`}} {
		if a := from(loopback(132, 2*i)).login(t, s, one.user, fmt.Sprint("wrong", i)); a.status != http.StatusUnauthorized {
			t.Errorf("%s, wrong: %d", one.user, a.status)
		}
		if a := from(loopback(132, 2*i+1)).login(t, s, one.user, one.password); a.status != http.StatusSeeOther && a.status != http.StatusOK {
			t.Errorf("%s: %d %s", one.user, a.status, a.body)
		}
	}
}
