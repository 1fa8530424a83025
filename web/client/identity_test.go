package client_test

import (
	"net/http"
	"strings"
	"testing"

	"authguard/web/client"
)

var chosen = []string{"User-Agent", "accept", "Sec-CH-UA"}

func request(headers ...string) *http.Request {
	r := &http.Request{Header: http.Header{}}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestTheIdentityIsThatOfTheChosenHeaders(t *testing.T) {
	t.Parallel()
	var off, on client.Identity
	on.Set(chosen)
	first := request("User-Agent", "a", "Accept", "b")
	if off.Of(first) != "" || off.On() || (*client.Identity)(nil).Of(first) != "" || off.OfLines([]string{"User-Agent: a"}) != "" {
		t.Error("no header is chosen, and a client has a fingerprint")
	}
	for _, c := range []struct {
		name  string
		other *http.Request
		same  bool
	}{
		{"what one client changes", request("User-Agent", "a", "Accept", "b", "Cookie", "c", "Referer", "/"), true},
		{"another value", request("User-Agent", "a", "Accept", "c"), false},
		{"one less", request("User-Agent", "a"), false},
		{"an empty one", request("User-Agent", "a", "Accept", "b", "Sec-Ch-Ua", ""), false},
		{"another border", request("User-Agent", "ab", "Accept", ""), false},
		{"twice", request("User-Agent", "a", "Accept", "b", "Accept", "b"), false},
	} {
		if got := on.Of(first) == on.Of(c.other); got != c.same {
			t.Errorf("%s: the same: %v", c.name, got)
		}
	}
	for _, lines := range [][]string{{"Host: x", "USER-AGENT:a", "accept: b ", "no header"}, {"Accept: b", "User-Agent: a"}} {
		if on.Of(first) != on.OfLines(lines) {
			t.Errorf("a back end's %q are another client", lines)
		}
	}
	if on.Of(request()) == "" {
		t.Error("a client without these headers has no fingerprint")
	}
}

func TestTheBrandThatBrowsersMakeUpDoesNotCount(t *testing.T) {
	t.Parallel()
	var i client.Identity
	i.Set(chosen)
	of := func(brands string) string { return i.Of(request("Sec-Ch-Ua", brands)) }
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
	f.Add("User-Agent: a\nAccept: b")
	f.Add(":\n\x00: \xff\nSec-CH-UA: \"Not A;Brand\";v=\"1\"")
	f.Fuzz(func(t *testing.T, text string) {
		var i client.Identity
		i.Set(chosen)
		lines := strings.Split(text, "\n")
		if i.OfLines(lines) != i.OfLines(append(lines, "Cookie: x")) {
			t.Error("what was not chosen counts")
		}
	})
}
