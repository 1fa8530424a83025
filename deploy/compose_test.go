// Package deploy_test holds what deploy/ promises, as far as that can be done
// without Docker: the compose file is read as Compose reads it, the image's
// steps are taken into a folder, and the site runs for real, each node in such
// a folder, behind a real nginx, over a real Redis and PostgreSQL.
package deploy_test

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"authguard/internal/config"
	"authguard/internal/testing/doctest"
	"authguard/internal/testing/postgrestest"
)

func TestMain(m *testing.M) {
	code := postgrestest.Run(m)
	_ = os.RemoveAll(built)
	os.Exit(code)
}

type composed struct {
	Services map[string]service
	Networks map[string]struct{ Internal bool }
}

type service struct {
	Environment map[string]string
	Ports       []string
	Command     []string
	ReadOnly    bool `yaml:"read_only"`
	Networks    map[string]struct {
		Address string `yaml:"ipv4_address"`
	}
}

// secretsOf a site, as .env would have them.
var secretsOf = map[string]string{"POSTGRES_PASSWORD": "0123456789abcdef", "REDIS_PASSWORD": "fedcba9876543210"}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// compose reads compose.yaml with these variables.
func compose(t *testing.T, variables map[string]string) composed {
	t.Helper()
	text, missing := interpolate(read(t, "compose.yaml"), variables)
	if len(missing) > 0 {
		t.Fatalf("compose.yaml needs %v", missing)
	}
	var c composed
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// reference is ${NAME:?why}, ${NAME:-default} or $$.
var reference = regexp.MustCompile(`\$\$|\$\{(\w+)(?::([?-])([^}]*))?\}`)

// interpolate does what Compose does, and tells what is required and missing.
func interpolate(text string, variables map[string]string) (done string, missing []string) {
	done = reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		parts := reference.FindStringSubmatch(found)
		name, kind, rest := parts[1], parts[2], parts[3]
		switch value := variables[name]; {
		case value != "":
			return value
		case kind == "?":
			missing = append(missing, name)
		case kind == "-":
			return rest
		}
		return ""
	})
	return done, missing
}

func nodesOf(c composed) map[string]service {
	nodes := maps.Clone(c.Services)
	maps.DeleteFunc(nodes, func(name string, _ service) bool { return !strings.HasPrefix(name, "node") })
	return nodes
}

func environ(variables map[string]string) (all []string) {
	for name, value := range variables {
		all = append(all, name+"="+value)
	}
	return all
}

func TestComposeDoesNotStartWithoutPasswords(t *testing.T) {
	t.Parallel()
	_, missing := interpolate(read(t, "compose.yaml"), nil)
	for name := range secretsOf {
		if !slices.Contains(missing, name) {
			t.Errorf("without %s it starts", name)
		}
		if !strings.Contains(read(t, ".env.example"), "\n"+name+"=\n") {
			t.Errorf(".env.example does not leave %s open", name)
		}
	}
}

// Docker itself is not here: the files, the services and the program's own commands are.
func TestTheDocsDockerCommandsAreOfTheComposeFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.Command("cp", "-a", ".", dir+"/deploy").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	typed := exec.Command("bash", "-eu", "-o", "pipefail", "-c", `docker() { echo "$@" >>said; echo temporary; }
`+doctest.Claimed(t, "docs/how-to/several-nodes.md")[0].Text)
	typed.Dir = dir
	if out, err := typed.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	services, i := compose(t, secretsOf).Services, theImage(t)
	for line := range strings.Lines(read(t, dir+"/said")) {
		words := strings.Fields(line)
		if _, err := os.Stat(filepath.Join(dir, words[2])); err != nil || words[0] != "compose" || words[1] != "-f" {
			t.Errorf("%s: %v", line, err)
		}
		if one := words[4]; words[3] != "up" && services[one].Command == nil && services[one].Environment == nil {
			t.Errorf("%s: no such service", line)
		}
		if words[3] == "exec" {
			if out, err := i.command(environ(i.env), append(words[6:], "--help")...).CombinedOutput(); err != nil || words[5] != "authguard" {
				t.Errorf("%s: %v %s", line, err, out)
			}
		}
	}
}

func TestNoPasswordIsInTheComposeFile(t *testing.T) {
	t.Parallel()
	var raw composed
	if err := yaml.Unmarshal([]byte(read(t, "compose.yaml")), &raw); err != nil {
		t.Fatal(err)
	}
	password := regexp.MustCompile(`://[^:@/]*:([^@/]*)@`)
	for name, one := range raw.Services {
		for key, value := range one.Environment {
			if in := password.FindStringSubmatch(value); in != nil {
				value = in[1]
			} else if !regexp.MustCompile(`PASSWORD|TOKENS|ALERTS_TO`).MatchString(key) {
				continue
			}
			if reference.ReplaceAllString(value, "") != "" {
				t.Errorf("%s: %s holds a secret", name, key)
			}
		}
		for _, line := range strings.Split(strings.Join(one.Command, "\n"), "\n") {
			if given, ok := strings.CutPrefix(line, "requirepass "); ok && given != "$$REDIS_PASSWORD" {
				t.Errorf("%s: a password in its command", name)
			}
		}
	}
}

func TestEveryVariableOfTheNodesIsASetting(t *testing.T) {
	t.Parallel()
	c := compose(t, secretsOf)
	nginx := netip.MustParseAddr(c.Services["nginx"].Networks["front"].Address)
	if len(nodesOf(c)) != 2 {
		t.Fatalf("%d nodes, want 2", len(nodesOf(c)))
	}
	conf := read(t, "nginx.conf")
	for name, one := range nodesOf(c) {
		loaded, err := config.Load("", environ(one.Environment))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.Equal(loaded.TrustedProxies, []netip.Prefix{netip.PrefixFrom(nginx, 32)}) {
			t.Errorf("%s believes %v, want nginx (%v) alone", name, loaded.TrustedProxies, nginx)
		}
		if loaded.Database == "" || !loaded.Redis.On() || loaded.KeysFile == "" {
			t.Errorf("%s shares nothing", name)
		}
		if !one.ReadOnly {
			t.Errorf("%s can write to its own program", name)
		}
		if !strings.Contains(conf, fmt.Sprintf("server %s:8080 ", one.Networks["front"].Address)) {
			t.Errorf("nginx does not know %s", name)
		}
	}
	full := maps.Clone(secretsOf)
	maps.Copy(full, map[string]string{
		"ORIGIN": "https://login.example.org", "API_TOKENS": strings.Repeat("a", 32) + "," + strings.Repeat("b", 32),
		"ALERTS_TO": "ntfy://ntfy.sh/one generic+https://hooks.example.org/two",
	})
	loaded, err := config.Load("", environ(compose(t, full).Services["node1"].Environment))
	if err != nil || len(loaded.API.Tokens) != 2 || len(loaded.Alerts.To) != 2 {
		t.Errorf("with everything in .env: %v", err)
	}
}

func TestOnlyNginxIsADoor(t *testing.T) {
	t.Parallel()
	c := compose(t, secretsOf)
	for name, one := range c.Services {
		for _, port := range one.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s is published as %s, beyond this machine", name, port)
			}
			if name != "nginx" && !strings.HasSuffix(port, ":8081") {
				t.Errorf("%s is published as %s, beside nginx", name, port)
			}
		}
		if _, front := one.Networks["front"]; front && (name == "redis" || name == "postgres") {
			t.Errorf("%s is on nginx's network", name)
		}
	}
	if _, back := c.Services["nginx"].Networks["back"]; back || !c.Networks["back"].Internal {
		t.Error("the network of Redis and PostgreSQL is open")
	}
}
