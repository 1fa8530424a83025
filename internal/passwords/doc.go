// Package passwords checks passwords so that the checking itself gives nothing
// away and cannot be used as a weapon.
//
// A [Gate] lets only so many checks run at once, people at privileged places
// first (rule R19). A [Checker] does the same amount of work whether the account
// exists or not, is disabled or not, and however old its hash is (rule R12).
// Where hashes are kept is for others, package accounts for one.
package passwords
