package authguard_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// deps are all packages that a package links, itself among them.
func deps(t *testing.T, pattern string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", pattern).CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	return strings.Fields(string(out))
}

func TestImportsRunOneWay(t *testing.T) {
	t.Parallel()
	for pkg, may := range map[string][]string{
		"authguard/failures":              {"authguard/failures"},
		"authguard/captchamode":           {"authguard/captchamode"},
		"authguard/captchamode/challenge": {"authguard/captchamode/challenge"},
		"authguard/trusted":               {"authguard/trusted"},
		"authguard/guard":                 {"authguard/guard", "authguard/failures", "authguard/captchamode", "authguard/captchamode/challenge", "authguard/trusted"},
	} {
		for _, dep := range deps(t, pkg) {
			if strings.HasPrefix(dep, "authguard/") && !slices.Contains(may, dep) {
				t.Errorf("%s links %s", pkg, dep)
			}
		}
	}
}

func TestGuardWithMemoryStoresLinksNoServersLibraries(t *testing.T) {
	t.Parallel()
	for _, dep := range deps(t, "authguard/guard") {
		for _, heavy := range []string{"redis", "labstack/echo", "database/sql", "dchest/captcha", "sqlite", "net/http"} {
			if strings.Contains(dep, heavy) && !strings.HasPrefix(dep, "vendor/") {
				t.Errorf("authguard/guard links %s", dep)
			}
		}
	}
}
