package config

import "strings"

// A Setting is one value as it is shown to people and programs.
type Setting struct {
	Path   string `json:"path"`
	Value  string `json:"value"`  // as a variable would say it; "(set)" for a secret
	Origin string `json:"origin"` // "default", "authguard.yaml:12" or "AUTHGUARD_LISTEN"
	// Live: a reload may change it.
	Live bool `json:"live"`
}

// Effective lists every setting in the order of docs/configuration.md.
func (l *Loaded) Effective() []Setting {
	var all []Setting
	for _, k := range keys(&l.Config) {
		all = append(all, Setting{k.path, k.shown(), l.Origin(k.path).String(), k.live})
	}
	return all
}

// shown is the value for people; an unset secret is shown as such.
func (k key) shown() string {
	text := k.value.node().flat()
	if k.secret && text != "" {
		return hidden
	}
	return text
}

// flat is a node on one line, or as many as its text has.
func (n node) flat() string {
	if n.kind != listKind {
		return n.text
	}
	parts := make([]string, len(n.items))
	for i, item := range n.items {
		parts[i] = item.flat()
	}
	return strings.Join(parts, ", ")
}
