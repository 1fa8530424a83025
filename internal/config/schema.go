package config

import (
	_ "embed"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"authguard/guard"
)

type schema map[string]any

// Schema describes the settings file to editors and programs, in JSON Schema draft 7, which yaml-language-server
// supports best. Its sources are the fields and tags of [Config], the defaults, and settings.txt. Only [Load] checks
// settings against each other.
func Schema() map[string]any {
	c := Default()
	root := object(settings(&c), "", describe())
	root["$schema"], root["title"] = "http://json-schema.org/draft-07/schema#", "authguard"
	return root
}

func object(all []setting, section string, about map[string]string) schema {
	empty := func() schema { // a section without keys is null
		return schema{"type": []string{"object", "null"}, "additionalProperties": false, "properties": schema{}}
	}
	root := empty()
	for _, s := range all {
		keys, at := strings.Split(strings.TrimPrefix(strings.TrimPrefix(s.path, section), "."), "."), root
		for _, key := range keys[:len(keys)-1] {
			in := at["properties"].(schema)
			if in[key] == nil {
				in[key] = empty()
			}
			at = in[key].(schema)
		}
		at["properties"].(schema)[keys[len(keys)-1]] = s.schema(about)
	}
	return root
}

// schema describes one setting, with its default unless it is a list item.
func (s setting) schema(about map[string]string) schema {
	out := s.values(about)
	if text := about[itemPattern.ReplaceAllString(s.path, "")]; text != "" {
		out["description"] = text
	}
	if !strings.Contains(s.path, "[") && !s.section() {
		out["default"] = s.plainValue()
	}
	return out
}

var itemPattern = regexp.MustCompile(`\[\d*\]`)

func (s setting) values(about map[string]string) schema {
	t := s.at.Type()
	item := func(path string, t reflect.Type) setting { return setting{path: path, at: reflect.New(t).Elem()} }
	switch {
	case t == realmsType:
		realm := object(fields(item("realms[0]", t.Elem())), "realms[0]", about)
		return schema{"type": "array", "items": likeTheRoot(realm)}
	case t == eventsType:
		limits := item("events.NAME", reflect.SliceOf(eventLimitType)).values(about)
		return schema{"anyOf": []schema{{"type": "object", "additionalProperties": limits}, {"type": "array", "maxItems": 0}}}
	case t.Kind() == reflect.Slice:
		first := item(s.path+"[0]", t.Elem())
		first.tag = s.tag
		one := first.schema(about)
		if list := (schema{"type": "array", "items": one}); !s.section() {
			return schema{"anyOf": []schema{one, list}}
		} else {
			return list
		}
	case s.limit():
		keys := object(fields(s), s.path, about)
		keys["type"], keys["required"] = "object", []string{fields(s)[0].key(), "window"}
		return schema{"anyOf": []schema{text(s.limitText()), keys}}
	case s.section():
		return object(fields(s), s.path, about)
	}
	return s.scalar()
}

// likeTheRoot references the sections that a realm shares with the top level, instead of repeating them.
func likeTheRoot(realm schema) schema {
	properties := realm["properties"].(schema)
	for key := range properties {
		if !slices.Contains([]string{"name", "hosts", "tokens", "paths"}, key) {
			properties[key] = schema{"$ref": "#/properties/" + key}
		}
	}
	return realm
}

const (
	durationText = `(?:[0-9]+w)?(?:[0-9]+d)?(?:0|(?:[0-9.]+(?:ns|us|µs|μs|ms|s|m|h))*)`
	sizeText     = `^ *[0-9.]+ *(?:[KMGTkmgt][Ii]?)?[Bb]? *$`
)

func text(pattern string) schema { return schema{"type": "string", "pattern": pattern} }

// limitText is the pattern of a limit on one line, with the actions allowed there.
func (s setting) limitText() string {
	then := "(?:" + strings.Join(slices.Sorted(maps.Keys(actionsAt(s.path))), "|") + ")"
	if s.at.Type() == eventLimitType {
		return `^\s*[0-9]+/` + durationText + `\s+` + then + `\s+by\s+(?:` +
			strings.Join(slices.Sorted(maps.Keys(eventSubjects)), "|") + `)(?:\s+monitor)?\s*$`
	}
	rate := `[0-9]+/` + durationText + `(?:\s+` + then + `)?`
	if strings.Contains(s.path, "lists[") {
		rate = `(?:` + rate + `|0\s+` + then + `)`
	}
	return `^\s*` + rate + `(?:\s+monitor)?\s*$`
}

func (s setting) scalar() schema {
	if words := strings.Fields(s.tag.Get("words")); len(words) > 0 {
		return schema{"enum": words}
	}
	orNumber := func(one schema) schema { return schema{"anyOf": []schema{one, {"type": "number", "minimum": 0}}} }
	switch s.at.Addr().Interface().(type) {
	case *time.Duration:
		return schema{"anyOf": []schema{text("^" + durationText + "$"), {"const": 0}}}
	case *Size:
		return orNumber(text(sizeText))
	case *bool:
		return schema{"type": "boolean"}
	case *int:
		out := schema{"type": "integer"}
		if least, most, ok := strings.Cut(s.tag.Get("within"), " "); ok {
			out["minimum"], out["maximum"] = s.number(least), s.number(most)
		}
		return out
	case *float64:
		if s.part() {
			return orNumber(text(`^[0-9.]+%$`))
		}
		return schema{"type": "number"}
	case *PairDelay:
		return schema{"anyOf": []schema{{"const": off}, text(pairDelayText.String())}}
	case *Spray:
		return schema{"anyOf": []schema{{"const": off}, text(sprayText.String())}}
	case *Threshold:
		return schema{"anyOf": []schema{text(thresholdText.String()), {"type": "integer", "minimum": 1}}}
	case *CoolDown:
		return text(coolDownText.String())
	case *guard.Action:
		return schema{"enum": slices.Sorted(maps.Keys(actionsAt(s.path)))}
	case *guard.SubjectKind:
		return schema{"enum": slices.Sorted(maps.Keys(eventSubjects))}
	}
	return schema{"type": "string"}
}

// plainValue is the JSON value; limits and durations are text.
func (s setting) plainValue() any {
	switch {
	case s.at.Kind() == reflect.Slice:
		list := []string{}
		for i := range s.at.Len() {
			list = append(list, setting{path: s.path, at: s.at.Index(i)}.show())
		}
		return list
	case s.at.Kind() == reflect.Int || s.at.Kind() == reflect.Bool || s.at.Kind() == reflect.Float64 && !s.part():
		return s.at.Interface()
	}
	return s.show()
}

//go:embed settings.txt
var settingsText string

// A description is the meaning of a setting, in Markdown. Keys of list items have no index: lists.name.
type description struct{ section, path, meaning string }

// descriptions reads settings.txt.
func descriptions() (all []description) {
	section := ""
	for line := range strings.Lines(settingsText) {
		line = strings.TrimRight(line, "\n")
		title, heading := strings.CutPrefix(line, "## ")
		switch {
		case heading:
			section = title
		case strings.HasPrefix(line, "  "):
			all[len(all)-1].meaning += " " + strings.TrimSpace(line)
		case line != "" && line[0] != '#':
			path, meaning, _ := strings.Cut(line, ": ")
			all = append(all, description{section, path, meaning})
		}
	}
	return all
}

var linkPattern = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)

// describe returns the meaning of each setting as plain text, without link targets.
func describe() map[string]string {
	about := map[string]string{}
	for _, one := range descriptions() {
		about[one.path] = linkPattern.ReplaceAllString(one.meaning, "$1")
	}
	return about
}
