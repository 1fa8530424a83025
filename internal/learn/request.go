package learn

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html"

	"authguard/internal/route"
)

type request struct {
	method, host string
	url          *url.URL
	header       http.Header
	body         []byte
}

func bare(r *http.Request, body []byte) request {
	q := request{r.Method, r.Host, r.URL, r.Header.Clone(), body}
	for _, header := range []string{"Cookie", "Accept-Encoding", "Connection", "Content-Length", "Upgrade", "Te",
		"Trailer", "Proxy-Connection", "Keep-Alive"} {
		q.header.Del(header)
	}
	return q
}

// without replaces every text that equals the password by a generated one.
func without(r *http.Request, body []byte, name, password string) request {
	q, other := bare(r, body), route.MadeUp(name, password)
	if q.header.Get("Authorization") != "" {
		basic := http.Request{Header: q.header}
		basic.SetBasicAuth(name, other)
	}
	values := map[string]string{}
	for _, f := range fieldsOf(r, body) {
		if f.value == password {
			values[f.at] = other
		}
	}
	return q.with(values)
}

// with returns the request with other values in its fields; it ignores fields that the request lacks.
func (q request) with(values map[string]string) request {
	u := *q.url
	u.RawQuery = replaced("param:", u.RawQuery, values)
	q.url = &u
	switch kind, params, _ := mime.ParseMediaType(q.header.Get("Content-Type")); kind {
	case "application/json":
		q.body = replacedJSON(q.body, values)
	case "application/x-www-form-urlencoded":
		q.body = []byte(replaced("form:", string(q.body), values))
	case "multipart/form-data":
		q.body = replacedParts(q.body, params["boundary"], values)
	}
	return q
}

// at returns the request to another path.
func (q request) at(path string) request {
	u := *q.url
	u.Path, u.RawPath = path, ""
	q.url = &u
	return q
}

func replaced(kind, text string, values map[string]string) string {
	all := strings.Split(text, "&")
	for i, pair := range all {
		written, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(written)
		if value, ok := values[kind+name]; ok && err == nil {
			all[i] = written + "=" + url.QueryEscape(value)
		}
	}
	return strings.Join(all, "&")
}

func replacedJSON(body []byte, values map[string]string) []byte {
	var top any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&top) != nil {
		return nil // unparsed, it may contain the password
	}
	var walk func(any, string)
	walk = func(at any, pointer string) {
		object, _ := at.(map[string]any)
		for name := range object {
			below := pointer + "/" + escaped(name)
			if value, ok := values["json:"+below]; ok {
				object[name] = value
			}
			walk(object[name], below)
		}
	}
	walk(top, "")
	body, _ = json.Marshal(top)
	return body
}

func replacedParts(body []byte, boundary string, values map[string]string) []byte {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.SetBoundary(boundary)
	reader := multipart.NewReader(bytes.NewReader(body), boundary)
	for part, err := reader.NextRawPart(); err == nil; part, err = reader.NextRawPart() {
		to, _ := w.CreatePart(part.Header)
		if value, ok := values["form:"+part.FormName()]; ok {
			_, _ = io.WriteString(to, value)
			continue
		}
		_, _ = io.Copy(to, part)
	}
	_ = w.Close()
	return b.Bytes()
}

// hidden returns the hidden fields of the form with a password field, or of all forms if none has one. MediaWiki's
// search form has a field with the name of one of its login form.
func hidden(page []byte) map[string]string {
	all, form, login := map[string]string{}, map[string]string{}, false
	for z := html.NewTokenizer(bytes.NewReader(page)); z.Next() != html.ErrorToken; {
		t := z.Token()
		attributes := attributesOf(t)
		switch kind := strings.ToLower(attributes["type"]); {
		case t.Data == "form" && login:
			return form
		case t.Data == "form":
			clear(form)
		case t.Data == "input" && kind == "password":
			login = true
		case t.Data == "input" && kind == "hidden" && attributes["value"] != "":
			at := "form:" + attributes["name"]
			all[at], form[at] = attributes["value"], attributes["value"]
		}
	}
	if login {
		return form
	}
	return all
}
