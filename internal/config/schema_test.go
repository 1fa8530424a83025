package config_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"authguard/internal/config"
	"authguard/internal/testing/doctest"
)

// compiled is the schema as an editor has it.
func compiled(t *testing.T) (all map[string]any, valid func(text string) error) {
	t.Helper()
	text, err := json.Marshal(config.Schema())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("authguard.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("authguard.json")
	if err != nil {
		t.Fatal(err)
	}
	return doc.(map[string]any), func(text string) error {
		asJSON, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return err
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(asJSON)))
		if err != nil || value == nil {
			return err
		}
		return s.Validate(value)
	}
}

func TestTheSchemaDescribesEverySetting(t *testing.T) {
	t.Parallel()
	root, _ := compiled(t)
	for _, s := range load(t, "", nil).Effective() {
		at := root
		for key := range strings.SplitSeq(s.Path, ".") {
			at, _ = at["properties"].(map[string]any)[key].(map[string]any)
			if at == nil {
				t.Fatalf("%s is not in the schema", s.Path)
			}
		}
		if words, _ := at["description"].(string); words == "" || strings.Contains(words, "](") {
			t.Errorf("%s: described as %q", s.Path, words)
		}
		switch value := at["default"].(type) {
		case []any:
			items := make([]string, len(value))
			for i := range value {
				items[i] = fmt.Sprint(value[i])
			}
			if got := strings.Join(items, ", "); got != s.Value {
				t.Errorf("%s: default %s, want %s", s.Path, got, s.Value)
			}
		case nil:
			if s.Value != "" {
				t.Errorf("%s has no default", s.Path)
			}
		default:
			if fmt.Sprint(value) != s.Value {
				t.Errorf("%s: default %v, want %s", s.Path, value, s.Value)
			}
		}
	}
}

// What the product reads, an editor takes: every example of the documents, of deploy, and of
// the presets.
func TestTheSchemaTakesEveryExample(t *testing.T) {
	t.Parallel()
	_, valid := compiled(t)
	examples := map[string]string{}
	for _, path := range append(files(t, "testdata/good/*.yaml"), "../../deploy/authguard.yaml") {
		examples[path] = read(t, path)
	}
	for _, path := range files(t, "presets/*.yaml") {
		examples[path] = "proxy:\n  " + strings.ReplaceAll(read(t, path), "\n", "\n  ")
	}
	for _, d := range doctest.All(t) {
		for _, b := range d.Blocks {
			if b.Language != "yaml" {
				continue
			}
			if _, err := config.Parse(b.Doc, []byte(b.Text), nil); err == nil {
				examples[fmt.Sprintf("%s:%d", b.Doc, b.Line)] = b.Text
			}
		}
	}
	for where, text := range examples {
		if err := valid(strings.TrimPrefix(text, "\ufeff")); err != nil {
			t.Errorf("%s: %v\n%s", where, err, text)
		}
	}
	if len(examples) < 40 {
		t.Errorf("only %d examples", len(examples))
	}
}

func TestTheSchemaRefusesMistakes(t *testing.T) {
	t.Parallel()
	_, valid := compiled(t)
	for _, text := range []string{
		"listn: ':8080'", "limits: {ip: [10/1m challenge]}", "site: {cool_down: soon}", "limits: {address: [10/1m deny]}",
		"limits: {fingerprint: [10/1m block]}", "limits: {address: [10 per minute]}", "limits: {address: [{failures: 10}]}",
		"secure_cookies: perhaps", "passwords: {cost: 99}", "passwords: {cost: '12'}", "counters: {memory: lots}",
		"events: {reset: [5/1h fake-failure by account]}", "lists: [{name: x, file: y, format: csv}]", "realms: [{name: x, limits: {ip: []}}]",
		"monitor: 'no'", "proxy: {routes: [{paths: /x}]}",
	} {
		if valid(text) == nil {
			t.Errorf("the schema takes %s", text)
		}
		if _, err := config.Parse("t.yaml", []byte(text), nil); err == nil {
			t.Errorf("the product takes %s", text)
		}
	}
}
