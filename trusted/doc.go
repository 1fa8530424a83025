// Package trusted remembers the privileged places of an account: the addresses
// and devices from which somebody has logged in to it before.
//
// It promises that a place is privileged for one account only, that an account
// has at most so many of them (the least recently used goes first), that they
// expire, and that they go when the password is reset (rule R14). A device is
// remembered by a signed cookie ([Cookies]) and needs no storage until its
// budget is spent.
//
// What a privilege is good for, and which budget it has, is the business of
// package guard.
package trusted
