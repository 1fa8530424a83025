package config

import (
	"errors"
	"fmt"
	"strconv"
)

// A value reads and prints one setting.
type value interface {
	// set replaces the setting by what n says. With faults, it leaves the
	// setting alone.
	set(n node) []fault
	// node is the setting as a file would say it.
	node() node
	// split turns a variable's text into a node for set.
	split(text string) node
}

// A scalar is a setting of one value.
type scalar[T any] struct {
	at     *T
	want   string // "must be …"
	parse  func(string) (T, error)
	format func(T) string
	bare   bool // not a number if it is in quotes
	text   bool // always written in quotes
}

var _ value = scalar[int]{}

func (s scalar[T]) set(n node) []fault {
	if text := s.mistyped(n); text != "" {
		return []fault{{line: n.line, text: text}}
	}
	v, err := s.parse(n.text)
	if err != nil {
		return []fault{{line: n.line, text: err.Error()}}
	}
	*s.at = v
	return nil
}

func (s scalar[T]) mistyped(n node) string {
	switch {
	case n.kind == null:
		return fmt.Sprintf("has no value: it must be %s, or leave the key out", s.want)
	case n.kind != scalarKind:
		return fmt.Sprintf("must be %s, not %s", s.want, n.kind)
	case n.quoted && s.bare:
		return fmt.Sprintf("must be %s, without quotes", s.want)
	default:
		return ""
	}
}

func (s scalar[T]) node() node {
	return node{kind: scalarKind, text: s.format(*s.at), quoted: s.text}
}

func (s scalar[T]) split(text string) node { return plain(text) }

// A list is a setting of any number of values of one kind.
type list[T any] struct {
	at    *[]T
	item  func(*T) value
	parts func(string) []string // of a variable
}

var _ value = list[int]{}

func (l list[T]) set(n node) []fault {
	switch n.kind {
	case listKind:
	case null:
		return []fault{{line: n.line, text: "has no value: write [] for an empty list, or leave the key out"}}
	default:
		return []fault{{line: n.line, text: "must be a list, not " + n.kind.String()}}
	}
	var items []T // an empty list is nil, however it was written
	if len(n.items) > 0 {
		items = make([]T, len(n.items))
	}
	var faults []fault
	for i, item := range n.items {
		faults = append(faults, under(at("", i), l.item(&items[i]).set(item))...)
	}
	if len(faults) == 0 {
		*l.at = items
	}
	return faults
}

func (l list[T]) node() node {
	n := node{kind: listKind}
	for i := range *l.at {
		n.items = append(n.items, l.item(&(*l.at)[i]).node())
	}
	return n
}

func (l list[T]) split(text string) node {
	n := node{kind: listKind}
	for _, part := range l.parts(text) {
		n.items = append(n.items, plain(part))
	}
	return n
}

// at is the path of a list's item.
func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// within refuses what is out of range; most people need to know only the bound
// that they crossed.
func within[T any](v, least, most T, less func(a, b T) bool, format func(T) string) error {
	switch {
	case less(v, least):
		return errors.New("must be at least " + format(least))
	case less(most, v):
		return errors.New("must be at most " + format(most))
	default:
		return nil
	}
}
