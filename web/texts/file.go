package texts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"golang.org/x/text/language"
)

// The limits of a file and a text, in bytes.
const (
	largestFile = 128 << 10
	longestText = 1 << 10
)

// A reader reads one file and collects its errors.
type reader struct {
	name     string
	into, en *Language
	err      error
}

// wrong records an error with its line.
func (r *reader) wrong(at ast.Node, format string, args ...any) {
	r.err = errors.Join(r.err, fmt.Errorf("%s:%d: %s", r.name, at.GetToken().Position.Line, fmt.Sprintf(format, args...)))
}

// read reads a file and checks it against English, unless en is nil.
func read(folder fs.FS, name string, en *Language) (l *Language, err error) {
	defer func() { // the parser has panicked on invalid input
		if p := recover(); p != nil {
			l, err = nil, fmt.Errorf("%s: cannot be read as YAML: %v", name, p)
		}
	}()
	tag, err := tagOf(name)
	if err != nil {
		return nil, err
	}
	data, err := readFile(folder, name)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		return nil, fmt.Errorf("%s:%d: is not YAML: %s; put quotation marks around a text with a colon or at whose "+
			"beginning there is a brace",
			name, syntax.Token.Position.Line, syntax.Message)
	} else if err != nil {
		return nil, fmt.Errorf("%s: is not YAML: %w", name, err)
	}
	r := &reader{name: name, en: en, into: &Language{tag: tag, texts: map[string]forms{}}}
	for _, doc := range file.Docs {
		if m, ok := doc.Body.(ast.MapNode); ok {
			r.texts(m)
		} else if doc.Body != nil {
			r.wrong(doc.Body, "must be lines such as login.title: Sign in")
		}
	}
	return r.into, r.err
}

func readFile(folder fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(folder, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > largestFile {
		return nil, fmt.Errorf("%s: must be a file of at most %d KiB", name, largestFile>>10)
	}
	data, err := fs.ReadFile(folder, name)
	if err == nil && !utf8.Valid(data) {
		err = fmt.Errorf("%s: must be UTF-8", name)
	}
	return data, err
}

func (r *reader) texts(lines ast.MapNode) {
	for pairs := lines.MapRange(); pairs.Next(); {
		key, at := pairs.Key().GetToken().Value, pairs.Key()
		switch {
		case r.en != nil && !r.en.Has(key):
			r.wrong(at, "%.60q is no text of these pages; en.yaml has them all", key)
		case r.into.texts[key] != nil:
			r.wrong(at, "%s is there twice", key)
		default:
			r.into.texts[key] = r.forms(key, pairs.Value())
		}
	}
}

// forms reads the text of a key, or its texts by plural form.
func (r *reader) forms(key string, value ast.Node) forms {
	all := forms{}
	by, several := value.(ast.MapNode)
	if !several {
		all["other"] = r.text(key, "other", value)
	}
	for pairs := iterate(by); several && pairs.Next(); {
		form := pairs.Key().GetToken().Value
		if !slices.Contains(slices.Collect(maps.Values(formNames)), form) {
			r.wrong(pairs.Key(), "%s: %.20q is no plural form: zero, one, two, few, many or other", key, form)
		}
		all[form] = r.text(key, form, pairs.Value())
	}
	if all["other"] == nil && r.err == nil {
		r.wrong(value, "%s: needs a text for other, which is for all numbers without a form of their own", key)
	}
	if several && r.en != nil && len(r.en.texts[key]) == 1 {
		r.wrong(value, "%s: is about no number: write one text", key)
	}
	return all
}

func iterate(m ast.MapNode) *ast.MapNodeIter {
	if m == nil {
		return nil
	}
	return m.MapRange()
}

// text reads one text. It has the placeholders of the English one; a plural form may spell out its number.
func (r *reader) text(key, form string, value ast.Node) text {
	s, ok := scalar(value)
	switch {
	case !ok:
		r.wrong(value, "%s: must be a text; put quotation marks around it", key)
		return nil
	case strings.TrimSpace(s) == "" || len(s) > longestText || strings.ContainsFunc(s, unicode.IsControl):
		r.wrong(value, "%s: must be a text on one line, of 1 to %d bytes", key, longestText)
		return nil
	}
	t, err := newText(s)
	if err != nil {
		r.wrong(value, "%s: %v", key, err)
		return nil
	}
	if r.en == nil {
		return t
	}
	want, have := r.en.texts[key]["other"].slots(), t.slots()
	if !slices.Equal(want, have) && (form == "other" || len(have) > 0) {
		r.wrong(value, "%s: must have %s, as in English, and has %s", key, inBraces(want), inBraces(have))
	}
	return t
}

func inBraces(names []string) string {
	if len(names) == 0 {
		return "no placeholder"
	}
	return "{" + strings.Join(names, "}, {") + "}"
}

// scalar returns the text of a value on one line or several.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return strings.TrimSpace(n.Value.Value), true
	case *ast.IntegerNode, *ast.BoolNode, *ast.FloatNode:
		return cmp.Or(n.GetToken().Origin, n.GetToken().Value), true
	}
	return "", false
}

// tagOf returns the language of a file.
func tagOf(name string) (language.Tag, error) {
	base := strings.TrimSuffix(path.Base(name), ".yaml")
	tag, err := language.Parse(base)
	if err != nil || tag.String() != base {
		return tag, fmt.Errorf("%s: must be named by the tag of its language, such as it.yaml or pt-BR.yaml", name)
	}
	return tag, nil
}
