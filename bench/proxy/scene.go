package proxy

import (
	"fmt"
	"net/http"
	"strings"

	"authguard/bench/wrk"
)

// A scene is one kind of request.
type scene struct {
	name string
	wrk.Request
}

func scenes() []scene {
	get := func(path string) wrk.Request {
		return wrk.Request{Path: path, Method: http.MethodGet, Headers: browser}
	}
	upload := wrk.Request{
		Path: "upload", Method: http.MethodPost, Bodies: []string{strings.Repeat("x", 64<<10)},
		Headers: append([]string{"Content-Type: application/octet-stream"}, browser...),
	}
	login := wrk.Request{Path: "login", Method: http.MethodPost}
	for i := range 200 {
		body := fmt.Sprintf("username=person-%d&password=the-right-password-%d&next=%%2Fhome", i, i)
		login.Bodies = append(login.Bodies, body)
	}
	login.Headers = append([]string{"Content-Type: application/x-www-form-urlencoded"}, browser...)
	first := login // the Cookie is the last
	first.Headers = login.Headers[:len(login.Headers)-1]
	return []scene{
		{"GET, 2 KiB", get("page")}, {"GET, 256 KiB", get("file")}, {"POST, 64 KiB", upload},
		{"a protected login that succeeds", first}, {"the same with cookies", login},
	}
}

// browser are the headers of a browser.
var browser = []string{
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0",
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
	"Accept-Language: en-GB,en;q=0.5", "Accept-Encoding: gzip, deflate, br, zstd",
	"Cookie: sessionid=abcdefghijklmnop; theme=dark",
}

// config is authguard's: CAPTCHA mode stays off, and each account logs in from a separate IP address.
const config = `listen: 127.0.0.1:0
admin: {listen: ""}
captcha_mode: {threshold: 1000000}
trusted_proxies: [127.0.0.1]
data: %s/data
proxy:
  upstream: %s
  routes:
    - name: login
      path: /login
      account: form:username
      password: form:password
      success: [status 302, cookie sessionid]
`

// nginx is a common configuration: keep-alive connections to the app, as many workers as cores, no access
// log, and no temporary files.
const nginx = `daemon off; worker_processes auto; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 1024; }
http {
  access_log off; keepalive_requests 100000000; client_body_buffer_size 128k; proxy_max_temp_file_size 0;
  client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c;
  uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
  upstream app { server %[2]s; keepalive 256; keepalive_requests 100000000; }
  server {
    listen %[3]s;
    location / {
      proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;
    }
  }
}
`
