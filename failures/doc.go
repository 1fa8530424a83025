// Package failures counts failed logins in exact sliding windows.
//
// With a limit of N failures in window W, no closed interval of length W ever holds more than N charges (R1, R2). A
// charge is made before the password check and taken back if the password was correct. A charge that is not taken
// back is a failure.
//
// The package knows keys, limits and times. Package guard decides what a key stands for, which limits bind, and what
// a full limit does.
//
// [Memory] is the store of a single process. Every store passes the tests in failures/failurestest.
package failures
