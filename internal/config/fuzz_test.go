package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// FuzzParse holds that no file panics, that what is refused says why on one
// line each, and that what is accepted can be written and read again.
func FuzzParse(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*/*.yaml")
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "5/24h challenge")
	}
	f.Fuzz(func(t *testing.T, data []byte, account string) {
		environ := []string{"AUTHGUARD_LIMITS_ACCOUNT=" + account}
		l, err := Parse("t.yaml", data, environ)
		if err != nil {
			for _, p := range Problems(err) {
				if p.Text == "" || strings.ContainsAny(p.Error(), "\n\r\x00\x1b") {
					t.Errorf("%q", p.Error())
				}
			}
			return
		}
		again, err := Parse("again.yaml", file(l.Config), nil)
		if err != nil || !reflect.DeepEqual(again.Config, l.Config) {
			t.Errorf("%v\n%s", err, file(l.Config))
		}
	})
}
