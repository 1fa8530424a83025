// Package proxy measures what authguard costs in front of an app, beside the least
// that a reverse proxy in Go can be, beside nginx, and beside nothing. All are
// programs of their own and are driven by wrk.
package proxy
