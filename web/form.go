package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// MaxBody is the largest request body that is read, in bytes.
const MaxBody = 16 << 10

// A form is what a client filled in: every field once, and text.
type form map[string]string

// A badRequest is what is wrong with a request, in words for whoever sent it.
type badRequest struct {
	status int
	text   string
}

func (b *badRequest) Error() string { return b.text }

// readForm reads a form or a JSON object of strings. Fields that come twice or
// are no text are an error: what one parser takes for the name must not be
// something else to another (R11).
func readForm(w http.ResponseWriter, r *http.Request, fields ...string) (form, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, &badRequest{http.StatusUnsupportedMediaType, "Send a form (application/x-www-form-urlencoded) or JSON (application/json)."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
	var f form
	switch kind {
	case "application/x-www-form-urlencoded":
		f, err = readURLEncoded(r, fields)
	case "application/json":
		f, err = readJSON(r.Body, fields)
	default:
		return nil, &badRequest{http.StatusUnsupportedMediaType, "Send a form (application/x-www-form-urlencoded) or JSON (application/json)."}
	}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, &badRequest{http.StatusRequestEntityTooLarge, fmt.Sprintf("Send at most %d bytes.", MaxBody)}
	}
	return f, err
}

// readURLEncoded reads the body alone: a name in the query string is none.
func readURLEncoded(r *http.Request, fields []string) (form, error) {
	if err := r.ParseForm(); err != nil {
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			return nil, err
		}
		return nil, &badRequest{http.StatusBadRequest, "The form could not be read."}
	}
	f := make(form, len(fields))
	for _, name := range fields {
		switch values := r.PostForm[name]; len(values) {
		case 0:
		case 1:
			f[name] = values[0]
		default:
			return nil, &badRequest{http.StatusBadRequest, fmt.Sprintf("Send the field %s once.", name)}
		}
	}
	return f, nil
}

// readJSON reads one object. encoding/json would take the last of two equal
// names and match names of other case; both are refused here.
func readJSON(body io.Reader, fields []string) (form, error) {
	d := json.NewDecoder(body)
	f := make(form, len(fields))
	if err := want(d, json.Delim('{')); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := text(d)
		if err != nil {
			return nil, err
		}
		if !known(fields, name) {
			var ignored json.RawMessage
			if err := d.Decode(&ignored); err != nil {
				return nil, badJSON(err)
			}
			continue
		}
		if _, twice := f[name]; twice {
			return nil, &badRequest{http.StatusBadRequest, fmt.Sprintf("Send the field %s once.", name)}
		}
		if f[name], err = text(d); err != nil {
			return nil, err
		}
	}
	if err := want(d, json.Delim('}')); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, badJSON(err)
	}
	return f, nil
}

func want(d *json.Decoder, delim json.Delim) error {
	token, err := d.Token()
	if err != nil || token != delim {
		return badJSON(err)
	}
	return nil
}

func text(d *json.Decoder) (string, error) {
	token, err := d.Token()
	s, ok := token.(string)
	if err != nil || !ok {
		return "", badJSON(err)
	}
	return s, nil
}

func badJSON(err error) error {
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return err
	}
	return &badRequest{http.StatusBadRequest, "Send one JSON object whose fields are strings."}
}

func known(fields []string, name string) bool {
	for _, field := range fields {
		if field == name {
			return true
		}
	}
	return false
}
