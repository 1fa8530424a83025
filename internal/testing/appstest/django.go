package appstest

import "testing"

// Django starts a site with Django's administration at /admin/, a login page of
// a site's own (django.contrib.auth.urls) at /accounts/login/, and a page that
// needs no login at /hello/.
func Django(t testing.TB) *App {
	t.Helper()
	return django(t, "False")
}

func django(t testing.TB, saves string) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	for _, name := range []string{"settings.py", "urls.py", "counting.py", "install.py"} {
		a.write(t, "django/"+name, name, "{{user}}", User, "{{password}}", Password, "{{saves}}", saves)
	}
	a.write(t, "django/login.html", "registration/login.html")
	a.run(t, "/usr/bin/python3", "install.py")
	a.gunicorn(t, port, "django.core.wsgi:get_wsgi_application()", "--env", "DJANGO_SETTINGS_MODULE=settings")
	return a
}
