// Package redistest starts real Redis servers for tests: one, a Cluster of
// three masters with replicas, or a master watched by Sentinels. They listen on
// free ports of 127.0.0.1, keep their files in the test's folder, and end with
// the test, also with one that dies.
package redistest
