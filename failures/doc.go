// Package failures counts failed logins on exact rolling windows.
//
// It promises that with a rung of N failures per window W no more than N
// charges are ever held by one key in any closed interval of length W,
// whatever the parallelism (rules R1 and R2). A charge is made before the
// password is looked at and taken back if the password was right; a charge
// that nobody takes back was a failure, so failing costs no second write.
//
// The package knows keys, ladders and moments. What a key stands for, which
// rungs bind and what follows from a full one is the business of package
// guard.
//
// [Memory] is the store of a single process. Every store passes the suite in
// failures/failurestest.
package failures
