package route

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// An app may look for the account in another field than the route's, and prefer that one.
func TestAnotherAccountInALoginIsRefused(t *testing.T) {
	t.Parallel()
	at := func(path, account, password string, passes ...string) Table {
		return Table{mustCompile(t, Spec{Name: "login", Path: path, Account: account, Password: password,
			Success: []string{"status 200"}, Passes: passes})}
	}
	form, object := at("/login", "form:username", "form:password"), at("/login", "json:/username", "json:/password")
	nested := at("/login", "form:user[email]", "form:user[password]")
	deep := at("/login", "json:/user/email", "json:/user/password")
	for _, one := range []struct {
		table       Table
		query, body string
		want        bool
	}{
		{object, "", `{"username":"decoy","email":"victim","password":"x"}`, false},       // LoopBack
		{object, "", `{"username":"decoy","user":"victim","password":"x"}`, false},        // Rocket.Chat
		{object, "", `{"username":"decoy","login":"victim","password":"x"}`, false},       //
		{object, "", `{"username":"decoy","E-Mail":"victim","password":"x"}`, false},      //
		{object, "", `{"username":"decoy","user_Id":7,"password":"x"}`, false},            //
		{object, "", `{"username":"decoy","user":{"id":"victim"},"password":"x"}`, false}, //
		{object, "", `{"username":"decoy","phone":["victim"],"password":"x"}`, false},
		{object, "email=victim", `{"username":"decoy","password":"x"}`, false},
		{object, "", `{"username":"decoy","email":"decoy","user":"","phone":null,"mobile":true,"password":"x"}`, true},
		{object, "", `{"username":"decoy","password":"x","device":{"user":"x","email":"y"}}`, true},
		{deep, "", `{"user":{"username":"victim","email":"decoy","password":"x"}}`, false},
		{deep, "", `{"email_address":"victim","user":{"email":"decoy","password":"x"}}`, false},
		{deep, "", `{"user":{"email":"decoy","password":"x","remember":"yes"},"next":"/"}`, true},
		{at("/login", "json:/username", "json:/password", "json:/email"), "",
			`{"username":"decoy","email":"victim","password":"x"}`, true},
		{at("/login", "json:/username", "json:/password", "json:/email"), "",
			`{"username":"decoy","user":"victim","password":"x"}`, false},
		{form, "", "username=decoy&email=victim&password=x", false},
		{form, "", "username=decoy&e_mail=victim&password=x", false},
		{form, "", "username=decoy&userName:utf8=victim&password=x", false},
		{form, "", "username=decoy&Account[]=victim&password=x", false},
		{form, "", "username=decoy&model.email=victim&password=x", false},
		{form, "", "username=decoy&email=decoy&email=victim&password=x", false},
		{form, "user=victim", "username=decoy&password=x", false},
		{form, "a=b;user=victim", "username=decoy&password=x", false},
		{form, "", "username=decoy&email=decoy&user=&password=x&login=Log+in&submit=1&name=login&remember=1", true},
		{form, "next=/account&users=1", "username=decoy&password=x&username2=y", true},
		{at("/login", "form:username", "form:password", "form:email"), "", "username=decoy&email=victim&password=x", true},
		{at("/login", "form:username", "form:password", "form:email"), "email=victim", "username=decoy&password=x", false},
		{at("/login", "form:username", "form:password", "param:email"), "email=victim", "username=decoy&password=x", true},
		{nested, "", "user[email]=decoy&user[password]=x&user[remember_me]=1", true},
		{nested, "", "user[email]=decoy&user[password]=x&user[username]=victim", false},
		{nested, "", "user[email]=decoy&user[password]=x&user=victim", false},
		{at("/login", "form:login[username]", "form:login[password]"), "",
			"login[username]=a&login[password]=x&login[next]=/", true},
		{at("/*", "form:username", "form:password"), "", "username=decoy&email=victim&password=x", true}, // a registration
		{at("/*", "json:/username", "json:/password"), "", `{"username":"decoy","email":"victim","password":"x"}`, true},
	} {
		kind := ofPairs
		if strings.HasPrefix(one.body, "{") {
			kind = "application/json"
		}
		r := posted(kind, one.body)
		r.URL.RawQuery = one.query
		if found, o, err := one.table.Find(r, []byte(one.body)); found == nil || (err == nil) != one.want {
			t.Errorf("%s?%s: %v, %q, %v", one.body, one.query, found, o.Credentials, err)
		}
	}
}

// The account a second time, without a second password.
func TestTheAccountAgainDeeperInJSONIsRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/login", "/*"} {
		table := Table{mustCompile(t, Spec{Name: "login", Path: path, Account: "json:/username",
			Password: "json:/password", Success: []string{"status 200"}, Passes: []string{"json:/domain/username"}})}
		for body, want := range map[string]bool{
			`{"username":"decoy","password":"x","user":{"username":"victim"}}`:           false,
			`{"username":"decoy","password":"x","a":[{"b":{"UserName":"victim"}}]}`:      false,
			`{"username":"decoy","password":"x","a":"{\"username\":\"victim\"}"}`:        false,
			`{"a":{"user_name":"victim"},"username":"decoy","password":"x"}`:             false,
			`{"username":"decoy","password":"x","a":{"username":"decoy"}}`:               true,
			`{"username":"decoy","password":"x","domain":{"username":"other"},"a":[[]]}`: true,
		} {
			found, o, err := table.Find(posted("application/json", body), []byte(body))
			if found == nil || (err == nil) != want {
				t.Errorf("%s, %s: %v, %q, %v", path, body, found, o.Credentials, err)
			}
		}
	}
}

// express-validator's check() and Spring 6.2 read headers as fields.
func TestFieldsInHeadersAreRefused(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		account, header, value string
		want                   bool
	}{
		{"phone", "Phone", "victim", false}, {"login_name", "Login-Name", "victim", false},
		{"user[name]", "Name", "victim", false}, {"name", "Password", "guess", false}, {"token", "Token", "victim", false},
		{"phone", "Phone", "decoy", true}, {"token", "X-Token", "victim", true}, {"phone", "User-Agent", "victim", true},
		{"from", "From", "victim", true}, {"host", "Accept-Language", "victim", true},
	} {
		for _, path := range []string{"/login", "/*"} {
			table := Table{mustCompile(t, Spec{Name: "login", Path: path, Account: "form:" + one.account,
				Password: "form:password", Success: []string{"status 200"}})}
			body := one.account + "=decoy&password=x"
			r := posted(ofPairs, body)
			r.Header.Set(one.header, one.value)
			if found, o, err := table.Find(r, []byte(body)); found == nil || (err == nil) != one.want {
				t.Errorf("%s, %v: %v, %q, %v", path, one, found, o.Credentials, err)
			}
		}
	}
	r := posted(ofPairs, "a=b")
	r.Header.Set("Phone", "victim")
	table := Table{loginAt(t, "/*", func(s *Spec) { s.Account = "form:phone" })}
	if found, _, err := table.Find(r, []byte("a=b")); found != nil || err != nil {
		t.Errorf("another form: %v, %v", found, err)
	}
}

// A route permits the fields of the app's own login.
func TestTheOtherAccountsOfALoginMayPass(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"username=alice&account=firm&email=&password=x":                                           "[form:account param:user]",
		"username=alice&password=x":                                                               "[param:user]",
		`{"username":"alice","password":"x","user":{"a/b":1},"a~b":{"c/d":[{"username":"bob"}]}}`: "[json:/a~0b/c~1d/0/username json:/user param:user]",
	} {
		s := Spec{Name: "login", Path: "/login", Account: "form:username", Password: "form:password",
			Success: []string{"status 200"}}
		kind := ofPairs
		if body[0] == '{' {
			s.Account, s.Password, kind = "json:/username", "json:/password", "application/json"
		}
		r := posted(kind, body)
		r.URL.RawQuery = "user=bob"
		s.Passes = mustCompile(t, s).OtherAccounts(r, []byte(body))
		slices.Sort(s.Passes)
		if s.Passes = slices.Compact(s.Passes); fmt.Sprint(s.Passes) != want {
			t.Errorf("%s: %s, want %s", body, s.Passes, want)
		}
		if found, _, err := (Table{mustCompile(t, s)}).Find(r, []byte(body)); found == nil || err != nil {
			t.Errorf("%s with %s: %v", body, s.Passes, err)
		}
	}
}

// A link may fill in the account: its form is sent to the same address.
func TestALinkMayFillInTheAccount(t *testing.T) {
	t.Parallel()
	table := Table{loginAt(t, "/login", func(s *Spec) { s.Account, s.Password = "form:username", "form:password" })}
	for query, want := range map[string]bool{"username=alice": true, "username=alice&next=/": true, "username=bob": false, "username=Alice": false,
		"username=alice&username=alice": false, "username[]=alice": false, "username=alice;username=bob": false, "username=%61lice": true} {
		body := "username=alice&password=x"
		r := posted(ofPairs, body)
		r.URL.RawQuery = query
		found, o, err := table.Find(r, []byte(body))
		if found == nil || (err == nil) != want {
			t.Errorf("%s: %v %v", query, o.Credentials, err)
		}
		if want { // an app may read the query first
			sent := o.Spoil(r, []byte(body), Credential{Account: "made-up"})
			if all := r.URL.RawQuery + string(sent); strings.Contains(all, "lice") || strings.Count(all, "username=made-up") != 2 {
				t.Errorf("%s: the made-up account is sent as %s", query, all)
			}
		}
	}
}

// Devise with two scopes checks both: the second password would be another account's, of any name.
func TestASecondPasswordOfTheSameNameIsRefused(t *testing.T) {
	t.Parallel()
	route := func(path, account, password string, passes ...string) Table {
		return Table{mustCompile(t, Spec{Name: "users", Path: path, Account: account, Password: password, Passes: passes, Success: []string{"status 200"}})}
	}
	devise := route("/sign_in", "form:user[email]", "form:user[password]")
	for _, one := range []struct {
		table       Table
		query, body string
		want        bool
	}{
		{devise, "", "user[email]=a&user[password]=x&user[remember_me]=1", true},
		{devise, "", "user[email]=a&user[password]=x&user[password_confirmation]=x&admin[password]=", true},
		{devise, "", "user[email]=a&user[password]=x&admin[email]=a&admin[password]=guess", false},
		{devise, "", "user[email]=guess&user[password]=x&admin[login]=root&admin[password]=guess", false},
		{devise, "admin[login]=root&admin[password]=guess", "user[email]=a&user[password]=x", false},
		{devise, "", "user[email]=a&user[password]=x&password=guess", false},
		{devise, "", "user[email]=a&user[password]=x&admin%5BPassword%5D[]=guess", false},
		{route("/*", "form:user[email]", "form:user[password]"), "", "user[email]=a&user[password]=x&admin[password]=guess", false},
		{route("/sign_in", "form:user[email]", "form:user[password]", "form:admin[password]"), "", "user[email]=a&user[password]=x&admin[password]=guess", true},
		{route("/sign_in", "json:/user/email", "json:/user/password"), "", `{"user":{"email":"a","password":"x"},"admin":{"email":"a","password":"guess"}}`, false},
		{route("/sign_in", "json:/user/email", "json:/user/password"), "", `{"user":{"email":"guess","password":"x"},"admin":{"login":"root","password":"guess"}}`, false},
		{route("/sign_in", "json:/user/email", "json:/user/password"), "", `{"user":{"email":"a","password":"x"},"admin":{"password":""}}`, true},
		{route("/sign_in", "json:/user/email", "json:/user/password"), "", `{"user":{"email":"a","password":"x"},"admin":{"password":471100}}`, false},
		{route("/sign_in", "json:/user/email", "json:/user/password"), "", `{"user":{"email":"a","password":"x"},"admin":{"password":["guess"]}}`, false},
		{route("/start", "form:session[email]", "form:session[password]", "form:user[password]"), "", "user[email]=a&user[password]=x", true},
		// Another form at the path, which a field in passes lets through, is none with a password.
		{route("/sign_in", "form:user[email]", "form:user[password]", "form:_method"), "", "_method=post&admin[email]=a&admin[password]=guess", false},
	} {
		kind := ofPairs
		if strings.HasPrefix(one.body, "{") {
			kind = "application/json"
		}
		r := posted(kind, one.body)
		r.URL.Path, r.URL.RawQuery = "/sign_in", one.query // Find has the routes at the path
		if found, o, err := one.table.Find(r, []byte(one.body)); (err == nil) != one.want {
			t.Errorf("%s?%s: %v, %q, %v", one.body, one.query, found, o.Credentials, err)
		}
	}
}

// One form takes a password or a PIN: of two routes with one account, the one whose password is there counts. A request
// with both is refused.
func TestOneAccountMayHaveTwoPasswordFields(t *testing.T) {
	t.Parallel()
	var table Table
	for _, field := range []string{"password", "pin"} {
		table = append(table, mustCompile(t, Spec{Name: field, Path: "/login", Account: "form:username", Password: "form:" + field, Success: []string{"status 302"}}))
	}
	for body, want := range map[string]string{"username=alice&password=x": "password", "username=alice&pin=1": "pin", "username=alice&password=x&pin=1": "",
		"username=alice": "password", "username=alice&password=&pin=1": ""} {
		found, o, err := table.Find(posted(ofPairs, body), []byte(body))
		if want == "" && err == nil || want != "" && (err != nil || found == nil || found.Name != want || o.Credentials[0].Account != "alice") {
			t.Errorf("%s: %v %v %v", body, found, o.Credentials, err)
		}
	}
}
