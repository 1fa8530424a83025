package mw

import (
	"bufio"
	"maps"
	"net"
	"net/http"
)

// A writer reports the status of the response to its attempt before it is sent.
type writer struct {
	http.ResponseWriter
	of       *attempt
	hijacked bool
	// before are the headers at the start, if the client may be asked for a verification code instead; nil: it is not.
	before http.Header
}

func newWriter(w http.ResponseWriter, a *attempt) *writer {
	answer := &writer{ResponseWriter: w, of: a}
	if a.asksForCode() {
		answer.before = w.Header().Clone()
	}
	return answer
}

func (w *writer) answered(status int) {
	w.of.answered(status, w.Header())
	w.withhold()
}

// withhold discards the response of a login that did not succeed, cookies included, if the client is asked for a
// verification code.
func (w *writer) withhold() {
	if w.before == nil || w.of.succeeded() {
		return
	}
	if _, discarded := w.ResponseWriter.(discard); !discarded {
		h := w.Header()
		w.ResponseWriter = discard(h.Clone())
		clear(h)
		maps.Copy(h, w.before)
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.answered(status)
	} else if w.before != nil {
		return // an early hint has all headers
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *writer) Write(b []byte) (int, error) {
	w.answered(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// FlushError implements the interface of http.ResponseController.
func (w *writer) FlushError() error {
	w.answered(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements http.Flusher if the underlying writer supports it.
func (w *writer) Flush() { _ = w.FlushError() }

// Hijack implements http.Hijacker. A hijacked response cannot be judged: the handler must report the outcome.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.before != nil {
		return nil, nil, http.ErrNotSupported
	}
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
