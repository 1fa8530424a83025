package proxy_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"authguard/web/pages"
	"authguard/web/texts"
)

// paths are where a page of ours leads and what it loads.
var paths = regexp.MustCompile(`(?:href|src)="([^"#]+)`)

// Our pages before an app bear the site's look, speak the visitor's language, and
// take none of the app's paths: /static/ and /captcha/ are the app's.
func TestOurPagesBeforeAnAppAreTheSites(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	languages := texts.Standard()
	svg := `<svg xmlns="http://www.w3.org/2000/svg"/>`
	look, err := pages.NewLook(pages.Brand{Name: "Müllers Kiosk", Logo: []byte(svg), Colour: "#ffcc00"}, languages)
	if err != nil {
		t.Fatal(err)
	}
	d.proxy.Look.Set(look)
	for i := range 5 {
		d.send(t, fmt.Sprintf("198.18.%d.1", i), form("username=alice&password=guess-"+fmt.Sprint(i)))
	}
	check := func(name string, r *http.Response, status int, says string) (body string) {
		t.Helper()
		body = text(t, r)
		if r.StatusCode != status || !strings.Contains(body, `<html lang="de">`) || !strings.Contains(body, says) || !strings.Contains(body, "Müllers Kiosk</title>") {
			t.Errorf("%s: %d %s", name, r.StatusCode, body)
		}
		if r.Header.Get("Content-Language") != "de" || r.Header.Get("Vary") != "Accept-Language" {
			t.Errorf("%s: %v", name, r.Header)
		}
		for _, path := range paths.FindAllStringSubmatch(body, -1) {
			if !strings.HasPrefix(path[1], "/.authguard/") && path[1] != "/" && path[1] != "/login" {
				t.Errorf("%s: %s is the app's", name, path[1])
			}
		}
		return body
	}
	german := []string{"Accept-Language", "de"}
	page := check("the challenge", d.send(t, "203.0.113.9", form("username=alice&password=correct+horse"), german...), http.StatusForbidden, "um Ihr Formular zu senden")
	kept, id := gate(t, page)
	another := url.Values{"authguard_form": {kept}, "captcha_id": {id}, "captcha_answer": {""}, "code": {""}}.Encode()
	page = check("another picture", d.send(t, "203.0.113.9", form(another), german...), http.StatusForbidden, "um Ihr Formular zu senden")
	if again, other := gate(t, page); again == "" || other == "" || other == id {
		t.Errorf("the form or the new picture is lost: %s", page)
	}
	check("no such file", d.send(t, "203.0.113.9", offer{"GET", "/.authguard/nothing", "", ""}, german...), http.StatusNotFound, "Seite nicht gefunden")
	check("a broken form", d.send(t, "203.0.113.9", form("authguard_form=a&authguard_form=b"), german...), http.StatusBadRequest, "Das Formular konnte nicht gelesen werden")
	check("a form that waited", d.send(t, "203.0.113.9", form("authguard_form=abc"), german...), http.StatusBadRequest, "Das Formular ist abgelaufen")
	check("an odd name", d.send(t, "203.0.113.9", form("username=a%E2%80%AEb&password=x"), german...), http.StatusBadRequest, "Benutzernamen noch einmal ein")
	if r := d.send(t, "203.0.113.9", offer{"GET", "/.authguard/static/logo", "", ""}); text(t, r) != svg || r.Header.Get("Content-Type") != "image/svg+xml" {
		t.Errorf("the logo: %d %v", r.StatusCode, r.Header)
	}
	if r := d.send(t, "203.0.113.9", offer{"HEAD", "/.authguard/static/logo", "", ""}); r.StatusCode != http.StatusOK || r.ContentLength != int64(len(svg)) {
		t.Errorf("HEAD of the logo: %d %v", r.StatusCode, r.Header)
	}
	d.app.Close()
	check("no app", d.send(t, "203.0.113.10", offer{"GET", "/login", "", ""}, german...), http.StatusBadGateway, "Diese Website antwortet nicht")
}
