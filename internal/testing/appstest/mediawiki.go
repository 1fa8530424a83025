package appstest

import "testing"

// MediaWiki starts a wiki on SQLite, with uploads and its API. It counts at the end of each authentication.
func MediaWiki(t testing.TB) *App { t.Helper(); return mediaWiki(t) }

// MediaWikiWithTOTP is MediaWiki with Wikimedia's extension OATHAuth, which asks the account for a code.
func MediaWikiWithTOTP(t testing.TB) *App { t.Helper(); return mediaWiki(t, "mediawiki/totp.php") }

func mediaWiki(t testing.TB, more ...string) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	a.write(t, "mediawiki/count.php", "count.php", "{{url}}", a.URL)
	a.run(t, "/bin/mkdir", "data", "images")
	a.run(t, "/usr/bin/env", "MW_CONFIG_FILE=", "/usr/bin/php", "/usr/share/mediawiki/maintenance/install.php", "--dbtype=sqlite",
		"--dbpath="+a.path("data"), "--dbname=wiki", "--pass="+Password, "--server="+a.URL, "--scriptpath=", "--confpath="+a.folder, "--extensions=OATHAuth", "Example", User)
	a.run(t, "/bin/sh", "-c", "cat count.php >>LocalSettings.php")
	for _, script := range more {
		a.write(t, script, "more.php", "{{secret}}", TOTPSecret)
		a.run(t, "/usr/bin/php", "more.php")
	}
	a.link(t, "/usr/share/mediawiki", "www")
	a.apache(t, port, "MW_CONFIG_FILE="+a.path("LocalSettings.php"))
	return a
}
