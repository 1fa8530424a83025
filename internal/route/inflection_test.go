package route

import "testing"

// humps, camelcase-keys and djangorestframework-camel-case change the names of fields.
func TestAnInflectedNameIsTheField(t *testing.T) {
	t.Parallel()
	for field, names := range map[string][]string{
		"login_name": {"loginName", "login-name", "LoginName", "login name", "_loginName"},
		"loginName":  {"login_name", "loginname", "x[login_name]"}, "username": {"user_name", "user-name", "userName"},
	} {
		form := Table{mustCompile(t, Spec{Name: "login", Path: "/login", Account: "form:" + field,
			Password: "form:password", Success: []string{"status 200"}})}
		object := Table{mustCompile(t, Spec{Name: "login", Path: "/login", Account: "json:/" + field,
			Password: "json:/password", Success: []string{"status 200"}})}
		for _, name := range names {
			pairs := field + "=decoy&password=x&" + name + "=victim"
			if found, o, err := form.Find(posted(ofPairs, pairs), []byte(pairs)); found == nil || err == nil {
				t.Errorf("%s: %v, %q", pairs, found, o.Credentials)
			}
			json := `{"` + field + `":"decoy","password":"x","` + name + `":"victim"}`
			if found, o, err := object.Find(posted("application/json", json), []byte(json)); found == nil || err == nil {
				t.Errorf("%s: %v, %q", json, found, o.Credentials)
			}
		}
	}
}
