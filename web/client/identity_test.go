package client_test

import (
	"net/http"
	"strings"
	"testing"

	"authguard/web/client"
)

var chosen = []string{"User-Agent", "accept", "Sec-CH-UA"}

// sent is the order that a test's request came in.
func sent(r *http.Request) []string { return strings.Split(r.Header.Get("X-Order"), " ") }

func request(order string, headers ...string) *http.Request {
	r := &http.Request{Header: http.Header{"X-Order": {order}}}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestTheIdentityIsThatOfTheChosenHeadersAndTheirOrder(t *testing.T) {
	t.Parallel()
	var off, any, ordered client.Identity
	any.Set(chosen, nil)
	ordered.Set(chosen, sent)
	first := request("user-agent accept", "User-Agent", "a", "Accept", "b")
	if off.Of(first) != "" || off.On() || (*client.Identity)(nil).Of(first) != "" || off.OfLines([]string{"User-Agent: a"}) != "" {
		t.Error("nothing is chosen, and somebody is recognised")
	}
	for _, c := range []struct {
		name       string
		other      *http.Request
		same, told bool // in any order, and in this
	}{
		{"what one client changes", request("cookie User-Agent referer Accept", "User-Agent", "a", "Accept", "b", "Cookie", "c", "Referer", "/"), true, true},
		{"another order", request("accept user-agent", "User-Agent", "a", "Accept", "b"), true, false},
		{"another value", request("user-agent accept", "User-Agent", "a", "Accept", "c"), false, false},
		{"one less", request("user-agent", "User-Agent", "a"), false, false},
		{"an empty one", request("user-agent accept sec-ch-ua", "User-Agent", "a", "Accept", "b", "Sec-Ch-Ua", ""), false, false},
		{"another border", request("user-agent accept", "User-Agent", "ab", "Accept", ""), false, false},
		{"twice", request("user-agent accept accept", "User-Agent", "a", "Accept", "b", "Accept", "b"), false, false},
	} {
		if got := any.Of(first) == any.Of(c.other); got != c.same {
			t.Errorf("%s: the same in any order: %v", c.name, got)
		}
		if got := ordered.Of(first) == ordered.Of(c.other); got != c.told {
			t.Errorf("%s: the same in this order: %v", c.name, got)
		}
	}
	if ordered.Of(first) != ordered.OfLines([]string{"Host: x", "USER-AGENT:a", "accept: b ", "no header"}) || any.Of(first) != any.OfLines([]string{"Accept: b", "User-Agent: a"}) {
		t.Error("a back end's lines are another client")
	}
	if any.Of(request("")) == "" {
		t.Error("whoever sends none of them is recognised by that")
	}
}

func TestTheBrandThatBrowsersMakeUpDoesNotCount(t *testing.T) {
	t.Parallel()
	var i client.Identity
	i.Set(chosen, nil)
	of := func(brands string) string { return i.Of(request("", "Sec-Ch-Ua", brands)) }
	one := of(`"Chromium";v="130", "Google Chrome";v="130", "Not?A_Brand";v="99"`)
	for _, same := range []string{
		`"Not(A:Brand";v="8", "Chromium";v="130", "Google Chrome";v="130"`, `"Google Chrome";v="130",  " Not;A Brand";v="24","Chromium";v="130"`,
	} {
		if of(same) != one {
			t.Errorf("%s is another client", same)
		}
	}
	if of(`"Chromium";v="131", "Google Chrome";v="131", "Not?A_Brand";v="99"`) == one {
		t.Error("another version is the same client")
	}
}

func FuzzIdentityOfLines(f *testing.F) {
	f.Add("User-Agent: a\nAccept: b", "Accept: b\nUser-Agent: a")
	f.Add(":\n\x00: \xff", "Sec-CH-UA: \"Not A;Brand\";v=\"1\"")
	f.Fuzz(func(t *testing.T, one, other string) {
		var any, ordered client.Identity
		any.Set(chosen, nil)
		ordered.Set(chosen, sent)
		a, b := strings.Split(one, "\n"), strings.Split(other, "\n")
		if ordered.OfLines(a) == ordered.OfLines(b) && any.OfLines(a) != any.OfLines(b) {
			t.Error("the order made two clients one")
		}
		if any.OfLines(a) != any.OfLines(append(a, "Cookie: x")) {
			t.Error("what was not chosen counts")
		}
	})
}
