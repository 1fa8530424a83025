// Package redisfailures keeps failures in Redis, for any number of nodes: one
// server, a Cluster, or a master behind Sentinels.
//
// # Layout
//
// A subject is one string: the newest charges, each the low 32 bits of its Unix
// milliseconds, big-endian, oldest first. Its key is
//
//	prefix{place}key
//
// with place and key in base64url, and without the key where it is the place:
// all subjects of one place share a hash tag, so a script never needs two
// slots. Place and key are keyed digests; nothing that was typed is in Redis.
// Every key expires when its last charge leaves the longest window.
//
// # One charge
//
// A charge is one script for each place, all in one pipeline. If one place
// refuses, what the others charged is taken back. Time is Redis's own; nodes
// remember how far their clocks are from it, so that the scripts of one charge
// agree on the moment.
//
// Failed writes nothing: a charge younger than the longest password check may
// still be undecided. Each node remembers which ones it has decided itself, and
// which keys it has found closed, for at most a second, so that knocking on a
// closed door costs no trip.
package redisfailures
