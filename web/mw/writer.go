package mw

import (
	"bufio"
	"net"
	"net/http"
)

// A writer tells its attempt of the answer's status before that is sent. Everything
// else is the writer's below it.
type writer struct {
	http.ResponseWriter
	of       *attempt
	hijacked bool
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.of.answered(status, w.Header())
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *writer) Write(b []byte) (int, error) {
	w.of.answered(http.StatusOK, w.Header())
	return w.ResponseWriter.Write(b)
}

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	w.of.answered(http.StatusOK, w.Header())
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements http.Flusher, as far as the writer below does.
func (w *writer) Flush() { _ = w.FlushError() }

// Hijack implements http.Hijacker. What the answer says is nobody's to see then: the
// handler has to say how the attempt ended.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.hijacked = w.hijacked || err == nil
	return conn, rw, err
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
