// Package redisfailures counts failed logins in Redis, for any number of nodes:
// a failures.Store that keeps the same windows as failures.Memory.
//
// Everything about one place lies in one hash slot. Against a single server a
// charge is one script over all its keys. In a cluster it is one script for
// each place, all in one round trip; if one refuses, what the others charged
// is taken back. Time is Redis's own.
//
// A key holds the newest charges of a subject, four bytes each: the low 32 bits
// of the milliseconds since the Unix epoch, little endian, oldest first. Its
// name is the realm's prefix, the place's digest in braces and, unless the
// subject is the place itself, the subject's digest, both in base64: nothing
// that anybody typed. Every key expires with the longest window of its ladder.
//
// A failure writes nothing: the charge is there already. That it is decided is
// remembered by the node that was told; to the others it may be undecided
// until it is older than the longest password check (R3).
package redisfailures
