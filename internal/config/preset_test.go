package config_test

import (
	"net/http"
	"testing"

	"authguard/internal/config"
	"authguard/internal/route"
)

// Many APIs send a token against CSRF with every answer, 200 among them.
func TestThePresetForJSONKnowsALoginsToken(t *testing.T) {
	t.Parallel()
	routes, err := config.Preset("json")
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range routes {
		one, err := route.Compile(spec.Spec)
		if err != nil {
			t.Fatal(err)
		}
		for body, want := range map[string]route.Verdict{
			`{"token":"x"}`: route.Succeeded, `{"access_token": "x"}`: route.Succeeded,
			`{"accessToken":"x"}`:  route.Succeeded,
			`{"data":{"jwt":"x"}}`: route.Succeeded, `{"JWT":"x"}`: route.Succeeded,
			`{"id-token":"x","csrfToken":"y"}`: route.Succeeded,
			`{"csrfToken":"x"}`:                route.Failed, `{"csrf_token":"x"}`: route.Failed,
			`{"xsrf-token":"x"}`: route.Failed, `{"CSRFToken":"x"}`: route.Failed,
			`{"error":"no","csrf":{"token":"x"}}`: route.Failed, `{"_token":"x"}`: route.Failed,
			`{"token":""}`:       route.Failed,
			`{"resetToken":"x"}`: route.Failed, `{"authenticity_token":"x"}`: route.Failed,
		} {
			if got := one.Judge(route.Answer{Status: http.StatusOK, Body: []byte(body), Whole: true}); got != want {
				t.Errorf("%s: %s is %v, not %v", spec.Path, body, got, want)
			}
		}
	}
}
