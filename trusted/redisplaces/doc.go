// Package redisplaces keeps privileged places in Redis: a trusted.Store that
// any number of nodes share.
//
// It promises the rules of trusted.Record: a change reads the account's
// record, applies the rule, and writes it back only if nobody wrote in
// between. A record lies in the same hash slot as the account's counters, so
// that one script reads both, and expires with the last of its places.
//
// Each node remembers records that it has seen. While Redis answers they are
// believed for at most a second after another node changed one (see Start);
// while it does not, Known tells who was privileged when it last did (R22).
package redisplaces
