package config

import (
	"bytes"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"authguard/guard"
)

// MaxFile is the largest accepted settings file, in bytes. The YAML library took 12 s for 1 MiB with 20,000 keys.
const MaxFile = 64 << 10

// line is the origin of line n; 0 means the whole file.
func (l *loader) line(n int) Origin { return Origin{Source: l.file, Line: n} }

func (l *loader) at(n ast.Node) Origin { return l.line(n.GetToken().Position.Line) }

// readFile applies one YAML document, which may be empty. The library's strict decoder stops at the first problem. So
// the library only parses, and readFile reads the settings from nodes, which know their lines.
func (l *loader) readFile(data []byte) {
	// The parser has panicked on malformed input before; a typo must not look like a crash.
	defer func() {
		if p := recover(); p != nil {
			l.problem(l.line(0), "", "cannot be read as YAML: %v", p)
		}
	}()
	data = bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	if len(data) > MaxFile {
		l.problem(l.line(0), "", "is larger than %s, so it is not a configuration file", Size(MaxFile))
		return
	}
	if i := bytes.IndexFunc(data, isJunk); i >= 0 {
		l.problem(l.line(1+bytes.Count(data[:i], []byte("\n"))), "", "is not text: byte 0x%02x", data[i])
		return
	}
	// The section method reports duplicate keys: all of them, with both lines.
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		l.syntax(err)
		return
	}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil })
	switch {
	case len(docs) > 1:
		l.problem(l.at(docs[1].Body), "", "has a second document (after ---): put all settings into one")
	case len(docs) == 1:
		l.section(docs[0].Body, l.at(docs[0].Body), "", l.settings)
	}
}

func (l *loader) syntax(err error) {
	e, ok := errors.AsType[*yaml.SyntaxError](err)
	switch {
	case !ok:
		l.problem(l.line(0), "", "is not YAML")
	case strings.Contains(e.Message, "'\t'"):
		l.problem(l.line(e.Token.Position.Line), "", "is indented with a tab: use spaces")
	default:
		l.problem(l.line(e.Token.Position.Line), "", "is not YAML: %s", e.Message)
	}
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// section reads the keys of a section or of a list item. A section with only comments is valid.
func (l *loader) section(n ast.Node, from Origin, section string, known []setting) {
	m, ok := n.(ast.MapNode)
	if !ok {
		if n.Type() != ast.NullType {
			l.problem(from, section, "must have keys such as %s, not %s", below(known, section)[0], kindOf(n))
		}
		return
	}
	seen := map[string]int{}
	for pairs := m.MapRange(); pairs.Next(); {
		name, _, _ := scalar(pairs.Key())
		path, from := join(section, name), l.at(pairs.Key()) // not the value's line: users look for the key
		i := slices.IndexFunc(known, func(s setting) bool { return s.path == path })
		switch {
		case pairs.Key().IsMergeKey():
			l.problem(from, section, "merges (<<) are not supported: write the values")
		case strings.Contains(name, ".") && i >= 0:
			l.problem(from, section, "write %s as keys inside each other", name)
		case !namePattern.MatchString(name):
			// Not quoted: a list item without its dash may be a secret.
			l.problem(from, section, "has a key that is not a name")
		case seen[name] > 0:
			l.problem(from, path, "is already set on line %d", seen[name])
			continue
		case i >= 0 && known[i].at.Type() == realmsType:
			l.realms = postponed{pairs.Value(), from, known[i]}
		case i >= 0:
			l.value(pairs.Value(), from, known[i])
		case len(below(known, path)) > 0:
			l.section(pairs.Value(), from, path, known)
		default:
			l.problem(from, path, "unknown key%s", suggestKey(section, name, known))
		}
		seen[name] = from.Line
	}
}

// value sets a setting or a list item.
func (l *loader) value(n ast.Node, from Origin, s setting) {
	l.loaded.origins[s.path] = from
	text, quoted, single := scalar(n)
	_, isMap := n.(ast.MapNode)
	list, isList := n.(*ast.SequenceNode)
	kind := s.at.Kind()
	switch {
	case n.Type() == ast.NullType:
		hint := "write one ([] for an empty list), or remove the key"
		if strings.HasSuffix(s.path, "pages.color") {
			hint = `# begins a comment, so write it in quotes: color: "#0f665e"`
		}
		l.problem(from, s.path, "has no value: %s", hint)
	case s.at.Type() == eventsType:
		l.events(n, s)
	case isList && kind == reflect.Slice:
		for i, item := range s.resize(len(list.Values)) {
			if realm, ok := item.at.Addr().Interface().(*Realm); ok {
				*realm = l.loaded.inherited()
			}
			l.value(list.Values[i], l.at(list.Values[i]), item)
		}
	case kind == reflect.Slice && single && !s.section(): // a list of one
		l.value(n, from, s.resize(1)[0])
	case kind == reflect.Slice:
		l.problem(from, s.path, "must be a list, not %s", kindOf(n))
	case isMap && kind == reflect.Struct && !plainText(s.at.Type()):
		l.section(n, from, s.path, fields(s))
		if !s.limit() {
			return
		}
		for _, part := range fields(s) {
			if part.key() == "monitor" {
				continue
			}
			_, set := l.loaded.origins[part.path]
			if part.key() == "action" && !set && s.at.Type() == limitType {
				l.text(from, part, guard.Challenge.String())
			} else if !set {
				l.problem(from, part.path, "must be set")
			}
		}
	case kind == reflect.Struct && !plainText(s.at.Type()) && !s.limit():
		l.problem(from, s.path, "must have keys such as %s, not %s", fields(s)[0].key(), kindOf(n))
	case !single:
		l.problem(from, s.path, "must be a single value, not %s", kindOf(n))
	case quoted && (kind == reflect.Int || kind == reflect.Float64 || kind == reflect.Bool):
		l.problem(from, s.path, "must be without quotes, not %.60q", text)
	default:
		l.text(from, s, text)
	}
}

// scalar returns the text of a single value. A quoted value is text, even if it looks like a number.
func scalar(n ast.Node) (text string, quoted, ok bool) {
	switch n.Type() {
	case ast.StringType, ast.IntegerType, ast.FloatType, ast.BoolType, ast.InfinityType, ast.NanType:
		t := n.GetToken()
		return t.Value, t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType, true
	case ast.LiteralType:
		return n.(*ast.LiteralNode).Value.Value, true, true
	case ast.MappingType:
		text, ok = unspaced(n.(*ast.MappingNode))
		return text, false, ok
	default:
		return "", false, false
	}
}

// unspaced returns plain text that the library parses as a mapping: in {addresses: [127.0.0.1:6379]} it ends a key at
// any colon. YAML requires a space after the colon.
func unspaced(m *ast.MappingNode) (string, bool) {
	if len(m.Values) != 1 || m.IsFlowStyle {
		return "", false
	}
	pair := m.Values[0]
	key, keyQuoted, keyOK := scalar(pair.Key)
	value, valueQuoted, valueOK := scalar(pair.Value)
	colon, begins := pair.Start.Position, pair.Value.GetToken().Position
	if keyQuoted || valueQuoted || !keyOK || !valueOK || begins.Line != colon.Line || begins.Column != colon.Column+1 {
		return "", false
	}
	return key + ":" + value, true
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "an anchor (&), an alias (*) or a tag (!): write the value, or quote it if it is text"
	case ast.MapNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}
