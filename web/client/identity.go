package client

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// An Identity is what clients are recognised by, whatever their address: some
// headers. It is for guard.Guard.Identity, which keys it and
// keeps 32 bits. The zero Identity recognises nobody. Safe for concurrent use.
type Identity struct {
	by atomic.Pointer[identityBy]
}

type identityBy []string // as http.Header has them

// Set sets the headers. Without any, all clients are alike and not counted.
func (i *Identity) Set(headers []string) {
	var by identityBy
	for _, name := range headers {
		by = append(by, http.CanonicalHeaderKey(name))
	}
	i.by.Store(&by)
}

// Of is what a client looks like; empty if nobody is recognised. Two texts are the same
// if, and only if, the headers are. Whoever leaves them all out looks like all who do.
func (i *Identity) Of(r *http.Request) string {
	by := i.load()
	if by == nil {
		return ""
	}
	return by.text(r.Header)
}

// OfLines is Of for a request that somebody else has got: its headers, "Name: value".
// Lines that are no header are not looked at.
func (i *Identity) OfLines(lines []string) string {
	by := i.load()
	if by == nil || len(lines) == 0 {
		return ""
	}
	h := http.Header{}
	for _, line := range lines {
		if name, value, ok := strings.Cut(line, ":"); ok {
			h.Add(name, strings.Trim(value, " \t"))
		}
	}
	return by.text(h)
}

// On reports whether clients are recognised.
func (i *Identity) On() bool { return i.load() != nil }

func (i *Identity) load() identityBy {
	if i == nil {
		return nil
	}
	if by := i.by.Load(); by != nil {
		return *by
	}
	return nil
}

// text has the length of everything in front of it, so that no value passes for two.
func (by identityBy) text(h http.Header) string {
	b := make([]byte, 0, 512)
	add := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	for _, name := range by {
		values := h[name]
		b = binary.AppendUvarint(b, uint64(len(values)))
		for _, value := range values {
			if strings.HasPrefix(name, "Sec-Ch-Ua") {
				value = brands(value)
			}
			add(value)
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
