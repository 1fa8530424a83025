package appstest

import "testing"

// Django starts a site with Django's administration at /admin/, a login page of
// a site's own (django.contrib.auth.urls) at /accounts/login/, and a page that
// needs no login at /hello/.
func Django(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	for _, name := range []string{"settings.py", "urls.py", "counting.py", "install.py"} {
		a.write(t, "django/"+name, name, "{{user}}", User, "{{password}}", Password)
	}
	a.write(t, "django/login.html", "registration/login.html")
	a.run(t, "/usr/bin/python3", "install.py")
	a.start(t, a.answers, "/usr/bin/python3", "-m", "gunicorn", "--bind", "127.0.0.1:"+port,
		"--env", "DJANGO_SETTINGS_MODULE=settings", "--worker-class", "gthread", "--workers", "1", "--threads", "32",
		"--timeout", "600", "--log-level", "warning", "django.core.wsgi:get_wsgi_application()")
	return a
}
