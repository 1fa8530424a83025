package config

import (
	"bytes"
	"cmp"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxFile is the largest accepted settings file, in bytes. The YAML library
// took 12 s for a file of 1 MiB with 20,000 keys.
const MaxFile = 64 << 10

// line is the origin of what stands on a line of the file.
func (l *loader) line(n int) Origin { return Origin{Source: l.file, Line: n} }

// readFile applies one YAML document, which may be empty.
//
// The library's strict decoder would stop at the first problem, so the library
// only parses, and the settings are read from its nodes, which know their
// lines.
func (l *loader) readFile(data []byte) {
	// The parser has panicked on odd input before; a typing mistake must not
	// look like a crash.
	defer func() {
		if p := recover(); p != nil {
			l.problem(l.line(0), "", "cannot be read as YAML: %v", p)
		}
	}()
	data = bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	if len(data) > MaxFile {
		l.problem(l.line(0), "", "is larger than %s, so it is not a settings file", Size(MaxFile))
		return
	}
	if i := bytes.IndexFunc(data, isJunk); i >= 0 {
		l.problem(l.line(1+bytes.Count(data[:i], []byte("\n"))), "", "is not text: byte 0x%02x", data[i])
		return
	}
	// Duplicate keys are reported below: all of them, with both lines.
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		l.syntax(err)
		return
	}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil })
	switch {
	case len(docs) > 1:
		l.problem(l.line(lineOf(docs[1].Body)), "", "holds a second document (after ---): all settings belong in one")
	case len(docs) == 1:
		l.section(docs[0].Body, lineOf(docs[0].Body), "", l.settings)
	}
}

func (l *loader) syntax(err error) {
	e, ok := errors.AsType[*yaml.SyntaxError](err)
	switch {
	case !ok:
		l.problem(l.line(0), "", "is not YAML")
	case strings.Contains(e.Message, "'\t'"):
		l.problem(l.line(e.Token.Position.Line), "", "is indented with a tab: YAML wants spaces")
	default:
		l.problem(l.line(e.Token.Position.Line), "", "is not YAML: %s", e.Message)
	}
}

// section reads the settings below path. A section with nothing but comments is
// fine.
func (l *loader) section(n ast.Node, line int, path string, known []setting) {
	switch m, ok := n.(ast.MapNode); {
	case ok:
		l.mapping(m, path, known)
	case n.Type() != ast.NullType:
		l.problem(l.line(line), path, "must hold keys such as %s, not %s", below(known, path)[0], kindOf(n))
	}
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// mapping reads the keys of one mapping and returns the line of each.
func (l *loader) mapping(m ast.MapNode, section string, known []setting) map[string]int {
	seen := map[string]int{}
	for pairs := m.MapRange(); pairs.Next(); {
		name, _, _ := scalar(pairs.Key())
		path, line := join(section, name), lineOf(pairs.Key()) // not the value's line: people look for the key
		first := cmp.Or(seen[name], line)
		i := slices.IndexFunc(known, func(s setting) bool { return s.path == path })
		switch {
		case pairs.Key().IsMergeKey():
			l.problem(l.line(line), section, "merges (<<) are not read here: write the values out")
		case strings.Contains(name, ".") && i >= 0:
			l.problem(l.line(line), section, "write %s as keys inside each other", name)
		case !namePattern.MatchString(name):
			// Not repeated: a list's item without its dash may be a secret.
			l.problem(l.line(line), section, "has a key that is not a name")
		case seen[name] > 0:
			l.problem(l.line(line), path, "is already set on line %d", first)
		case i >= 0:
			l.value(pairs.Value(), line, known[i])
		case len(below(known, path)) > 0:
			l.section(pairs.Value(), line, path, known)
		default:
			l.problem(l.line(line), path, "unknown key%s", suggestKey(section, name, known))
		}
		seen[name] = first
	}
	return seen
}

// value sets a setting or an item of a list.
func (l *loader) value(n ast.Node, line int, s setting) {
	from, kind := l.line(line), s.at.Kind()
	l.loaded.origins[s.path] = from
	text, quoted, single := scalar(n)
	m, isMap := n.(ast.MapNode)
	list, isList := n.(*ast.SequenceNode)
	switch {
	case n.Type() == ast.NullType:
		l.problem(from, s.path, "has no value: write one ([] for an empty list), or leave it out")
	case isList && kind == reflect.Slice:
		for i, item := range s.resize(len(list.Values)) {
			l.value(list.Values[i], lineOf(list.Values[i]), item)
		}
	case kind == reflect.Slice:
		l.problem(from, s.path, "must be a list, not %s", kindOf(n))
	case isMap && s.at.Type() == rungType:
		seen := l.mapping(m, s.path, fields(s))
		for _, name := range []string{"failures", "window", "then"} {
			if seen[name] == 0 {
				l.problem(from, join(s.path, name), "must be set")
			}
		}
	case !single:
		l.problem(from, s.path, "must be a single value, not %s", kindOf(n))
	case quoted && (kind == reflect.Int || kind == reflect.Float64 || kind == reflect.Bool):
		l.problem(from, s.path, "must be without quotes, not %.60q", text)
	default:
		l.text(from, s, text)
	}
}

// scalar is the text of a single value, and whether it was quoted: a quoted
// value is text, whatever it looks like.
func scalar(n ast.Node) (text string, quoted, ok bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType, true
	case *ast.LiteralNode:
		return n.Value.Value, true, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, false, true
	default:
		return "", false, false
	}
}

// kindOf names what a value is instead of what was wanted.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "an anchor (&), an alias (*) or a tag (!): write the value out, or quote it if it is text"
	case ast.MapNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}

func lineOf(n ast.Node) int { return n.GetToken().Position.Line }
