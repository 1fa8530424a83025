package appstest

import "testing"

// The applications here turn a signed-in visitor away from their login without checking
// the password. Each has a second account, mallory, with the same password.

// DjangoGuest is Django whose login at /accounts/login/ has redirect_authenticated_user. If
// renews, the session's cookie is set in each answer (SESSION_SAVE_EVERY_REQUEST).
func DjangoGuest(renews bool) func(testing.TB) *App {
	return func(t testing.TB) *App {
		t.Helper()
		return django(t, map[bool]string{true: "True", false: "False"}[renews])
	}
}

// Flask starts a Flask-Login app with a form at /login and an API at /api/login.
func Flask(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	a.write(t, "flask/app.py", "app.py", "{{user}}", User, "{{password}}", Password)
	a.gunicorn(t, port, "app:app")
	return a
}

// gunicorn serves a WSGI application of the folder.
func (a *App) gunicorn(t testing.TB, port, application string, args ...string) {
	t.Helper()
	a.start(t, a.answers, "/usr/bin/python3", append([]string{"-m", "gunicorn", "--bind", "127.0.0.1:" + port,
		"--worker-class", "gthread", "--workers", "1", "--threads", "32", "--timeout", "600",
		"--log-level", "warning", application}, args...)...)
}

// Devise starts a Rails app with Devise at /users/sign_in. Its accounts are alice and
// mallory at example.org.
func Devise(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	a.write(t, "devise/config.ru", "config.ru", "{{user}}", User, "{{password}}", Password)
	a.write(t, "devise/config/routes.rb", "config/routes.rb")
	a.puma(t, port)
	return a
}

// puma serves the folder's config.ru.
func (a *App) puma(t testing.TB, port string) {
	t.Helper()
	a.start(t, a.answers, "/usr/bin/puma", "-b", "tcp://127.0.0.1:"+port, "-e", "production", "config.ru")
}

// Guest starts two apps in PHP with Laravel's rule: at /login with a cookie that is
// another one in each answer, and at /single/login with one token for each session.
func Guest(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	a.write(t, "guest/index.php", "index.php", "{{user}}", User, "{{password}}", Password)
	a.php(t, port)
	return a
}

// php serves the folder's index.php at every path.
func (a *App) php(t testing.TB, port string, args ...string) {
	t.Helper()
	a.start(t, a.answers, "/usr/bin/php", append(args, "-S", "127.0.0.1:"+port, a.path("index.php"))...)
}
