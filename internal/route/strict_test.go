package route

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The reader here finds the fields, and some app does not: PHP, Django or formidable. What it
// answers then says nothing about a password.

func TestATypeInAnotherSpellingIsRefused(t *testing.T) {
	t.Parallel()
	object := mustCompile(t, Spec{Name: "login", Path: "/login", Account: "json:/username",
		Password: "json:/password", Success: []string{"status 200"}})
	for _, form := range []string{"/login", "/*"} {
		for kind, want := range map[string]bool{
			ofPairs: true, ofPairs + ";": true, ofPairs + "; charset=UTF-8": true, ofPairs + ";charset=utf-8": true,
			ofPairs + `; charset="utf-8"`: true, "Application/X-WWW-Form-URLEncoded": true,
			ofPairs + "\t": false, ofPairs + "\t;": false, ofPairs + "\u00a0": false, ofPairs + "\u00a0; charset=utf-8": false,
			ofPairs + "\u2003;": false, ofPairs + "\x85": false, ofPairs + " ; charset=utf-8": false, ofPairs + ",": false,
			ofPairs + ";\tcharset=utf-8": false, ofPairs + "; charſet=utf-8": false, ofPairs + "; charset=utf-8\t": false,
		} {
			table := Table{loginAt(t, form)}
			found, o, err := table.Find(posted(kind, decoy), []byte(decoy))
			if found == nil || (err == nil) != want || want && o.Credentials[0] != (Credential{"decoy", "x"}) {
				t.Errorf("%s %q: %v, %q, %v", form, kind, found, o.Credentials, err)
			}
		}
	}
	for kind, want := range map[string]bool{
		"application/json": true, "application/json;charset=UTF-8": true, "application/json; odata=verbose": true,
		"application/json\t;": false, "application/json\u00a0": false, "application/json ;": false,
	} {
		if found, _, err := (Table{object}).Find(posted(kind, objectBody), []byte(objectBody)); found == nil || (err == nil) != want {
			t.Errorf("%q: %v, %v", kind, found, err)
		}
	}
}

// PHP sees 1,000 variables, Node and ASP.NET about as many, and Django refuses more.
func TestALoginOfManyFieldsIsRefused(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("a=&", 200)
	var parts []string
	for range 200 {
		parts = append(parts, named("a"), "")
	}
	param := mustCompile(t, Spec{Name: "login", Path: "/*", Account: "param:username", Password: "param:password",
		Success: []string{"status 302"}})
	for _, table := range []Table{{loginAt(t, "/login")}, {loginAt(t, "/*")}, {param}} {
		for _, one := range [][3]string{
			{ofPairs, many + pairsBody, ""}, {ofPairs, pairsBody + "&" + many, ""}, {ofParts, partsOf(append(parts,
				named("username"), "alice", named("password"), "guess")...), ""}, {ofPairs, pairsBody, many},
		} {
			r := posted(one[0], one[1])
			r.URL.RawQuery = one[2]
			if found, o, err := table.Find(r, []byte(one[1])); err == nil || found == nil {
				t.Errorf("%.40q?%.10s passes, at %v with %q", one[1], one[2], found, o.Credentials)
			}
		}
		few := strings.Repeat("a=&", 198) + pairsBody
		if found, o, err := table.Find(posted(ofPairs, few), []byte(few)); err != nil || found == nil ||
			o.Credentials[0].Account != "alice" {
			t.Errorf("200 fields: %v, %q, %v", found, o.Credentials, err)
		}
	}
	if found, _, err := (Table{loginAt(t, "/*")}).Find(posted(ofPairs, many), []byte(many)); found != nil || err != nil {
		t.Errorf("another form of many fields: %v, %v", found, err)
	}
}

// To PHP and others a part with a file's name is a file, and to formidable and busboy one
// with a type.
func TestALoginsFieldIsNoFile(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/login", "/*"} {
		for rest, want := range map[string]bool{
			"": true, "\r\nContent-Type: text/plain": true, "\r\nContent-Type: text/plain; charset=utf-8": true,
			`; filename="a"`: false, `; filename=""`: false, "; filename=a": false, "; filename*=utf-8''a": false,
			"\r\nContent-Type: application/octet-stream": false, "\r\nContent-Type: image/png": false,
		} {
			for _, body := range []string{
				partsOf(named("username")+rest, "alice", named("password"), "guess"),
				partsOf(named("username"), "alice", named("password")+rest, "guess"),
			} {
				table := Table{loginAt(t, path)}
				if found, o, err := table.Find(posted(ofParts, body), []byte(body)); found == nil || (err == nil) != want {
					t.Errorf("%s %q: %v, %q, %v", path, rest, found, o.Credentials, err)
				}
			}
		}
	}
	body := partsOf(named("f")+"; filename=\"a.png\"\r\nContent-Type: image/png", "\x00", named("username"), "alice",
		named("password"), "guess")
	if _, o, err := (Table{loginAt(t, "/*")}).Find(posted(ofParts, body), []byte(body)); err != nil || len(o.Credentials) != 1 {
		t.Errorf("a file beside a login: %q, %v", o.Credentials, err)
	}
}

// PHP and Django read no form but of a POST. A route that names another method says that
// its app does.
func TestAFormComesWithPOST(t *testing.T) {
	t.Parallel()
	at := func(methods ...string) Table {
		return Table{mustCompile(t, Spec{Name: "login", Path: "/*", Methods: methods, Account: "param:username",
			Password: "param:password", Success: []string{"status 302"}})}
	}
	for _, kind := range []string{ofPairs, ofParts} {
		body := map[string]string{ofPairs: pairsBody, ofParts: partsBody}[kind]
		for _, one := range []struct {
			table  Table
			method string
			want   bool
		}{
			{at("ANY"), "POST", true}, {at("ANY"), "PUT", false}, {at("ANY"), "PATCH", false}, {at("ANY"), "GET", false},
			{at("ANY"), "QUERY", false}, {at("POST", "PUT"), "PUT", true}, {at("GET", "POST"), "GET", false},
			{at("HEAD", "POST"), "HEAD", false},
		} {
			r := posted(kind, body)
			r.Method = one.method
			if found, o, err := one.table.Find(r, []byte(body)); found == nil || (err == nil) != one.want {
				t.Errorf("%s %s: %v, %q, %v", one.method, kind, found, o.Credentials, err)
			}
		}
	}
	r := posted(ofPairs, "a=b")
	r.Method, r.URL.RawQuery = http.MethodPut, pairsBody
	if _, o, err := at("ANY").Find(r, []byte("a=b")); err != nil || len(o.Credentials) != 1 {
		t.Errorf("in the query: %q, %v", o.Credentials, err)
	}
}

// Ruby's cgi and Rack before 2025 look for the last boundary=.
func TestABoundaryHasNoEqualsSign(t *testing.T) {
	t.Parallel()
	for _, boundary := range []string{"xboundary=y", `"xboundary=y"`, `"XyZ=a"`} {
		body := strings.ReplaceAll(partsBody, "XyZ", strings.Trim(boundary, `"`))
		for _, path := range []string{"/login", "/*"} {
			table := Table{loginAt(t, path)}
			if found, o, err := table.Find(posted("multipart/form-data; boundary="+boundary, body), []byte(body)); err == nil || found == nil {
				t.Errorf("%s %s passes, at %v with %q", path, boundary, found, o.Credentials)
			}
		}
	}
}

// Rack, Rails, Laravel, Symfony, Spring and ASP.NET take the method out of a form.
func TestALoginHasTheMethodOfItsRequest(t *testing.T) {
	t.Parallel()
	object := mustCompile(t, Spec{Name: "login", Path: "/login", Account: "json:/username",
		Password: "json:/password", Success: []string{"status 200"}})
	for _, one := range []struct {
		table             Table
		query, kind, body string
		want              bool
	}{
		{Table{loginAt(t, "/login")}, "", ofPairs, "_method=delete&" + pairsBody, false},
		{Table{loginAt(t, "/login")}, "", ofPairs, pairsBody + "&_method=PUT", false},
		{Table{loginAt(t, "/login")}, "", ofPairs, pairsBody + "&_METHOD=PUT", false},
		{Table{loginAt(t, "/login")}, "", ofPairs, pairsBody + "&_method[]=PUT", false},
		{Table{loginAt(t, "/login")}, "", ofPairs, pairsBody + "&_method=po%C5%BFt", false},
		{Table{loginAt(t, "/login")}, "", ofPairs, pairsBody + "&_method=post&_method=put", false},
		{Table{loginAt(t, "/login")}, "", ofPairs, pairsBody + "&X-HTTP-Method-Override=GET", false},
		{Table{loginAt(t, "/login")}, "_method=delete", ofPairs, pairsBody, false},
		{Table{loginAt(t, "/*")}, "", ofPairs, pairsBody + "&_method=delete", false},
		{Table{loginAt(t, "/login")}, "", ofParts, partsOf(named("_method"), "delete", named("username"), "alice",
			named("password"), "guess"), false},
		{Table{object}, "", "application/json", `{"_method":"DELETE",` + objectBody[1:], false},
		{Table{object}, "_method=delete", "application/json", objectBody, false},
		{Table{loginAt(t, "/login")}, "", ofPairs, pairsBody + "&_method=post", true},
		{Table{loginAt(t, "/login")}, "", ofPairs, pairsBody + "&_method=POST&method=put", true},
		{Table{object}, "", "application/json", `{"_method":"POST",` + objectBody[1:], true},
	} {
		r := posted(one.kind, one.body)
		r.URL.RawQuery = one.query
		if found, o, err := one.table.Find(r, []byte(one.body)); found == nil || (err == nil) != one.want {
			t.Errorf("%q ?%s: %v, %q, %v", one.body, one.query, found, o.Credentials, err)
		}
	}
	if found, _, err := (Table{loginAt(t, "/*")}).Find(posted(ofPairs, "_method=delete&id=1"), []byte("_method=delete&id=1")); found != nil ||
		err != nil {
		t.Errorf("another form in a folder: %v, %v", found, err)
	}
}

// A name that the pattern of names allows is not trimmed of what only some readers trim.
func TestOnlySpacesAroundANameAreOverlooked(t *testing.T) {
	t.Parallel()
	table := Table{loginAt(t, "/login", func(s *Spec) { s.Names = "[a-z]+" })}
	for name, want := range map[string]bool{"+alice+": true, "%C2%A0alice": false, "alice%E2%80%83": false, "alice%C2%85": false} {
		body := fmt.Sprintf("username=%s&password=x", name)
		if _, o, err := table.Find(posted(ofPairs, body), []byte(body)); (err == nil) != want {
			t.Errorf("%s: %q, %v", name, o.Credentials, err)
		}
	}
}
