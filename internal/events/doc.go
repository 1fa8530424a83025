// Package events is where what happened leaves the hot path.
//
// [Bus] is the guard's observer: it copies every event into a bounded queue,
// never blocks and never allocates, counts what it had to drop, and hands
// batches to its sinks on a goroutine of its own. The sinks are the log
// ([Log], here), the audit log (package audit) and the alerts (package
// alerts).
//
// The package also has the one way in which something typed by a stranger
// becomes text ([Escape]) and the closed set of what can become of an attempt
// ([Ending]).
package events
