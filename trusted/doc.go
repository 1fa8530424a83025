// Package trusted remembers the known clients of an account: the IP addresses and
// devices from which its user has logged in before.
//
// It promises that a client is known for one account only, that an account has at most
// so many of them (the least recently used is evicted first), that they expire, and that
// a password reset removes them (rule R14). A device is remembered by a signed cookie
// ([Cookies]) and needs no storage until its budget is used up. An IP address that many
// accounts use is never a known client ([SharedAddresses]).
//
// From what a known client is exempt, and which budget it has, is decided in package
// guard.
package trusted
