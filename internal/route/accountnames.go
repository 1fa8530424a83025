package route

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// accountNames are the fields in which apps look for an account, without case and separators.
var accountNames = []string{"username", "user", "email", "mail", "phone", "mobile", "account", "identifier", "userid",
	"loginid", "loginname", "emailaddress", "phonenumber", "accountname", "usernameoremail", "emailorusername"}

// OtherAccounts returns the fields of a login in which an app may find another account than the route's, as Spec.Passes
// has them.
func (r *Route) OtherAccounts(req *http.Request, body []byte) []string {
	all := readLeniently(req, body)
	return Table{r}.otherAccounts(req, &all, r)
}

// otherAccounts returns the fields in which an app may find another account than the found route's, or a second
// password. LoopBack 3 takes email before username, Rocket.Chat user before username. Devise with two scopes checks
// admin[password], too, beside user[password]. A field with the attempt's own account or without a text is harmless.
func (t Table) otherAccounts(req *http.Request, all *reading, found *Route) (others []string) {
	if found == nil || !found.inFields() {
		return nil
	}
	query := queryFields(req.URL.RawQuery)
	account := valueOf(slices.Concat(all.form, query), found.account.name)
	if found.account.kind == object {
		var top map[string]any
		_ = json.Unmarshal([]byte(all.text), &top) // parsed before
		value, _ := follow(top, found.account.pointer)
		account, _ = value.(string)
		others = t.otherMembers(top, nil, found, account)
	}
	query = append(query, queryFields(strings.ReplaceAll(req.URL.RawQuery, ";", "&"))...)
	for i, fields := range [][]field{all.form, query} {
		for _, f := range fields {
			own := found.account.kind != object && (f.name == found.account.name || f.name == found.password.name)
			// In a folder, other forms have names.
			named := !found.path.folder && f.value != account && found.namesAnother(f.name)
			if !own && f.value != "" && !t.permits(f.name, i == 1) && (named || found.namesAnotherPassword(f.name)) {
				others = append(others, [...]string{"form:", "param:"}[i]+f.name)
			}
		}
	}
	return others
}

// headerFields returns the headers that apps may read as fields. Browsers and gateways send the others.
func headerFields(req *http.Request) (all []field) {
	for name, values := range req.Header {
		if !standardHeader.MatchString(name) {
			all = append(all, field{name: name, value: strings.Join(values, ",")})
		}
	}
	return all
}

var standardHeader = regexp.MustCompile(`(?i)^(accept|sec|if|content|access-control|x-forwarded|authguard)(-.*)?$|` +
	`^(authorization|proxy-authorization|cookie|host|origin|referer|user-agent|connection|proxy-connection|keep-alive|` +
	`te|trailer|transfer-encoding|upgrade|upgrade-insecure-requests|cache-control|pragma|expect|date|range|via|warning|` +
	`forwarded|from|max-forwards|prefer|priority|dnt|save-data|traceparent|tracestate)$`)

func valueOf(fields []field, name string) string {
	for _, f := range fields {
		if f.name == name {
			return f.value
		}
	}
	return ""
}

// permits reports whether Spec.Passes lists a field of the form or of the query.
func (t Table) permits(name string, inQuery bool) bool {
	return slices.ContainsFunc(t, func(r *Route) bool {
		return slices.ContainsFunc(r.passes, func(l locator) bool {
			return l.name == name && (l.kind == param || l.kind == form && !inQuery)
		})
	})
}

// namesAnother reports whether a field of a form has the name of an account, apart from containers of the route's own
// fields.
func (r *Route) namesAnother(name string) bool {
	name, _, _ = strings.Cut(name, ":")
	parts := nested(name)
	for i, part := range parts {
		outer := i+1 < len(parts) && (beginsLike(nested(r.account.name), parts[:i+1]) ||
			beginsLike(nested(r.password.name), parts[:i+1]))
		if !outer && isAccountName(part) {
			return true
		}
	}
	return isAccountName(strings.Join(parts, "_")) || isAccountName(strings.Join(nested(innermost(name)), "_"))
}

// namesAnotherPassword reports whether another field has the name of the route's password, apart from containers.
func (r *Route) namesAnotherPassword(name string) bool {
	parts := nested(name)
	return len(parts) > 0 && r.password.name != "" && name != r.password.name &&
		sameWords(parts[len(parts)-1], r.password.last())
}

func isAccountName(name string) bool { return slices.Contains(accountNames, inflected.Replace(name)) }

func beginsLike(all, part []string) bool {
	return len(all) > len(part) && slices.EqualFunc(all[:len(part)], part, sameWords)
}

// otherMembers looks for account names beside the members on the way to the route's own fields, and for the route's
// own account name everywhere.
func (t Table) otherMembers(at any, path []string, found *Route, account string) (others []string) {
	list, _ := at.([]any)
	for i, one := range list {
		others = append(others, t.otherMembers(one, append(slices.Clone(path), strconv.Itoa(i)), found, account)...)
	}
	object, _ := at.(map[string]any)
	near := !found.path.folder && (isPrefix(path, found.account.pointer) || isPrefix(path, found.password.pointer))
	for key, value := range object {
		here := append(slices.Clone(path), key)
		if t.permitsMember(here) {
			continue
		}
		text, isText := value.(string)
		plain := strings.Join(nested(key), "_")
		second := value != nil && value != "" && sameWords(plain, found.password.last()) // bcrypt-ruby takes a number
		own := isPrefix(here, found.account.pointer) || isPrefix(here, found.password.pointer)
		if !own && (second || !isHarmless(value, account)) {
			names := []string{key}
			if isText {
				names = append(names, jsonNames(text)...)
			}
			if second || found.account.in(names) || near && (inflected.Replace(plain) == "login" || found.namesAnother(key)) {
				others = append(others, "json:"+pointerOf(here))
				continue
			}
		}
		others = append(others, t.otherMembers(value, here, found, account)...)
	}
	return others
}

func pointerOf(path []string) (pointer string) {
	for _, name := range path {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	return pointer
}

func (t Table) permitsMember(path []string) bool {
	return slices.ContainsFunc(t, func(r *Route) bool {
		return slices.ContainsFunc(r.passes, func(l locator) bool {
			return l.kind == object && slices.Equal(l.pointer, path)
		})
	})
}

func isPrefix(path, pointer []string) bool {
	return len(path) <= len(pointer) && slices.Equal(path, pointer[:len(path)])
}

// isHarmless reports whether a value can be no account but the attempt's own.
func isHarmless(value any, account string) bool {
	switch value {
	case nil, "", true, false, account:
		return true
	}
	return false
}
