package config_test

import (
	"net/http"
	"strings"
	"testing"

	"authguard/internal/config"
	"authguard/internal/route"
)

func presetTable(t *testing.T, name string) (table route.Table) {
	t.Helper()
	routes, err := config.Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range routes {
		one, err := route.Compile(spec.Spec)
		if err != nil {
			t.Fatal(err)
		}
		table = append(table, one)
	}
	return table
}

// phpMyAdmin reads the code from $_POST on every page. Its login is another route, and uploads without the field pass.
func TestThePresetForPHPMyAdminKnowsItsCodes(t *testing.T) {
	t.Parallel()
	table := presetTable(t, "phpmyadmin")
	for body, want := range map[string]string{
		"2fa_code=123456": "second-factor", "token=x&2fa_code=123456&server=1": "second-factor",
		"pma_username=alice&pma_password=x": "login", "sql_query=SELECT+1": "",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/index.php?route=/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		one, _, err := table.Find(r, []byte(body))
		name := ""
		if one != nil {
			name = one.Name
		}
		if err != nil || name != want || one.SecondFactor() != (want == "second-factor") {
			t.Errorf("%s: route %q, %v", body, name, err)
		}
	}
}

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

// MediaWiki reads logins and codes of pages at every path. A page changes a password in the API's field.
func TestThePresetForMediaWikiKnowsItsLogins(t *testing.T) {
	t.Parallel()
	table := presetTable(t, "mediawiki")
	for sent, want := range map[string]string{
		"/x title=Special:UserLogin&wpName=Alice&wpPassword=x": "login", "/x OATHToken=123456": "login", "/x wpUsername=Alice": "",
		"/w/api.php action=clientlogin&username=Alice&password=x": "login", "/api.php action=login&lgname=Alice%40bot&lgpassword=x": "login",
		"/x wpTextbox1=text&wpSave=1": "", "/x password=x&retype=x&wpusername=Alice": "",
	} {
		path, body, _ := strings.Cut(sent, " ")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		at, _ := table.At(path)
		one, _, err := at.Find(r, []byte(body))
		name := ""
		if one != nil {
			name = one.Name
		}
		if err != nil || name != want || one.SecondFactor() != strings.Contains(body, "OATH") {
			t.Errorf("%s: route %q, %v", sent, name, err)
		}
	}
}

func TestAGuardedPathIsNamedOnce(t *testing.T) {
	t.Parallel()
	p := config.Proxy{Preset: "wordpress"}
	if got, want := p.GuardedPaths(), "/wp-login.php, /wp-login.php/*, /xmlrpc.php/*"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
