package web

import (
	"encoding/json"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/internal/testing/doctest"
)

// A schema is as much of a JSON Schema as names fields.
type schema struct {
	Properties map[string]schema
	Ref        string `json:"$ref"`
	Items      *schema
}

// schemas are those of the document, by name.
func schemas(t *testing.T) map[string]schema {
	t.Helper()
	var doc struct {
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Components.Schemas
}

// fieldsOf are the names that a struct has in JSON.
func fieldsOf(s any) (names []string) {
	for of := reflect.TypeOf(s); ; of = of.Elem() {
		if of.Kind() == reflect.Pointer {
			continue
		}
		for i := range of.NumField() {
			if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
				names = append(names, name)
			}
		}
		return names
	}
}

// TestTheDocumentHasEveryFieldThatIsReadOrWritten, and no other.
func TestTheDocumentHasEveryFieldThatIsReadOrWritten(t *testing.T) {
	t.Parallel()
	all := schemas(t)
	decision := maps.Clone(all["Proceed"].Properties)
	maps.Copy(decision, all["Challenged"].Properties)
	maps.Copy(decision, all["Stopped"].Properties)
	problem := maps.Clone(all["Problem"].Properties)
	problem["challenge"] = schema{} // of POST /login alone
	problem["login"] = schema{}     // of the forward-auth doors alone
	problem["solve"] = schema{}     // of the reverse proxy alone
	shown := all["Challenge"].Properties
	for name, one := range map[string]struct {
		written map[string]schema
		in      any
	}{
		"Attempt":           {all["Attempt"].Properties, attemptRequest{}},
		"Attempt.challenge": {all["Solution"].Properties, attemptRequest{}.Challenge},
		"Event":             {all["Event"].Properties, eventRequest{}},
		"Event.challenge":   {all["Solution"].Properties, eventRequest{}.Challenge},
		"Decision":          {decision, attemptAnswer{}},
		"Settlement":        {all["Settlement"].Properties, settlement{}},
		"Settled":           {all["Settled"].Properties, settled{}},
		"Problem":           {problem, Problem{}},
		"Challenge":         {shown, challenge.Challenge{}},
		"Challenge.pow":     {shown["pow"].Properties, challenge.PoW{}},
		"Challenge.remote":  {shown["remote"].Properties, challenge.Remote{}},
	} {
		written, in := slices.Sorted(maps.Keys(one.written)), slices.Sorted(slices.Values(fieldsOf(one.in)))
		if !slices.Equal(written, in) {
			t.Errorf("%s has the fields %v in the document, and %v in the code", name, written, in)
		}
	}
}

// Every path that there is stands in a document.
func TestEveryPathIsInTheDocuments(t *testing.T) {
	t.Parallel()
	documents := doctest.All(t)
	for _, r := range (&Public{Login: new(Login), API: new(API), Log: slog.New(slog.DiscardHandler)}).routes().Routes() {
		path, _, _ := strings.Cut(r.Path, ":")
		if path != "/" && r.Method != echo.RouteNotFound && !doctest.Tells(documents, "", path) {
			t.Errorf("%s %s is in no document", r.Method, r.Path)
		}
	}
}
