package appstest

import "testing"

// The applications here log in at any path of two words, and read the body as the last
// word says (form, json …). The password is right with 302. A file comes to …/upload,
// which answers its size.

// Bottle starts an app on Bottle.
func Bottle(t testing.TB) *App { t.Helper(); return wsgi(t, "bottle.py") }

// Werkzeug starts an app on Flask.
func Werkzeug(t testing.TB) *App { t.Helper(); return wsgi(t, "flask_reads.py") }

func wsgi(t testing.TB, file string) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	a.framework(t, file, "app.py")
	a.gunicorn(t, port, "app:app")
	return a
}

// Sinatra starts an app on Sinatra and Rack.
func Sinatra(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	a.framework(t, "sinatra.ru", "config.ru")
	a.puma(t, port)
	return a
}

// Rails starts an app on Rails that wraps the parameters of JSON.
func Rails(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	a.framework(t, "rails.ru", "config.ru")
	a.puma(t, port)
	return a
}

// Express starts an app on Express and its body-parser.
func Express(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	a.framework(t, "express.js", "app.js")
	a.start(t, a.answers, "/usr/bin/env", "NODE_PATH=/usr/share/nodejs", "/usr/bin/node", a.path("app.js"), port)
	return a
}

// PHP starts an app on PHP's own server, without a php.ini.
func PHP(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	a.framework(t, "index.php", "index.php")
	a.php(t, port, "-n", "-d", "extension=simplexml")
	return a
}

func (a *App) framework(t testing.TB, file, to string) {
	t.Helper()
	a.write(t, "framework/"+file, to, "{{user}}", User, "{{password}}", Password)
}
