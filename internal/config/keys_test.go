package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"authguard/guard"
)

func TestEveryFieldHasAKey(t *testing.T) {
	t.Parallel()
	var c Config
	if fields, rows := leaves(reflect.TypeOf(c)), len(keys(&c)); fields != rows {
		t.Errorf("%d fields, but %d keys", fields, rows)
	}
}

// leaves counts the fields that are not structs of ours.
func leaves(t reflect.Type) int {
	if t.Kind() != reflect.Struct || t.PkgPath() == "net/netip" {
		return 1
	}
	n := 0
	for i := range t.NumField() {
		n += leaves(t.Field(i).Type)
	}
	return n
}

func TestNoTwoKeysShareAVariableOrAField(t *testing.T) {
	t.Parallel()
	variables, paths := map[string]bool{FileVariable: true}, map[string]bool{}
	for _, k := range keys(new(Config)) {
		if variables[k.variable()] || paths[k.path] {
			t.Errorf("%s or %s is taken", k.variable(), k.path)
		}
		variables[k.variable()], paths[k.path] = true, true
		if strings.ContainsAny(k.path, "[]") || isService(k.variable(), "") {
			t.Errorf("%s is ambiguous", k.path)
		}
	}
	a, b := Default(), Default()
	for i, k := range keys(&a) {
		if text := other(k.value.node().flat()); len(k.value.set(k.value.split(text))) == 0 && !equal(k.value.node(), keys(&b)[i].value.node()) {
			if live, restart := Diff(a, b); len(live)+len(restart) != 1 {
				t.Errorf("%s changes %v %v", k.path, live, restart)
			}
			a = Default()
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

func TestDurationsReadDaysAndWeeks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"2w": 14 * day, "1d12h": 36 * time.Hour, "1w1d1ms": 8*day + time.Millisecond, "0s": 0, "90s": 90 * time.Second, "1.5h": 90 * time.Minute,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "5", "d", "1d-1h", "1h1d", "1d1w", "-1d", "1.5d", "99999w", "106751d", "1d2562047h", "5 m", "1d 1h", "1D"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestDurationsAreWrittenAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", time.Minute: "1m", time.Hour: "1h", day: "24h", 90 * day: "90d", 90 * time.Second: "1m30s",
		10 * time.Minute: "10m", 20 * time.Hour: "20h", time.Hour + time.Second: "1h0m1s", 36 * time.Hour: "36h",
	} {
		if got := formatDuration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

func TestOnlyNearNamesAreSuggested(t *testing.T) {
	t.Parallel()
	names := []string{"listen", "limits", "log", "api"}
	for word, want := range map[string]string{"lisetn": "listen", "limit": "limits", "lgo": "log", "password": "", "": "", strings.Repeat("listen", 1000): ""} {
		if got := nearest(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func TestAPairDelayWithoutAFirstDelaysNothing(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Limits.PairDelay.First = 0
	if got := c.Policy().PairDelay; got != (guard.Delay{}) {
		t.Errorf("got %+v", got)
	}
}
