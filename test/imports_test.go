package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport is the whole architecture: which package of ours may import which
// others, tests apart. Imports run down this table and never up, except among
// the packages of internal/. A name that ends in "/" stands for everything in
// that folder. A new package needs a row: think about where it belongs.
var mayImport = map[string]string{
	// What an attempt is counted in, and the site-wide switch. Nothing of ours.
	"failures":                     "",
	"trusted":                      "",
	"captchamode":                  "internal/times",
	"captchamode/challenge":        "captchamode internal/seal",
	"captchamode/challenge/image":  "captchamode captchamode/challenge",
	"captchamode/challenge/pow":    "captchamode captchamode/challenge internal/seal",
	"captchamode/challenge/remote": "captchamode captchamode/challenge internal/seal",

	// The policy and the order of things.
	"guard":            counted + " internal/times",
	"guard/redisguard": below,

	// What no other program imports: stores, accounts, lists, alerts.
	"internal/accounts":   below,
	"internal/alerts":     below,
	"internal/attacks":    below,
	"internal/audit":      below,
	"internal/background": "",
	"internal/config":     below,
	"internal/control":    below,
	"internal/counters":   below,
	"internal/database":   below + " migrations",
	"internal/doctor":     below,
	"internal/events":     below,
	"internal/metrics":    below,
	"internal/mfa":        below,
	"internal/known":      below,
	"internal/learn":      below,
	"internal/lists":      below,
	"internal/nodes":      below,
	"internal/operation":  "internal/times",
	"internal/outbox":     below,
	"internal/codes":      below,
	"internal/passwords":  below,
	"internal/policy":     below,
	"internal/redisstore": below,
	"internal/replay":     below,
	"internal/route":      below,
	"internal/seal":       "",
	"internal/sessions":   below,
	"internal/simulate":   below,
	"internal/times":      "",
	"migrations":          "",

	// The doors.
	"web/texts":  "guard",
	"web/pages":  below + " web/texts",
	"web/static": "captchamode/challenge/image web/texts",
	"web/client": "guard",
	"web":        below + " web/client web/pages web/static web/texts",
	"web/proxy":  below + " web web/client web/pages web/static",
	"web/mw":     "guard captchamode/challenge captchamode/challenge/image internal/route web/client web/static web/texts",
	"web/admin":  below + " web web/client web/pages web/static",

	// Everything is wired together here.
	"cmd/authguard": below + " migrations web web/",

	// Only tests import these.
	"captchamode/challenge/challengetest":  helper,
	"captchamode/challenge/image/readrate": helper,
	"failures/failurestest":                helper,
	"trusted/trustedtest":                  helper,
	"internal/testing/clocktest":           helper,
	"internal/testing/apitest":             helper,
	"internal/testing/browsertest":         helper,
	"internal/testing/appstest":            helper,
	"internal/database/databasetest":       helper,
	"internal/testing/doctest":             helper,
	"internal/testing/ldaptest":            helper,
	"internal/testing/mailtest":            helper,
	"internal/testing/passkeytest":         helper,
	"internal/testing/postgrestest":        helper,
	"internal/testing/redistest":           helper,
	"internal/testing/world":               helper,
	"deploy":                               helper,
}

const (
	counted = "failures trusted captchamode captchamode/ internal/seal"
	below   = counted + " guard internal/"
	helper  = "helper"
)

// A listed package is what `go list` says about one of ours.
type listed struct {
	ImportPath, Dir  string
	GoFiles, Imports []string
}

func (p listed) name() string { return strings.TrimPrefix(p.ImportPath, "authguard/") }
func (p listed) excluded() bool {
	return mayImport[p.name()] == helper
}

func goList(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		t.Fatalf("go list: %s", failed.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	return out
}

// packages are all of ours but those without any code apart from tests.
func packages(t *testing.T) (all []listed) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(goList(t, "-json=ImportPath,Dir,GoFiles,Imports", "./..."))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 {
			all = append(all, p)
		}
	}
}

func TestImportsRunOneWay(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		may, known := mayImport[p.name()]
		if !known {
			t.Errorf("%s is not in the table of imports_test.go", p.name())
		}
		if p.excluded() {
			continue
		}
		for _, path := range p.Imports {
			other, ours := strings.CutPrefix(path, "authguard/")
			if !ours {
				continue
			}
			if mayImport[other] == helper || !slices.ContainsFunc(strings.Fields(may), func(allowed string) bool {
				return other == allowed || strings.HasSuffix(allowed, "/") && strings.HasPrefix(other, allowed)
			}) {
				t.Errorf("%s imports %s", p.name(), other)
			}
		}
	}
}

func TestGuardWithMemoryStoresLinksNoServersLibraries(t *testing.T) {
	t.Parallel()
	for dep := range strings.FieldsSeq(string(goList(t, "-deps", "authguard/guard"))) {
		for _, heavy := range []string{"redis", "labstack/echo", "database/sql", "dchest/captcha", "sqlite", "net/http", "authguard/internal"} {
			light := strings.HasPrefix(dep, "vendor/") || dep == "authguard/internal/times" || dep == "authguard/internal/seal"
			if strings.Contains(dep, heavy) && !light {
				t.Errorf("authguard/guard links %s", dep)
			}
		}
	}
}

// A Go program that protects its own handler links no framework of ours.
func TestMiddlewareLinksNoServersLibraries(t *testing.T) {
	t.Parallel()
	for dep := range strings.FieldsSeq(string(goList(t, "-deps", "authguard/web/mw"))) {
		for _, heavy := range []string{"redis", "labstack/echo", "database/sql", "sqlite", "pgx", "scs"} {
			if strings.Contains(dep, heavy) {
				t.Errorf("authguard/web/mw links %s", dep)
			}
		}
	}
}
