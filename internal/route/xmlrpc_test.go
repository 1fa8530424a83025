package route

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func xmlrpcRoute(t testing.TB) Table {
	t.Helper()
	r, err := Compile(Spec{Name: "xmlrpc", Path: "/xmlrpc.php/*", Account: "xmlrpc", Success: []string{"status 200"}})
	if err != nil {
		t.Fatal(err)
	}
	return Table{r}
}

func findXML(t testing.TB, body string) (Offer, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/xmlrpc.php", nil)
	r.Header.Set("Content-Type", "text/xml")
	_, o, err := xmlrpcRoute(t).Find(r, []byte(body))
	return o, err
}

func strs(texts ...string) (params string) {
	for _, text := range texts {
		params += "<param><value><string>" + text + "</string></value></param>"
	}
	return params
}

func methodCall(method, params string) string {
	return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<methodCall><methodName>" + method + "</methodName><params>" + params + "</params></methodCall>"
}

// many is a system.multicall of calls of wp.getUsersBlogs.
func many(credentials ...Credential) string {
	var calls strings.Builder
	for _, c := range credentials {
		if c.Password == "" {
			c.Password = "<string></string>"
		}
		fmt.Fprintf(&calls, `<value><struct><member><name>methodName</name><value>wp.getUsersBlogs</value></member>
			<member><name>params</name><value><array><data><value><string>%s</string></value><value>%s</value></data></array></value></member></struct></value>`,
			c.Account, c.Password)
	}
	return methodCall("system.multicall", "<param><value><array><data>"+calls.String()+"</data></array></value></param>")
}

func TestXMLRPCOffersAPasswordForEachCall(t *testing.T) {
	t.Parallel()
	var five []Credential
	for i := range 5 {
		five = append(five, Credential{fmt.Sprint("alice", i), fmt.Sprint("guess ", i)})
	}
	for _, c := range []struct {
		name, body string
		want       []Credential
	}{
		{"the usual call", methodCall("wp.getUsersBlogs", strs("alice", "pass")), []Credential{{"alice", "pass"}}},
		{"the site's number comes first", methodCall("wp.getPosts", "<param><value><int>1</int></value></param>"+strs("alice", "p&amp;&#97;ss")), []Credential{{"alice", "p&ass"}}},
		{"Blogger's key comes first", methodCall("blogger.getUserInfo", strs("key", "alice", "pass")), []Credential{{"alice", "pass"}}},
		{"a page's number comes second", methodCall("wp.getPage", strs("1", "2", "alice", "pass")), []Credential{{"alice", "pass"}}},
		{"here, too", methodCall("wp.editPage", strs("1", "2", "alice", "pass", "x")), []Credential{{"alice", "pass"}}},
		{"Blogger's method by another name", methodCall("metaWeblog.deletePost", strs("key", "2", "alice", "pass")), []Credential{{"alice", "pass"}}},
		{"a post's number comes third", methodCall("blogger.getPost", strs("key", "2", "alice", "pass")), []Credential{{"alice", "pass"}}},
		{"a post is looked through", methodCall("metaWeblog.newPost", strs("1", "alice", "pass")+
			"<param><value><struct><member><name>a</name><value><array><data><value><i4>1</i4></value></data></array></value></member></struct></value></param>"), []Credential{{"alice", "pass"}}},
		{"no password at all", methodCall("system.listMethods", ""), nil},
		{"a ping", methodCall("pingback.ping", strs("http://a.example", "http://b.example")), nil},
		{"DokuWiki's", methodCall("dokuwiki.login", strs("alice", "pass")), []Credential{{"alice", "pass"}}},
		{"five in one request", many(five...), five},
		{"nothing in many", methodCall("system.multicall", "<param><value><array><data/></array></value></param>"), nil},
		{"without parameters", "<methodCall><methodName>system.listMethods</methodName></methodCall>", nil},
	} {
		o, err := findXML(t, c.body)
		if err != nil || !slices.Equal(o.Credentials, c.want) {
			t.Errorf("%s: %q, %v", c.name, o.Credentials, err)
		}
	}
}

// WordPress takes most of these.
func TestXMLRPCThatIsNotPlainIsRefused(t *testing.T) {
	t.Parallel()
	usual := methodCall("wp.getUsersBlogs", strs("alice", "pass"))
	deep := strings.Repeat("<value><array><data>", 40) + strings.Repeat("</data></array></value>", 40)
	for name, body := range map[string]string{
		"a DTD":                                strings.Replace(usual, "<methodCall>", "<!DOCTYPE methodCall><methodCall>", 1),
		"a bomb":                               strings.Replace(usual, "<methodCall>", `<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><methodCall>`, 1),
		"an unknown entity":                    methodCall("wp.getUsersBlogs", strs("&a;", "pass")),
		"CDATA":                                methodCall("wp.getUsersBlogs", strs("<![CDATA[alice]]>", "pass")),
		"a comment":                            methodCall("wp.getUsersBlogs", strs("al<!-- -->ice", "pass")),
		"a declaration in the text":            methodCall("wp.getUsersBlogs", strs("al<?xml ?>ice", "pass")),
		"another encoding":                     strings.Replace(usual, "UTF-8", "ISO-8859-1", 1),
		"bytes that are no UTF-8":              methodCall("wp.getUsersBlogs", strs("\xe0lice", "pass")),
		"UTF-7":                                strings.Replace(usual, "UTF-8", "UTF-7", 1),
		"a name space":                         methodCall("wp.getUsersBlogs", "<param><value><n:string>alice</n:string></value></param>"+strs("pass")),
		"an attribute":                         methodCall("wp.getUsersBlogs", `<param><value><string x="y">alice</string></value></param>`+strs("pass")),
		"base64":                               methodCall("wp.getUsersBlogs", "<param><value><base64>YWxpY2U=</base64></value></param>"+strs("pass")),
		"a number":                             methodCall("wp.getUsersBlogs", strs("alice")+"<param><value><int>5</int></value></param>"),
		"both in one array":                    methodCall("wp.getUsersBlogs", "<param><value><array><data><value>alice</value><value>pass</value></data></array></value></param>"),
		"another place in a WordPress network": methodCall("blogger.getUsersBlogs", strs("alice", "pass", "x")),
		"two methods":                          strings.Replace(usual, "<params>", "<methodName>system.listMethods</methodName><params>", 1),
		"the method comes last":                "<methodCall><params>" + strs("alice", "pass") + "</params><methodName>wp.getUsersBlogs</methodName></methodCall>",
		"elements that nobody knows":           strings.NewReplacer("<params>", "<x><params>", "</params>", "</params></x>").Replace(usual),
		"another document behind":              usual + usual[strings.Index(usual, "<methodCall>"):],
		"text behind":                          usual + "x",
		"an end that is missing":               strings.TrimSuffix(usual, "</methodCall>"),
		"too deep":                             methodCall("system.listMethods", "<param>"+deep+"</param>"),
		"a method nobody knows":                methodCall("shop.login", strs("alice", "pass")),
		"a multicall in a multicall":           strings.ReplaceAll(many(Credential{"alice", "pass"}), "wp.getUsersBlogs", "system.multicall"),
		"a multicall of no array":              methodCall("system.multicall", strs("alice")),
		"two methods in one of many":           strings.Replace(many(Credential{"alice", "pass"}), "<name>params", "<name>methodName", 1),
		"a method's name in a value":           methodCall("system.listMethods", strs("alice", "pass")+"<param><value><methodName>wp.getUsersBlogs</methodName></value></param>"),
		"the same, deeper":                     methodCall("system.listMethods", "<param><value><array><data><value><struct><member><name>a</name><value><methodName>wp.getUsersBlogs</methodName></value></member></struct></value></data></array></value></param>"),
		"in a name":                            methodCall("system.listMethods", "<param><value><struct><member><name><methodName>wp.getUsersBlogs</methodName></name><value>1</value></member></struct></value></param>"),
		"another method's name in one of many": strings.Replace(many(Credential{"alice", "pass"}), "<value>pass</value>", "<value><methodName>wp.getUsersBlogs</methodName></value>", 1),
		"an empty value moves the rest":        methodCall("wp.getPosts", "<param><value></value></param>"+strs("decoy", "alice", "pass")),
		"a blank value":                        methodCall("wp.getPosts", "<param><value> </value></param>"+strs("decoy", "alice", "pass")),
		"nil":                                  methodCall("wp.getPosts", "<param><value><nil/></value></param>"+strs("decoy", "alice", "pass")),
		"an unknown type":                      methodCall("wp.getPosts", "<param><value><x><string>1</string><string>alice</string><string>pass</string></x></value></param>"+strs("decoy", "x")),
		"two types in a value":                 methodCall("wp.getPosts", "<param><value><string>1</string><string>alice</string></value></param>"+strs("decoy", "x")),
		"too few parameters":                   methodCall("wp.getPosts", strs("alice", "pass")),
	} {
		if o, err := findXML(t, body); err == nil {
			t.Errorf("%s: passes, with %q", name, o.Credentials)
		}
	}
	for _, kind := range []string{"", "application/x-www-form-urlencoded", "application/json", "text/xml; charset=utf-16", "multipart/form-data; boundary=x"} {
		r := httptest.NewRequest(http.MethodPost, "/xmlrpc.php/x", nil)
		r.Header.Set("Content-Type", kind)
		if _, o, err := xmlrpcRoute(t).Find(r, []byte(usual)); err == nil || !xmlrpcRoute(t).MayRead() {
			t.Errorf("as %q: passes, with %q", kind, o.Credentials)
		}
	}
}

func TestXMLRPCsPasswordsAreReplaced(t *testing.T) {
	t.Parallel()
	for _, body := range []string{methodCall("wp.getUsersBlogs", strs("alice", "p&amp;a&lt;ss")), many(Credential{"alice", "one"}, Credential{"bob", ""}, Credential{"carol", "t&gt;wo"})} {
		o, err := findXML(t, body)
		if err != nil {
			t.Fatal(err)
		}
		spoiled, err := findXML(t, string(o.Spoil(httptest.NewRequest("POST", "/", nil), []byte(body), Credential{Password: "an<other>"})))
		if err != nil || len(spoiled.Credentials) != len(o.Credentials) {
			t.Fatalf("%q, %v", spoiled.Credentials, err)
		}
		for i, c := range spoiled.Credentials {
			if want := (Credential{o.Credentials[i].Account, "an<other>"}); c != want {
				t.Errorf("got %q, want %q", c, want)
			}
		}
	}
}

func FuzzXMLRPC(f *testing.F) {
	f.Add(methodCall("wp.getUsersBlogs", strs("alice", "pass")))
	f.Add(many(Credential{"alice", "pass"}, Credential{"bob", "other"}))
	f.Fuzz(func(t *testing.T, body string) {
		o, err := findXML(t, body)
		if err == nil && len(o.Credentials) > 0 {
			if again, err := findXML(t, string(o.Spoil(httptest.NewRequest("POST", "/", nil), []byte(body), Credential{Password: "x"}))); err == nil && len(again.Credentials) != len(o.Credentials) {
				t.Errorf("%d credentials, then %d", len(o.Credentials), len(again.Credentials))
			}
		}
	})
}

// Attempts of one request would wait for each other's outcome: nobody sends two
// passwords for an account, or many accounts, but to guess.
func TestOneRequestOffersFewPasswords(t *testing.T) {
	t.Parallel()
	table := Table{mustCompile(t, Spec{Name: "login", Path: "/xmlrpc.php", Account: "xmlrpc", Success: []string{"status 200"}})}
	find := func(all ...Credential) (int, error) {
		r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/xmlrpc.php"}, Header: http.Header{"Content-Type": {"text/xml"}}}
		_, offer, err := table.Find(r, []byte(many(all...)))
		return len(offer.Credentials), err
	}
	same, others := make([]Credential, 200), make([]Credential, 6)
	for i := range same {
		same[i] = Credential{"alice", "one"}
	}
	for i := range others {
		others[i] = Credential{fmt.Sprint("account", i), "one"}
	}
	if n, err := find(same...); n != 1 || err != nil {
		t.Errorf("200 calls with one password: %d, %v", n, err)
	}
	if n, err := find(others[:5]...); n != 5 || err != nil {
		t.Errorf("five accounts: %d, %v", n, err)
	}
	if _, err := find(others...); err == nil {
		t.Error("six accounts in one request")
	}
	for _, second := range []Credential{{"Alice", "two"}, {"alice", "two"}, {"alice", " one"}, {"ALICE", "one"}} {
		if _, err := find(Credential{"alice", "one"}, second); err == nil {
			t.Errorf("%q for alice in one request: one guess would be charged", second)
		}
	}
}

// Only XML's white space is that to WordPress: a value with U+00A0 behind its string is
// two parameters there.
func TestXMLRPCsWhiteSpaceIsASCII(t *testing.T) {
	t.Parallel()
	shifted := func(value string) string {
		return methodCall("wp.getPage", "<param><value>"+value+"</value></param>"+strs("alice", "guess", "other"))
	}
	for _, space := range []string{"&#160;", "\u00a0", "\u2003", "&#133;", "\u3000", "&#x2028;", "\u200b", "\ufeff"} {
		for _, body := range []string{
			shifted("<string>1</string>" + space), shifted(space + "<string>1</string>"), shifted("<int>1</int>" + space),
			shifted("<array>" + space + "<data></data></array>"), shifted("<struct>" + space + "</struct>"),
			methodCall(space+"wp.getPage", strs("1", "1", "alice", "guess")),
			strings.Replace(many(Credential{"alice", "guess"}), "<name>params", "<name>params"+space, 1),
			strings.Replace(many(Credential{"alice", "guess"}), "</array></value></member>", "</array>"+space+"</value></member>", 1),
			methodCall("wp.getUsersBlogs", strs("alice", "guess")) + space,
		} {
			if o, err := findXML(t, body); err == nil && len(o.Credentials) > 0 {
				t.Errorf("%q: passes, with %q", body, o.Credentials)
			}
		}
	}
	for _, space := range []string{" ", "\t", "\r\n", "&#32;"} {
		if o, err := findXML(t, shifted("<string>1</string>"+space)); err != nil || !slices.Equal(o.Credentials,
			[]Credential{{"guess", "other"}}) {
			t.Errorf("%q: %q, %v", space, o.Credentials, err)
		}
	}
	if o, err := findXML(t, methodCall("wp.getUsersBlogs", strs(" alice", "\u00a0guess\n "))); err != nil ||
		o.Credentials[0] != (Credential{" alice", "\u00a0guess\n "}) {
		t.Errorf("around a name: %q, %v", o.Credentials, err)
	}
}
