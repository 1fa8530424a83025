// Package postgrestest starts real PostgreSQL servers for tests: one that all
// tests of a process share, each with a database of its own, and more for tests
// that stop or kill theirs. They listen on free ports of 127.0.0.1, keep their
// files in a temporary folder, and end with the process, also with one that is
// killed. A package that uses it needs
//
//	func TestMain(m *testing.M) { postgrestest.Main(m) }
//
// Nothing is ever synced to the disk: it is fast, and of no use for anything
// but tests.
package postgrestest
