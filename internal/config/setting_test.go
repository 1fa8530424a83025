package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestNoTwoSettingsShareAVariable(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{FileVariable: true}
	for _, s := range settings(new(Config)) {
		if taken[s.variable()] {
			t.Errorf("%s is taken", s.variable())
		}
		taken[s.variable()] = true
		if !regexp.MustCompile(`^[a-z_]+(\.[a-z_]+){0,2}$`).MatchString(s.path) || serviceVariable.MatchString(s.variable()+"=") {
			t.Errorf("%s is ambiguous", s.path)
		}
	}
}

func TestEverySettingDiffersByItself(t *testing.T) {
	t.Parallel()
	for i, s := range settings(new(Config)) {
		if s.at.Type() == realmsType {
			continue // by its parts: TestRealmsDifferByName
		}
		before, after := Default(), Default()
		changed := settings(&after)[i]
		if changed.at.Kind() == reflect.Slice {
			changed.resize(changed.at.Len() + 1)
		} else if text := other(changed.show()); changed.set(text) != nil {
			changed.at.SetZero() // one of a few words
		}
		live, restart := Diff(before, after)
		if want := []string{s.path}; !slices.Equal(slices.Concat(live, restart), want) || s.live != (live != nil) {
			t.Errorf("%s changes %v %v", s.path, live, restart)
		}
	}
}

// other is a different value that most keys take.
func other(text string) string {
	switch {
	case text == "true":
		return "false"
	case text == "false":
		return "true"
	case strings.HasSuffix(text, "h"), strings.HasSuffix(text, "s"), strings.HasSuffix(text, "m"), strings.HasSuffix(text, "d"):
		return text + "1s"
	default:
		return "12" + text
	}
}

func TestOnlyNearNamesAreSuggested(t *testing.T) {
	t.Parallel()
	names := []string{"listen", "limits", "log", "api"}
	for word, want := range map[string]string{"lisetn": "listen", "limit": "limits", "lgo": "log", "password": "", "": "", strings.Repeat("listen", 1000): ""} {
		if want != "" {
			want = "; did you mean " + want + "?"
		}
		if got := didYouMean(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
