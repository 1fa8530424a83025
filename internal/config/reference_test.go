package config

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/testing/doctest"
)

func TestReference(t *testing.T) {
	t.Parallel()
	all := referenced()
	shown := map[string]bool{}
	doctest.Generated(t, "docs/reference/configuration.md", func(section string) string {
		shown[section] = true
		items := strings.Contains("Events Lists Realms", section)
		rows := [][]string{{"key", "kind", "default", "meaning"}}
		if items {
			rows = [][]string{{"key", "kind", "meaning"}}
		}
		for _, one := range descriptions() {
			s, known := all[one.path]
			meaning := doctest.Escaped(one.meaning)
			switch {
			case one.section != section:
				continue
			case !known:
				t.Errorf("settings.txt: no such setting: %s", one.path)
			case items:
				rows = append(rows, []string{doctest.Code(s.key()), s.kind(), meaning})
			default:
				live := map[bool]string{true: `\*`}[s.live]
				rows = append(rows, []string{doctest.Code(one.path) + live, s.kind(), doctest.Code(s.show()), meaning})
			}
		}
		return doctest.Table(rows...)
	})
	for _, one := range descriptions() {
		if !shown[one.section] {
			t.Errorf("docs/reference/configuration.md has no part %q", one.section)
		}
	}
}

// referenced are the settings that the reference describes: those of the defaults, and those of the items of lists.
func referenced() map[string]setting {
	c := Default()
	all := map[string]setting{}
	for _, s := range settings(&c) {
		all[s.path] = s
		if s.section() && s.at.Type() != eventsType {
			item := setting{path: s.path, at: reflect.New(s.at.Type().Elem()).Elem()}
			for _, own := range fields(item) {
				all[own.path] = own
			}
		}
	}
	for _, own := range fields(setting{path: "events.NAME", at: reflect.New(eventLimitType).Elem()}) {
		all[own.path] = own
	}
	return all
}

// kind is what a setting's value is, with its range.
func (s setting) kind() string {
	kind := "text"
	switch s.at.Interface().(type) {
	case time.Duration:
		kind = "duration"
	case Size:
		kind = "size"
	case bool:
		kind = "boolean"
	case int:
		kind = "integer"
	case float64:
		kind = map[bool]string{true: "fraction", false: "number"}[s.part()]
	case Secret:
		kind = "secret"
	case []Secret:
		kind = "secrets"
	case []string:
		kind = "texts"
	case []netip.Prefix:
		kind = "networks"
	case []guard.Limit:
		kind = "limits"
	case []Event:
		kind = "mapping"
	default:
		if s.at.Kind() == reflect.Slice {
			kind = "mappings"
		}
	}
	if least, most, ok := strings.Cut(s.tag.Get("within"), " "); ok {
		kind += ", " + least + "–" + most
	}
	return kind
}
