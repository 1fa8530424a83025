package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authguard/internal/config"
)

func TestGoodFilesAreRead(t *testing.T) {
	t.Parallel()
	for _, path := range files(t, "testdata/good/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			if _, err := config.Load(path, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBadFilesTellEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	for _, path := range files(t, "testdata/bad/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			want := read(t, strings.TrimSuffix(path, ".yaml")+".txt")
			_, err := config.Parse(filepath.Base(path), []byte(read(t, path)), nil)
			if err == nil {
				t.Fatalf("no error; want:\n%s", want)
			}
			if got := err.Error() + "\n"; got != want {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
}

func TestNoMessageRepeatsASecret(t *testing.T) {
	t.Parallel()
	for _, path := range files(t, "testdata/bad/secret*.yaml") {
		_, err := config.Load(path, []string{"AUTHGUARD_API_TOKENS=hunter2", "AUTHGUARD_ALERTS_TO=hunter2"})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
	}
	return paths
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
