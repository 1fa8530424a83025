// Package appstest starts real applications for tests, out of Debian's packages:
// Django's administration, WordPress, phpMyAdmin, DokuWiki, MediaWiki and Roundcube; and Verdaccio of the
// npm registry and Syncthing of the Go module proxy. Each has a folder,
// a database and a port of its own on 127.0.0.1, runs as people run it (gunicorn;
// Apache with PHP; MariaDB), and ends with the test, also with one that dies.
//
// An App counts every password that it is asked to look at, in the application
// itself: what passed us by is counted too. The packages are installed by
// `make test-apps`, which starts the tests.
package appstest
