// Package redisfailures counts failed logins in Redis, for any number of nodes:
// a failures.Store that keeps the same windows as failures.Memory.
//
// Everything about one place lies in one hash slot. Against a single server a
// charge is one script over all its keys. In a cluster it is one script for
// each place, all in one round trip; if one refuses, what the others charged
// is taken back. Time is Redis's own.
//
// A key holds the newest charges of one subject, or of a place and the few
// subjects kept with it (book.go has the layout). Its name is the realm's
// prefix, the place's digest in braces and, for a subject with a key of its
// own, the subject's digest, both in base64: nothing that anybody typed. Every
// key expires when its last charge no longer counts.
//
// A failure writes nothing: the charge is there already. That it is decided is
// remembered by the node that was told; to the others it may be undecided
// until it is older than the longest password check (R3).
package redisfailures
