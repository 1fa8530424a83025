package appstest

import (
	"net/http"
	"net/url"
	"testing"
)

// WordPress starts a site as its installer leaves it, with XML-RPC on.
func WordPress(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	const databasePassword = "of the database"
	socket := a.mariadb(t, "wordpress", databasePassword)
	a.sql(t, "CREATE DATABASE wordpress")
	a.copyOf(t, "/usr/share/wordpress", "www")
	a.copyOf(t, "/var/lib/wordpress/wp-content", "www/wp-content")
	a.write(t, "wordpress/wp-config.php", "www/wp-config.php", "{{socket}}", socket, "{{password}}", databasePassword)
	a.apache(t, port)
	a.install(t)
	a.write(t, "wordpress/count.php", "www/wp-content/mu-plugins/count.php")
	return a
}

// install does what a person does in the installer's last step.
func (a *App) install(t testing.TB) {
	t.Helper()
	response, err := http.PostForm(a.URL+"/wp-admin/install.php?step=2", url.Values{
		"weblog_title": {"Example"}, "user_name": {User}, "admin_password": {Password}, "admin_password2": {Password},
		"pw_weak": {"1"}, "admin_email": {"alice@example.org"}, "blog_public": {"0"}, "language": {""},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("WordPress's installer answers %s", response.Status)
	}
}
