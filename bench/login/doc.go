// Package login measures how fast authguard's login door refuses early, before
// any password is looked at, beside a bare handler that binds the same form
// and refuses without a thought. Both run as servers of their own and are
// driven by wrk.
package login
