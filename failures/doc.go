// Package failures counts failed logins in exact sliding windows.
//
// With a limit of N failures in window W, no key ever holds more than N charges in any closed interval of length W,
// regardless of parallelism (R1, R2). A charge is made before the password check and taken back if the password was
// correct. A failure therefore needs no second write.
//
// The package knows keys, limits and times. Package guard decides what a key stands for, which limits bind, and what
// a full limit does.
//
// [Memory] is the store of a single process. Every store passes the tests in failures/failurestest.
package failures
