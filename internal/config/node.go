package config

type kind uint8

const (
	null kind = iota
	scalarKind
	listKind
	mapKind
)

// String says what a value is instead of what was wanted.
func (k kind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a mapping"}[k]
}

// A node is a value before it has a type: what a file, a variable and a
// setting have in common. The zero node is null.
type node struct {
	kind   kind
	text   string  // scalarKind
	quoted bool    // scalarKind: certainly text, whatever it looks like
	items  []node  // listKind
	fields []field // mapKind, in the order of the file
	line   int     // 0 outside a file
}

type field struct {
	name string
	node node
}

func plain(text string) node { return node{kind: scalarKind, text: text} }

// index notes the line of every path below a node.
func (n node) index(path string, lines map[string]int) {
	lines[path] = n.line
	for i, item := range n.items {
		item.index(at(path, i), lines)
	}
	for _, f := range n.fields {
		f.node.index(join(path, f.name), lines)
	}
}
