package config_test

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authguard/internal/config"
	"authguard/internal/testing/doctest"
)

// A setting for its own sake, and a whole file: what is printed loads as it is.
func TestTheDocsConfigurationsLoad(t *testing.T) {
	t.Parallel()
	for _, b := range doctest.Unclaimed(t, "yaml") {
		if _, err := config.Parse(fmt.Sprintf("%s:%d", b.Doc, b.Line), []byte(b.Text), nil); err != nil {
			t.Error(err)
		}
	}
}

// A setting that a sentence shows, as in `listen: 0.0.0.0:8080`, has a value that it takes.
func TestTheDocsSentencesShowGoodValues(t *testing.T) {
	t.Parallel()
	var keys []string
	for _, s := range load(t, "", nil).Effective() {
		keys = append(keys, s.Path)
	}
	shown, shows := regexp.MustCompile(`^([a-z_]+(?:\.[a-z_]+)*): ([^…]+)$`), 0
	for _, d := range doctest.All(t) {
		if d.Path == "CHANGELOG.md" || strings.HasPrefix(d.Path, "docs/decisions/") {
			continue // what was, and what is refused
		}
		for _, span := range d.Spans {
			m := shown.FindStringSubmatch(span.Text)
			if m == nil || !slices.ContainsFunc(keys, func(key string) bool { return key == m[1] || strings.HasPrefix(key, m[1]+".") }) {
				continue
			}
			shows++
			text := strings.ReplaceAll(m[1], ".", ": {") + ": " + m[2] + strings.Repeat("}", strings.Count(m[1], "."))
			if _, err := config.Parse(d.Path, []byte(text), nil); err != nil && strings.Contains(err.Error(), ": "+m[1]) {
				t.Errorf("%s:%d: `%s`: %v", d.Path, span.Line, span.Text, err)
			}
		}
	}
	if shows < 5 {
		t.Errorf("%d settings in sentences", shows)
	}
}

func TestTheExamplesOfRealmsAreRead(t *testing.T) {
	t.Parallel()
	for _, b := range doctest.Claimed(t, "docs/how-to/several-sites.md") {
		if l := load(t, b.Text, nil); len(l.Realms) != 2 {
			t.Errorf("%d realms in\n%s", len(l.Realms), b.Text)
		}
	}
}

func TestTheExamplesOfTheDocumentationAreRead(t *testing.T) {
	t.Parallel()
	blocks := doctest.Claimed(t, "docs/reference/configuration.md")
	if len(blocks) != 3 {
		t.Fatalf("%d examples", len(blocks))
	}
	short, shorter := load(t, blocks[0].Text, nil), load(t, blocks[1].Text, nil)
	if alike := load(t, blocks[2].Text, nil); len(alike.Limits.Fingerprint) != 2 || !reflect.DeepEqual(alike.Fingerprint, config.Default().Fingerprint) {
		t.Errorf("%+v, and the defaults are not what the document says", alike.Fingerprint)
	}
	if live, restart := config.Diff(short.Config, shorter.Config); live != nil || restart != nil {
		t.Errorf("the two ways to write limits differ: %v %v", live, restart)
	}
}

func TestTheFullExampleHasEverySetting(t *testing.T) {
	t.Parallel()
	for _, s := range load(t, read(t, "testdata/good/full.yaml"), nil).Effective() {
		if s.Origin == "default" && !strings.HasSuffix(s.Path, "accounts.htpasswd") && !strings.Contains(s.Path, "accounts.ldap.") && s.Path != "realms[0].origin" {
			t.Errorf("the full example lacks %s", s.Path)
		}
	}
}

func TestTheDocumentationNamesEveryPreset(t *testing.T) {
	t.Parallel()
	var named []string
	for _, row := range regexp.MustCompile("(?m)^ *- `([a-z]+)`: \\[.+\\]\\(([a-z]+)\\.md\\)$").FindAllStringSubmatch(read(t, "../../docs/how-to/reverse-proxy.md"), -1) {
		named = append(named, row[1])
		if page := read(t, "../../docs/how-to/"+row[2]+".md"); row[1] != row[2] || !strings.Contains(page, "\n     preset: "+row[1]+"\n") {
			t.Errorf("%s: its page does not say how it is set:\n%s", row[1], page)
		}
	}
	if !slices.Equal(named, config.Presets()) {
		t.Errorf("docs/how-to/reverse-proxy.md names %v; there are %v", named, config.Presets())
	}
}
