package wire

import (
	"io"
	"net/http"
	"time"
)

// AllowHTTP2 lets connections begin with HTTP/2, as a proxy in front may. Its requests
// are held to what those of HTTP/1 are held to: for the app they become that. Call it
// before the server serves.
//
// A client has 100 requests at a time on a connection. One that begins and cancels them
// (rapid reset, CVE-2023-44487) has no more handlers than that either: net/http starts a
// handler when another has returned, and ends the connection when 400 wait. Endless
// headers (CVE-2023-45288) end at the server's MaxHeaderBytes.
func (l *Listener) AllowHTTP2(s *http.Server) {
	l.http2 = true
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100, SendPingTimeout: 30 * time.Second}
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			if err := readAlike(r); err != nil {
				l.refuse(r.RemoteAddr, err)
				http.Error(w, "400 Bad Request: "+err.Error(), http.StatusBadRequest)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// readAlike checks a request of HTTP/2 as the one of HTTP/1 that it becomes. What net/http
// has refused already is not looked at: framing, and headers that HTTP/2 has not.
func readAlike(r *http.Request) error {
	var h head
	if err := h.request([]byte(r.Method + " " + r.RequestURI + " HTTP/1.1")); err != nil {
		return err
	}
	for name, values := range r.Header {
		for _, value := range values {
			if err := h.field([]byte(name + ": " + value)); err != nil {
				return err
			}
		}
	}
	if h.hosts > 0 && string(h.host) != r.Host {
		return badHost
	}
	h.hosts = 0
	if err := h.field([]byte("Host: " + r.Host)); err != nil {
		return err
	}
	for name := range r.Trailer {
		if !mayTrail([]byte(name)) {
			return badTrailer
		}
	}
	if h.hasLength && h.length != r.ContentLength {
		return badLength
	}
	h.chunked = r.ContentLength < 0
	if h.chunked && h.bodiless { // some end a GET after its headers
		n, _ := io.ReadFull(r.Body, make([]byte, 1))
		if h.chunked = n > 0; !h.chunked {
			r.Body, r.ContentLength = http.NoBody, 0
		}
	}
	return h.whole()
}
