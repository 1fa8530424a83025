package wire

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

type refusal string

func (r refusal) Error() string { return string(r) }

// Reasons for rejection.
const (
	badRequestLine refusal = "the request line must be a method in capitals, a target and HTTP/1.1 or HTTP/1.0"
	badTarget      refusal = "the target must be a path, in ASCII without spaces and #"
	badHost        refusal = "there must be one Host header, with a name and perhaps a port"
	badLength      refusal = "there may be one Content-Length, in digits without leading zeros"
	badConnection  refusal = "Connection may only be close, keep-alive, upgrade, http2-settings and te"
	badUpgrade     refusal = "only an upgrade to websocket, without a body, is possible; for HTTP/2 begin with it, or " +
		"use HTTP/1.1"
	bodyUnexpected refusal = "GET, HEAD and TRACE have no body"
)

// Handler answers requests that parsers could read differently with 400, and counts them.
//
// net/http drops Content-Length beside Transfer-Encoding, and Transfer-Encoding in HTTP/1.0, before a handler sees
// them. A proxy that uses the other header has sent the next request inside this one's body, or the reverse (request
// smuggling). So the connection ends with the response.
func (l *Listener) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := readAlike(r)
		if r.ProtoMajor == 1 && (err != nil || r.ProtoMinor == 0 || len(r.TransferEncoding) > 0) {
			w.Header().Set("Connection", "close")
		}
		if err != nil {
			l.refused.Add(1)
			l.Log.Debug("request rejected: parsers could read it differently", "peer", r.RemoteAddr, "why", err)
			http.Error(w, "400 Bad Request: "+err.Error(), http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

const capitals, smalls, digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"

// only reports whether s is not empty and consists of these characters.
func only(s, these string) bool { return s != "" && strings.Trim(s, these) == "" }

func readAlike(r *http.Request) error {
	// Django and Werkzeug take "post" for POST; a route's methods do not.
	if !only(r.Method, capitals+"-") || r.Method == http.MethodConnect || r.ProtoMajor == 1 && r.ProtoMinor > 1 {
		return badRequestLine
	}
	// For a target with a host, net/http has dropped the Host header; other servers use it.
	if !strings.HasPrefix(r.RequestURI, "/") || strings.ContainsFunc(r.RequestURI, func(c rune) bool {
		return c <= ' ' || c > '~' || c == '#'
	}) {
		return badTarget
	}
	hosts := r.Header["Host"] // beside :authority of HTTP/2
	if r.Host != "" && !Host(r.Host) || len(hosts) > 1 || len(hosts) == 1 && hosts[0] != r.Host {
		return badHost
	}
	lengths := r.Header["Content-Length"] // some parsers read 010 as 8
	if len(lengths) > 1 || len(lengths) == 1 && lengths[0] != strconv.FormatInt(r.ContentLength, 10) {
		return badLength
	}
	// A proxy removes the headers that are named here; ours must stay.
	if !listed(r.Header["Connection"], "close", "keep-alive", "upgrade", "te", "http2-settings", "") {
		return badConnection
	}
	return withoutBody(r)
}

// withoutBody rejects a body where other servers expect none: a server that ignores it takes it for the next request.
func withoutBody(r *http.Request) error {
	bodiless := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodTrace
	if bodiless && r.ProtoMajor == 2 && r.ContentLength < 0 { // HAProxy ends some GETs after their headers
		if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n == 0 {
			r.Body, r.ContentLength = http.NoBody, 0
		}
	}
	if bodiless && r.ContentLength != 0 {
		return bodyUnexpected
	}
	// Java's HttpClient offers h2c with every request; it is neither accepted nor passed on. Another protocol could carry
	// HTTP past the guard, such as TLS/1.0.
	upgrades := r.Header["Upgrade"]
	if len(upgrades) == 0 || len(upgrades) == 1 && strings.EqualFold(upgrades[0], "h2c") {
		return nil
	}
	if !listed(upgrades, "websocket") || r.ContentLength != 0 || !r.ProtoAtLeast(1, 1) {
		return badUpgrade
	}
	return nil
}

// listed reports whether each element of these lists is one of the words.
func listed(lists []string, words ...string) bool {
	for _, list := range lists {
	next:
		for element := range strings.SplitSeq(list, ",") {
			for _, word := range words {
				if strings.EqualFold(strings.Trim(element, " "), word) {
					continue next
				}
			}
			return false
		}
	}
	return true
}
