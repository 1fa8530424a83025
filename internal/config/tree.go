package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parseTree reads one YAML document whose top is a mapping. Nothing in it
// yields a null node.
func parseTree(data []byte) (n node, faults []fault) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if faults := screen(data); len(faults) > 0 {
		return node{}, faults
	}
	// The library's parser has panicked on odd input before; a typing mistake
	// must not look like a crash of ours.
	defer func() {
		if p := recover(); p != nil {
			n, faults = node{}, []fault{{text: fmt.Sprintf("cannot be read as YAML: %v", p)}}
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if faults := screenTokens(tokens); len(faults) > 0 {
		return node{}, faults
	}
	// Doubled keys are ours to report, all of them, with both lines.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return node{}, []fault{syntax(err)}
	}
	return document(file)
}

func syntax(err error) fault {
	e, ok := errors.AsType[*yaml.SyntaxError](err)
	switch {
	case !ok || e.Token == nil:
		return fault{text: "is not YAML"}
	case strings.Contains(e.Message, "'\t'"):
		return fault{line: e.Token.Position.Line, text: "is indented with a tab: YAML wants spaces"}
	default:
		return fault{line: e.Token.Position.Line, text: "is not YAML: " + e.Message}
	}
}

func document(file *ast.File) (node, []fault) {
	var bodies []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil {
			bodies = append(bodies, d.Body)
		}
	}
	switch {
	case len(bodies) == 0:
		return node{}, nil
	case len(bodies) > 1:
		return node{}, []fault{{line: lineOf(bodies[1]), text: "holds a second document (after ---): all settings belong into one"}}
	}
	n, faults := convert(bodies[0])
	if n.kind != mapKind && n.kind != null && len(faults) == 0 {
		faults = []fault{{line: n.line, text: "must hold keys such as listen, not " + n.kind.String()}}
	}
	return n, faults
}

// convert makes a node of a YAML node.
func convert(from ast.Node) (node, []fault) {
	switch v := from.(type) {
	case *ast.NullNode:
		return node{line: lineOf(v)}, nil
	case *ast.MappingNode:
		return mapping(v.Values, lineOf(v))
	case *ast.MappingValueNode:
		return mapping([]*ast.MappingValueNode{v}, lineOf(v.Key))
	case *ast.SequenceNode:
		return sequence(v)
	case *ast.StringNode:
		return node{kind: scalarKind, text: v.Value, quoted: isQuoted(v.Token), line: lineOf(v)}, nil
	case *ast.LiteralNode:
		return node{kind: scalarKind, text: v.Value.Value, quoted: true, line: lineOf(v)}, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return node{kind: scalarKind, text: v.GetToken().Value, line: lineOf(v)}, nil
	default:
		return node{}, []fault{{line: lineOf(from), text: "is YAML of a kind that is not read here"}}
	}
}

func isQuoted(t *token.Token) bool {
	return t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
}

// mapping keeps the line of the key with each value: that is where people
// look.
func mapping(values []*ast.MappingValueNode, line int) (node, []fault) {
	n := node{kind: mapKind, line: line}
	var faults []fault
	for _, v := range values {
		name, bad := convert(v.Key)
		value, worse := convert(v.Value)
		faults = append(append(faults, bad...), worse...)
		value.line = lineOf(v.Key)
		n.fields = append(n.fields, field{name.text, value})
	}
	return n, faults
}

func sequence(s *ast.SequenceNode) (node, []fault) {
	n := node{kind: listKind, line: lineOf(s)}
	var faults []fault
	for _, v := range s.Values {
		item, bad := convert(v)
		n.items, faults = append(n.items, item), append(faults, bad...)
	}
	return n, faults
}

func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 0
	}
	return n.GetToken().Position.Line
}
