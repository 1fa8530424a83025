package client

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// An Identity is what clients are recognised by, whatever their address: some headers, and
// perhaps the order in which they came. It is for guard.Guard.Identity, which keys it and
// keeps 32 bits. The zero Identity recognises nobody. Safe for concurrent use.
type Identity struct {
	by atomic.Pointer[identityBy]
}

type identityBy struct {
	headers []string // as http.Header has them
	order   func(*http.Request) []string
}

// Set says which headers; none: nobody is recognised. order tells the names of those of
// them that came with a request, as they came, in any case; nil: in any order. net/http
// has forgotten that.
func (i *Identity) Set(headers []string, order func(*http.Request) []string) {
	by := &identityBy{order: order}
	for _, name := range headers {
		by.headers = append(by.headers, http.CanonicalHeaderKey(name))
	}
	i.by.Store(by)
}

// Of is what a client looks like; empty if nobody is recognised. Two texts are the same
// if, and only if, the headers are. Whoever leaves them all out looks like all who do.
func (i *Identity) Of(r *http.Request) string {
	by := i.load()
	if by == nil {
		return ""
	}
	var order []string
	if by.order != nil {
		order = by.order(r)
	}
	return by.text(r.Header, order)
}

// OfLines is Of for a request that somebody else has got: its headers, "Name: value", as
// they came. Lines that are no header are not looked at.
func (i *Identity) OfLines(lines []string) string {
	by := i.load()
	if by == nil || len(lines) == 0 {
		return ""
	}
	h, order := http.Header{}, []string(nil)
	for _, line := range lines {
		if name, value, ok := strings.Cut(line, ":"); ok {
			h.Add(name, strings.Trim(value, " \t"))
			if by.order != nil {
				order = append(order, name)
			}
		}
	}
	return by.text(h, order)
}

// On reports whether clients are recognised.
func (i *Identity) On() bool { return i.load() != nil }

func (i *Identity) load() *identityBy {
	if i == nil {
		return nil
	}
	if by := i.by.Load(); by != nil && len(by.headers) > 0 {
		return by
	}
	return nil
}

// text has the length of everything in front of it, so that no value passes for two.
func (by *identityBy) text(h http.Header, order []string) string {
	b := make([]byte, 0, 512)
	add := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	for _, name := range by.headers {
		values := h[name]
		b = binary.AppendUvarint(b, uint64(len(values)))
		for _, value := range values {
			if strings.HasPrefix(name, "Sec-Ch-Ua") {
				value = brands(value)
			}
			add(value)
		}
	}
	seen := make([]bool, len(by.headers))
	for _, name := range order {
		if at := slices.Index(by.headers, http.CanonicalHeaderKey(name)); at >= 0 && !seen[at] {
			seen[at] = true
			b = append(b, byte(at))
		}
	}
	return string(b)
}

// brands are those of Sec-CH-UA without the one that is made up and changes from version
// to version, "Not/A)Brand" (GREASE), and in one order: browsers shuffle them.
func brands(list string) string {
	var all []string
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); !madeUp(one) {
			all = append(all, one)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func madeUp(brand string) bool {
	name, _, _ := strings.Cut(brand, `";v=`)
	letters := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, name)
	return strings.EqualFold(letters, "NotABrand")
}
