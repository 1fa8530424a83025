//go:build !race

package config

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWhatAFileSaysIsRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := anyConfig(t)
		got, err := Parse("t.yaml", file(want), nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, file(want))
		}
		if !reflect.DeepEqual(got.Config, want) {
			t.Fatalf("got  %#v\nwant %#v\n%s", got.Config, want, file(want))
		}
		for _, s := range got.Effective() {
			if s.Origin == "default" {
				t.Fatalf("%s was not read", s.Path)
			}
		}
	})
}

func TestWhatVariablesSayIsRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := anyConfig(t)
		var environ []string
		for _, s := range settings(&want) {
			environ = append(environ, s.variable()+"="+strings.Join(texts(s), ", "))
		}
		want.Alerts.To = nil // its URLs have commas
		got, err := Parse("", nil, append(environ, "AUTHGUARD_ALERTS_TO="))
		if err != nil {
			t.Fatalf("%v\n%q", err, environ)
		}
		if !reflect.DeepEqual(got.Config, want) {
			t.Fatalf("got  %#v\nwant %#v\n%q", got.Config, want, environ)
		}
	})
}
