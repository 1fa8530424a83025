// Package control is the one service by which people steer a running server:
// the admin pages, the admin API and the commands all call it and nothing else.
//
// Every change takes who asks for it, such as "admin:ann" or "cli:root", and is
// on record in the audit log. It decides no login and checks no permission:
// whoever may call it is the door's business.
package control
