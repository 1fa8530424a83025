package route_test

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"authguard/internal/route"
)

func compile(t testing.TB, rules ...route.AccessRule) route.AccessRules {
	t.Helper()
	all, err := route.CompileAccess(rules)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sites is what docs/how-to/forward-auth.md tells about.
func sites(t testing.TB) route.AccessRules {
	return compile(t,
		route.AccessRule{Paths: []string{"/public/*", "/health"}, Allow: route.AllowAnyone},
		route.AccessRule{Paths: []string{"/api/*"}, Methods: []string{"GET", "OPTIONS"}, Allow: route.AllowAnyone},
		route.AccessRule{Paths: []string{"/admin/help"}, Allow: route.AllowLogin},
		route.AccessRule{Paths: []string{"/admin/*"}, Groups: []string{"admins", "Domain Admins"}},
		route.AccessRule{Paths: []string{"/old/*"}, Allow: route.AllowNone},
		route.AccessRule{Hosts: []string{"files.example.org", "*.files.example.org"}, Groups: []string{"staff"}},
		route.AccessRule{Hosts: []string{"app.example.org", "xfiles.example.org"}, Allow: route.AllowLogin},
	)
}

func TestTheFirstRuleThatFitsDecides(t *testing.T) {
	t.Parallel()
	rules := sites(t)
	words := map[route.Access]string{route.AccessDenied: "refused", route.LoginRequired: "login", route.AccessGranted: "granted"}
	for _, one := range []struct{ host, method, path, nobody, ann, staff, admin string }{
		{"", "GET", "/", "login", "refused", "granted", "refused"}, // it may be files.example.org
		{"app.example.org", "GET", "/", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public/x", "granted", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public", "granted", "granted", "granted", "granted"},
		{"app.example.org", "POST", "/public/f%C3%BC%20r", "granted", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public/a+b", "granted", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public/..+/admin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/publicity", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/health", "granted", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/health/x", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/health.json", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/api/x", "granted", "granted", "granted", "granted"},
		{"app.example.org", "HEAD", "/api/x", "granted", "granted", "granted", "granted"},
		{"app.example.org", "POST", "/api/x", "login", "granted", "granted", "granted"},
		{"app.example.org", "", "/api/x", "login", "granted", "granted", "granted"},
		{"app.example.org", "get", "/api/x", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/admin", "login", "refused", "refused", "granted"},
		{"app.example.org", "DELETE", "/admin/x", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/admin.json", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/administration", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/admin/help", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/admin/HELP", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/admin/help/../x", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/old/x", "refused", "refused", "refused", "refused"},
		{"files.example.org", "GET", "/", "login", "refused", "granted", "refused"},
		{"a.files.example.org", "GET", "/", "login", "refused", "granted", "refused"},
		{"xfiles.example.org", "GET", "/", "login", "granted", "granted", "granted"},
		{"files.example.org", "GET", "/public/x", "granted", "granted", "granted", "granted"},
		{"unknown.example.org", "GET", "/", "login", "refused", "granted", "refused"}, // a gateway may send it to files
		{"unknown.example.org", "GET", "/public/x", "granted", "granted", "granted", "granted"},
		{"files.example.org:1:2", "GET", "/", "login", "refused", "granted", "refused"},
		{"127.0.0.1", "GET", "/", "login", "refused", "granted", "refused"},
		// Somebody does not read these as they stand.
		{"app.example.org", "GET", "//admin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/%61dmin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/%2561dmin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/x/../admin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/x/%2e%2e/admin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/x%2f..%2fadmin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", `/x/..\admin`, "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/ADMIN", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/admin/", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/admin;x=1", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/admin%00", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/./admin", "login", "refused", "refused", "granted"},
		// nginx passes a # on; gunicorn, Node and PHP end the path there.
		{"app.example.org", "GET", "/admin#", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/admin#/x", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/old/x#?x", "refused", "refused", "refused", "refused"},
		// Windows opens the folder admin for these.
		{"app.example.org", "GET", "/admin./x", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/admin.../x", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/admin%20/x", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/admin%2e%20/x", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/admin::$INDEX_ALLOCATION/x", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/admin:$i30:$INDEX_ALLOCATION/x", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/public/../admin./x", "login", "refused", "refused", "granted"},
		// Apache's MultiViews run admin.php.
		{"app.example.org", "GET", "/admin.php", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/ADMIN.php/users", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/public.php/x", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/x/..%20/admin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/public./x", "login", "granted", "granted", "granted"},
		// PHP's parse_url finds no path in these, and routers serve / without one.
		{"app.example.org", "GET", "/public/x:80", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public/:1", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public/a:65535/b", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public/x%3A80", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public/x;y:80", "login", "granted", "granted", "granted"},
		{"files.example.org", "GET", "/public/x:80", "login", "refused", "granted", "refused"},
		{"app.example.org", "GET", "/public/12:30:00Z", "granted", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public/2026-11-28T10:30:00", "granted", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public/urn:isbn:12", "granted", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public/x:123456", "granted", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/admin:x", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public/../admin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/public/%2e%2e/admin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/public/..;/admin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/public/..%5cadmin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/public/．．/admin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/public/%E2%80%A5/admin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/public/%EF%BC%8E%EF%BC%8E%EF%BC%8Fadmin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/%EF%BD%81dmin", "login", "refused", "refused", "granted"},
		{"app.example.org", "GET", "/public/a%CC%88", "granted", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public//../x", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/PUBLIC/x", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/x.php/public/x", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/public/%ff", "login", "granted", "granted", "granted"},
		{"app.example.org", "GET", "/x/../old", "refused", "refused", "refused", "refused"},
		{"app.example.org", "GET", "", "refused", "refused", "refused", "refused"}, // it may be /old
	} {
		need := rules.Of(route.AccessRequest{Host: one.host, Method: one.method, Path: one.path})
		for _, who := range []struct {
			in     bool
			groups []string
			want   string
		}{{false, nil, one.nobody}, {true, nil, one.ann}, {true, []string{"staff"}, one.staff}, {true, []string{"x", "Domain Admins"}, one.admin}} {
			if got := words[need.Meets(who.in, who.groups)]; got != who.want {
				t.Errorf("%s %s%s, logged in: %t %q: %s, want %s", one.method, one.host, one.path, who.in, who.groups, got, who.want)
			}
		}
	}
	if n := rules.Of(route.AccessRequest{Host: "a", Method: "GET", Path: "/api/x", Overridden: true}); n.Nothing() {
		t.Error("a GET that may be something else is open")
	}
	if n := route.AccessRules(nil).Of(route.AccessRequest{}); n.Meets(false, nil) != route.LoginRequired || n.Meets(true, nil) != route.AccessGranted {
		t.Error("without rules a login is not what is needed")
	}
	root := compile(t, route.AccessRule{Paths: []string{"/"}, Groups: []string{"admins"}}, route.AccessRule{Paths: []string{"/*"}, Allow: route.AllowLogin})
	for path, want := range map[string]string{"/": "refused", "/x": "granted", "/x:80": "refused", "/shop/item:5": "refused", "/a:b:80": "granted"} {
		if got := words[root.Of(route.AccessRequest{Host: "a", Method: "GET", Path: path}).Meets(true, nil)]; got != want {
			t.Errorf("with a rule for /, %s: %s, want %s", path, got, want)
		}
	}
	if new(route.Access) == nil || route.Access(0) != route.AccessDenied {
		t.Error("the zero verdict does not refuse")
	}
}

// Django and others make capital letters of a method, and gateways hand on what they get.
func TestAMethodInOtherLettersIsClosedAndOpensNothing(t *testing.T) {
	t.Parallel()
	rules := compile(t,
		route.AccessRule{Paths: []string{"/api/*"}, Methods: []string{"POST", "GET"}, Groups: []string{"admins"}},
		route.AccessRule{Methods: []string{"PROPFIND"}, Allow: route.AllowAnyone},
		route.AccessRule{Paths: []string{"/api/*"}, Allow: route.AllowAnyone},
	)
	for method, want := range map[string]route.Access{
		"POST": route.AccessDenied, "post": route.AccessDenied, "Post": route.AccessDenied, "pOST": route.AccessDenied, "get": route.AccessDenied, "HEAD": route.AccessDenied, "head": route.AccessDenied,
		"PUT": route.AccessGranted, "put": route.AccessGranted, "POSTS": route.AccessGranted, "": route.AccessDenied,
	} {
		if got := rules.Of(route.AccessRequest{Host: "a", Method: method, Path: "/api/x"}).Meets(true, nil); got != want {
			t.Errorf("%q: %v, want %v", method, got, want)
		}
	}
	if got := rules.Of(route.AccessRequest{Host: "a", Method: "PUT", Path: "/api/x", Overridden: true}).Meets(true, nil); got != route.AccessDenied {
		t.Errorf("a PUT that may be a POST: %v", got)
	}
	never := compile(t, route.AccessRule{Paths: []string{"/old/*"}, Allow: route.AllowNone}, route.AccessRule{Paths: []string{"/x/*"}, Groups: []string{"staff"}})
	if got := never.Of(route.AccessRequest{Host: "a", Method: "GET"}).Meets(true, []string{"staff"}); got != route.AccessDenied {
		t.Errorf("what may be for nobody, and may be for staff: %v", got)
	}
	for method, want := range map[string]bool{"PROPFIND": true, "propfind": false} {
		if got := rules.Of(route.AccessRequest{Host: "a", Method: method, Path: "/x"}).Nothing(); got != want {
			t.Errorf("%q opens: %t", method, got)
		}
	}
}

func TestRulesThatCannotBeRightAreToldAllAtOnce(t *testing.T) {
	t.Parallel()
	_, err := route.CompileAccess([]route.AccessRule{
		{Paths: []string{"/x"}, Allow: route.AllowAnyone},
		{Paths: []string{"x", "/a?b"}, Allow: "everybody"},
		{Hosts: []string{"https://x", "a.*"}, Methods: []string{"get"}, Groups: []string{"a,b", " x", ""}},
		{Groups: []string{"staff"}, Allow: route.AllowAnyone},
		{Paths: []string{"/x"}},
	})
	for _, want := range []string{
		"[1].allow: must be anyone, login or none, not \"everybody\"", "[1].paths: must begin with /",
		"[2].hosts: must be names such as app.example.org, or *.example.org for every name below it, without a port, not \"https://x\"", `[2].hosts: must be names such as app.example.org, or *.example.org for every name below it, without a port, not "a.*"`,
		"[2].methods: must be names such as GET", "[2].groups: must be names of groups, not \"a,b\"", "[2].groups: must be names of groups, not \" x\"",
		"[3].groups: go with login only", "[4].allow: must be anyone, login or none, unless groups are named",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "[0]") {
		t.Error(err)
	}
}

// FuzzNoSpellingOpensWhatIsClosed holds that whatever an app, a gateway or both make of a
// path, nobody gets to /admin by way of the rule that opens /public.
func FuzzNoSpellingOpensWhatIsClosed(f *testing.F) {
	for _, seed := range []string{"/public/../admin", "/public/%2e%2e/admin", "/public/..;/admin", `/public/..\admin`, "/public/%252e%252e/admin", "/%70ublic/x", "/public/x?y", "/public/\x00/../admin", "/admin", "//admin"} {
		f.Add(seed)
	}
	rules := compile(f, route.AccessRule{Paths: []string{"/public/*"}, Allow: route.AllowAnyone}, route.AccessRule{Paths: []string{"/admin/*"}, Groups: []string{"admins"}})
	f.Fuzz(func(t *testing.T, sent string) {
		if !strings.HasPrefix(sent, "/") {
			return
		}
		need := rules.Of(route.AccessRequest{Host: "a", Method: "GET", Path: sent})
		if need.Meets(true, nil) != route.AccessGranted {
			return
		}
		for _, read := range readings(sent) {
			switch first, _, _ := strings.Cut(strings.TrimPrefix(read, "/"), "/"); {
			case strings.EqualFold(first, "admin"):
				t.Errorf("%q may be %q, and needs no group", sent, read)
			case need.Nothing() && decode(first) != "public":
				t.Errorf("%q may be %q, and needs no login", sent, read)
			}
		}
	})
}

// readings are what servers make of a path: as it is, decoded once or twice, without
// parameters, with / for \, merged and cleaned.
func readings(sent string) (all []string) {
	slash := func(s string) string { return strings.ReplaceAll(s, `\`, "/") }
	bare := func(s string) string {
		parts := strings.Split(s, "/")
		for i, p := range parts {
			parts[i], _, _ = strings.Cut(p, ";")
		}
		return strings.Join(parts, "/")
	}
	all = []string{sent, decode(sent), decode(decode(sent))}
	for _, step := range []func(string) string{slash, bare, path.Clean} {
		for _, s := range all {
			all = append(all, step(s))
		}
	}
	return all
}

func decode(s string) string {
	if d, err := url.PathUnescape(s); err == nil {
		return d
	}
	return s
}
