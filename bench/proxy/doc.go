// Package proxy measures authguard's reverse proxy in front of an app, beside a bare reverse proxy in
// Go, nginx, and no proxy. wrk sends the requests to separate programs.
package proxy
