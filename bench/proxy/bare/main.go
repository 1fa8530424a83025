// Command bare is a bare reverse proxy in Go: httputil.ReverseProxy with as many idle connections as
// authguard's. Its arguments are the app's URL and, optionally, flush: to send each part of a response
// immediately.
package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	to, err := url.Parse(args[0])
	if err != nil {
		return err
	}
	p := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to); r.SetXForwarded() },
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
	}
	if slices.Contains(args, "flush") {
		p.FlushInterval = -1
	}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("the app http://%s/\n", socket.Addr())
	return http.Serve(socket, p)
}
