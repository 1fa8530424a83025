// Command app is the app behind the proxies: a page of 2 KiB, a file of 256 KiB, an upload, and a login
// with its page.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
)

func main() {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
	page, file := bytes.Repeat([]byte("<p>a page</p>\n "), 2<<10/15), bytes.Repeat([]byte{'x'}, 256<<10)
	http.HandleFunc("GET /page", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	http.HandleFunc("GET /file", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(file)))
		_, _ = w.Write(file)
	})
	http.HandleFunc("POST /upload", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	http.HandleFunc("GET /login", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	http.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		person, ok := strings.CutPrefix(r.PostFormValue("username"), "person-")
		if !ok || r.PostFormValue("password") != "the-right-password-"+person {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "sessionid", Value: "1", Path: "/", HttpOnly: true})
		http.Redirect(w, r, "/page", http.StatusFound)
	})
	fmt.Printf("the app http://%s/\n", socket.Addr())
	fmt.Fprintln(os.Stderr, "app:", http.Serve(socket, nil))
	os.Exit(1)
}
