// Package web holds the public doors: the login endpoint with its sessions,
// the forward-auth check, the challenges' pictures and sounds, and the
// decision API. Each door turns a request into a guard.Attempt and the
// decision into an answer; nothing is decided here.
//
// Follow a login through login.go: the form is read (form.go), the client's
// address is found (address.go), the guard begins the attempt, the password is
// checked (password.go), the guard settles, a session starts (session.go).
package web
