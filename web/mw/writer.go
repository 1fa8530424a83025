package mw

import (
	"bufio"
	"net"
	"net/http"
)

// A writer reports the status of the response to its attempt before it is sent.
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

// FlushError implements the interface of http.ResponseController.
func (w *writer) FlushError() error {
	w.of.answered(http.StatusOK, w.Header())
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements http.Flusher if the underlying writer supports it.
func (w *writer) Flush() { _ = w.FlushError() }

// Hijack implements http.Hijacker. A hijacked response cannot be judged: the handler must report the outcome.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.hijacked = w.hijacked || err == nil
	return conn, rw, err
}

// Unwrap implements the interface of http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// discard is the response of a handler whose client gets another one.
type discard http.Header

func (d discard) Header() http.Header         { return http.Header(d) }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}
