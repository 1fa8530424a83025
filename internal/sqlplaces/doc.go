// Package sqlplaces is the trusted.Store in the SQL database, answered from
// memory.
//
// As long as all places fit into its cache (a million by default), all are in
// it: then a place that is not there is a stranger's for certain, and a flood of
// made-up names costs no query. Beyond that a miss asks the database. Every
// change is written through before it is believed, except that a place used
// again is written at most once an hour.
//
// Another process may change the same tables, `authguard unlock` for one:
// [Store.Refresh], run every second by [Store.Start], takes its changes over.
package sqlplaces
