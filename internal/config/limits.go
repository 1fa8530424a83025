package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"authguard/guard"
)

// ParseLimits parses the limits of one of guard.Policy.LimitSets as a variable has them: "5/24h challenge, 100/24h
// block". The policy decides whether they are valid together.
func ParseLimits(limitSet, text string) ([]guard.Limit, error) {
	l := &loader{loaded: &Loaded{origins: map[string]Origin{}}}
	for _, s := range settings(&l.loaded.Config) {
		if s.path != limitPath(limitSet) || s.at.Type() != reflect.TypeFor[[]guard.Limit]() {
			continue
		}
		l.override(Origin{}, s, text)
		if len(l.problems) > 0 {
			var errs []error
			for _, p := range l.problems {
				errs = append(errs, p)
			}
			return nil, errors.Join(errs...)
		}
		return s.at.Interface().([]guard.Limit), nil
	}
	return nil, fmt.Errorf("%s has no limits that count failures", limitSet)
}

// FormatLimits returns limits as ParseLimits parses them.
func FormatLimits(limits []guard.Limit) string {
	return setting{at: reflect.ValueOf(limits)}.show()
}

// LimitsYAML returns the lines of the configuration file for the limits of a set.
func LimitsYAML(limitSet string, limits []guard.Limit) string {
	text := "limits:\n  " + strings.TrimPrefix(limitPath(limitSet), "limits.") + ":\n"
	for _, l := range limits {
		text += "    - " + show(l) + "\n"
	}
	return text
}

// LimitOrigin returns where a realm's limit i of a set was set, and "default" for a built-in value.
func (l *Loaded) LimitOrigin(realm, limitSet string, i int) Origin {
	at := slices.IndexFunc(l.Realms, func(r Realm) bool { return r.Name == realm })
	path := limitPath(limitSet)
	if at >= 0 {
		own := fmt.Sprintf("realms[%d].", at)
		if from, ok := l.originOf(own+path, i); ok {
			return from
		}
	}
	from, _ := l.originOf(path, i)
	return from
}

// originOf returns the origin of item i, else of the list, else of its first part.
func (l *Loaded) originOf(path string, i int) (from Origin, ok bool) {
	for _, one := range []string{fmt.Sprintf("%s[%d]", path, i), path} {
		if from, ok = l.origins[one]; ok {
			return from, true
		}
	}
	for other, one := range l.origins {
		if partOf(other, path) && (!ok || one.Line < from.Line) {
			from, ok = one, true
		}
	}
	return from, ok
}

// limitPath returns the setting of a set of limits.
func limitPath(limitSet string) string {
	if limitSet == guard.ModeLimits {
		return "captcha_mode"
	}
	kind, name, found := strings.Cut(limitSet, ":")
	switch {
	case !found:
		return "limits." + strings.ReplaceAll(limitSet, "-", "_")
	case kind == "event":
		return "events." + name
	}
	return "lists"
}
