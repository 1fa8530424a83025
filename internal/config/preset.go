package config

import (
	"embed"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
)

// presets are the guarded routes of known apps, in the syntax of proxy.routes, so that users can copy and change them.
//
//go:embed presets/*.yaml
var presets embed.FS

// Presets returns the names of the presets.
func Presets() (names []string) {
	files, _ := presets.ReadDir("presets")
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return names
}

// Preset returns the routes of a preset; none for the empty name.
func Preset(name string) ([]Route, error) {
	if name == "" {
		return nil, nil
	}
	if !slices.Contains(Presets(), name) {
		return nil, fmt.Errorf("must be one of %s, not %.60q%s", strings.Join(Presets(), ", "), name,
			didYouMean(name, Presets()))
	}
	file := path.Join("presets", name+".yaml")
	data, err := presets.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var read struct{ Routes []Route }
	l := &loader{file: file, loaded: &Loaded{origins: map[string]Origin{}}}
	l.settings = fields(setting{at: reflect.ValueOf(&read).Elem()})
	if l.readFile(data); len(l.problems) > 0 {
		return nil, l.problems
	}
	return read.Routes, nil
}
