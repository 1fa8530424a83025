// Package apitest holds every call of the decision API that a test makes against
// web/openapi.json. Tests ask through [Handler], [Transport] or [Do] and so cannot
// forget it; a test of the house looks that they do.
package apitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"authguard/web"
)

// Document is web/openapi.json, which is valid.
func Document(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(web.OpenAPI)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

var router = sync.OnceValues(func() (routers.Router, error) {
	doc, err := document()
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc)
})

// An Exchange is a request and its answer.
type Exchange struct {
	Request *http.Request // whose body is Sent
	Sent    []byte
	Status  int
	Header  http.Header
	Body    []byte
}

// Check says where an exchange differs from the document: path, method, fields, status,
// headers, body. What the document does not allow must have been refused.
func Check(x Exchange) error {
	find, err := router()
	if err != nil {
		return err
	}
	sent := x.Request.Clone(context.Background())
	if sent.Method == http.MethodHead { // which is answered like GET
		sent.Method = http.MethodGet
	}
	route, params, err := find.FindRoute(sent)
	if err != nil { // no such path or method
		if x.Status != http.StatusNotFound && x.Status != http.StatusMethodNotAllowed && x.Status != http.StatusUnauthorized {
			return fmt.Errorf(
				"%s %s is not in the document, and was answered %d",
				x.Request.Method,
				x.Request.URL.Path,
				x.Status,
			)
		}
		return nil
	}
	options := &openapi3filter.Options{IncludeResponseStatus: true, SkipSettingDefaults: true, AuthenticationFunc: bearer}
	sent.Body = io.NopCloser(bytes.NewReader(x.Sent))
	in := &openapi3filter.RequestValidationInput{Request: sent, Route: route, PathParams: params, Options: options}
	asked := openapi3filter.ValidateRequest(context.Background(), in)
	if asked != nil && x.Status < 400 {
		return fmt.Errorf("the document does not allow the request, and it was answered %d: %w", x.Status, asked)
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in,
		Status:                 x.Status,
		Header:                 x.Header,
		Options:                options,
	}
	if out.SetBodyBytes(x.Body); x.Request.Method == http.MethodHead {
		options.ExcludeResponseBody = true
	}
	return errors.Join(openapi3filter.ValidateResponse(context.Background(), out), bare(route, x))
}

// bearer is whether a token came along; whether it is good is the server's business.
func bearer(_ context.Context, in *openapi3filter.AuthenticationInput) error {
	scheme, token, _ := strings.Cut(in.RequestValidationInput.Request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return errors.New("there is no bearer token")
	}
	return nil
}

// ours are the headers that mean something to a caller.
var ours = []string{"Authguard-Device", "Retry-After", "WWW-Authenticate"}

// bare looks for what the document does not tell of: a body, or one of our headers.
func bare(route *routers.Route, x Exchange) error {
	response := route.Operation.Responses.Status(x.Status)
	if response == nil {
		return nil // which has been told
	}
	if len(response.Value.Content) == 0 && len(x.Body) > 0 {
		return fmt.Errorf("%d has a body, of which the document does not tell: %s", x.Status, x.Body)
	}
	for _, name := range ours {
		if x.Header.Get(name) != "" && response.Value.Headers[name] == nil {
			return fmt.Errorf("%d has the header %s, of which the document does not tell", x.Status, name)
		}
	}
	return nil
}

// concerns reports whether a request is for the API.
func concerns(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/") }

func read(body io.ReadCloser) []byte {
	if body == nil {
		return nil
	}
	all, _ := io.ReadAll(body) // what was cut off is looked at as it is
	_ = body.Close()
	return all
}

// Handler is h, with every call of the API held against the document.
func Handler(t testing.TB, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !concerns(r) {
			h.ServeHTTP(w, r)
			return
		}
		sent := read(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(sent))
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		if answer.Code != http.StatusBadGateway || r.Context().Err() == nil { // a proxy's, for a client that has hung up
			check(t, Exchange{r, sent, answer.Code, answer.Header(), answer.Body.Bytes()})
		}
		for name, values := range answer.Header() {
			w.Header()[name] = slices.Clone(values)
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

// Do is one call of a handler, held against the document.
func Do(t testing.TB, h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(t, h).ServeHTTP(w, r)
	return w
}

func check(t testing.TB, x Exchange) {
	t.Helper()
	if err := Check(x); err != nil {
		t.Errorf(
			"%s %s is not as web/openapi.json says: %v\nsent: %.2000s\nanswered %d %v: %.2000s",
			x.Request.Method,
			x.Request.URL.Path,
			err,
			x.Sent,
			x.Status,
			x.Header,
			x.Body,
		)
	}
}

// A Transport asks over the network. What is no call of the API is passed on.
type Transport struct {
	T  testing.TB
	By http.RoundTripper // default http.DefaultTransport
}

// RoundTrip implements http.RoundTripper.
func (c Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	by := c.By
	if by == nil {
		by = http.DefaultTransport
	}
	if !concerns(r) {
		return by.RoundTrip(r)
	}
	sent := read(r.Body)
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(sent))
	response, err := by.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body := read(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(body))
	check(c.T, Exchange{r, sent, response.StatusCode, response.Header, body})
	return response, nil
}
