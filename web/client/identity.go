package client

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// An Identity builds client fingerprints from some headers, independent of the IP address. guard.Guard.Identity keys
// the fingerprint and keeps 32 bits. The zero Identity builds none. It is safe for concurrent use.
type Identity struct {
	by atomic.Pointer[identityBy]
}

type identityBy []string // in canonical form

// Set sets the headers. Without any there is no fingerprint, and nothing is counted.
func (i *Identity) Set(headers []string) {
	var by identityBy
	for _, name := range headers {
		by = append(by, http.CanonicalHeaderKey(name))
	}
	i.by.Store(&by)
}

// Of returns the fingerprint of a request; empty if there are no headers to build it from. Two fingerprints are equal
// if and only if the headers are. All clients that omit all of these headers share one.
func (i *Identity) Of(r *http.Request) string {
	by := i.load()
	if by == nil {
		return ""
	}
	return by.text(r.Header)
}

// OfLines is Of for a request that a back end received: its headers as "Name: value". Other lines are ignored.
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

// On reports whether fingerprints are built.
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

// text prefixes every value with its length, so that one value cannot imitate two.
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

// brands sorts the brands of Sec-CH-UA, which browsers shuffle, and removes the fake one, "Not/A)Brand" (GREASE), which
// changes with the version.
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
