// Package audit keeps what happened, and what administrators did, in the
// table "audit".
//
// [Log] is a sink of the event bus: it merges like events, writes them in
// batches off the hot path, and bounds both the rows that a flood can cause
// and the memory that a dead database can cost. It counts what it could not
// write, and says so in the table itself or in the log. What administrators
// do ([Log.Record]) is written at once, because they wait for it and must know
// if it failed.
//
// Strangers' texts are stored as [events.Escape] returns them: a NUL or a
// broken character would otherwise make PostgreSQL refuse the whole batch.
package audit
