package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"authguard/guard"
)

// Loaded is a valid Config, and where its values came from.
type Loaded struct {
	Config
	// origins of the settings that are not at their default, of their lists'
	// items and of the fields of those.
	origins map[string]Origin
}

// Load reads the settings: the defaults, overridden by the file at path,
// overridden by the variables in environ, which is like [os.Environ]. With an
// empty path there is no file; otherwise the file must exist.
//
// The error holds everything that is wrong; see [Problems].
func Load(path string, environ []string) (*Loaded, error) {
	if path == "" {
		return Parse("", nil, environ)
	}
	var l loader
	data, err := os.ReadFile(path)
	if err != nil {
		l.problem(Origin{Source: path}, "", "cannot be read: %v", errors.Unwrap(err))
	}
	return l.load(path, data, environ)
}

// Parse is Load for a file's content; name stands for it in messages.
func Parse(name string, data []byte, environ []string) (*Loaded, error) {
	return new(loader).load(name, data, environ)
}

// A loader is a Loaded in the making, and what is wrong with it so far.
type loader struct {
	file     string
	loaded   *Loaded
	settings []setting
	realms   postponed
	problems invalid
	known    invalid // before validation
}

func (l *loader) load(name string, data []byte, environ []string) (*Loaded, error) {
	l.file, l.loaded = name, &Loaded{Config: Default(), origins: map[string]Origin{}}
	l.settings = settings(&l.loaded.Config)
	l.readFile(data)
	// What the file says must be right even where a variable overrides it.
	l.validate()
	l.readEnvironment(environ)
	l.validate()
	l.conflicts()
	l.readRealms()
	if len(l.problems) > 0 {
		return nil, l.problems.sorted()
	}
	return l.loaded, nil
}

func (l *loader) problem(from Origin, path, format string, args ...any) {
	l.problems = append(l.problems, Problem{path, from, fmt.Sprintf(format, args...)})
}

// Prefix begins the name of every variable that is a setting.
const Prefix = "AUTHGUARD_"

// FileVariable names the settings file for the commands. It is not a setting
// and is ignored here.
const FileVariable = Prefix + "CONFIG"

// Kubernetes and Docker's links set these variables in every container next to
// a service called authguard or authguard-something. Refusing to start because
// of them would be an outage for no reason.
var serviceVariable = regexp.MustCompile(`^[A-Z0-9_]+_(SERVICE_HOST=|SERVICE_PORT(_[A-Z0-9_]+)?=|` +
	`PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=|PORT=(tcp|udp|sctp)://)`)

// variable is AUTHGUARD_CAPTCHA_MODE_COOL_DOWN for captcha_mode.cool_down.
func (s setting) variable() string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(s.path, ".", "_"))
}

func (l *loader) readEnvironment(environ []string) {
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		i := slices.IndexFunc(l.settings, func(s setting) bool { return s.variable() == name })
		switch {
		case i >= 0:
			l.override(Origin{Source: name}, l.settings[i], text)
		case strings.HasPrefix(name, Prefix) && name != FileVariable && !serviceVariable.MatchString(entry):
			names := []string{FileVariable}
			for _, s := range l.settings {
				names = append(names, s.variable())
			}
			l.problem(Origin{Source: name}, "", "unknown variable%s", didYouMean(name, names))
		}
	}
}

// override sets a setting from a variable, whatever the file said.
func (l *loader) override(from Origin, s setting, text string) {
	maps.DeleteFunc(l.loaded.origins, func(path string, _ Origin) bool { return partOf(path, s.path) })
	l.loaded.origins[s.path] = from
	if s.at.Type() == realmsType {
		l.realms = postponed{}
	}
	if s.section() && strings.TrimSpace(text) != "" {
		l.problem(from, s.path, "has nested keys: set it in the file")
		return
	}
	if s.at.Kind() != reflect.Slice {
		l.text(from, s, text)
		return
	}
	separators := cmp.Or(s.tag.Get("split"), ", \t\r\n")
	parts := strings.FieldsFunc(strings.TrimSpace(text), func(r rune) bool { return strings.ContainsRune(separators, r) })
	for i, item := range s.resize(len(parts)) {
		l.text(from, item, parts[i])
	}
}

// text sets a single value, or a limit that is written as one.
func (l *loader) text(from Origin, s setting, text string) {
	if s.at.Type() == eventLimitType {
		l.eventLimit(from, s, text)
		return
	}
	if s.at.Type() != rungType {
		if err := s.set(text); err != nil {
			l.problem(from, s.path, "%s", err)
		}
		return
	}
	if m := alwaysPattern.FindStringSubmatch(text); m != nil && strings.Contains(s.path, "lists[") {
		l.text(from, fields(s)[2], m[1])
		s.at.FieldByName("Monitor").SetBool(m[2] != "")
		return
	}
	m := rungPattern.FindStringSubmatch(text)
	if m == nil {
		l.problem(from, s.path, "must be like 10/1m challenge, not %.60q", text)
		return
	}
	for i, part := range fields(s)[:3] {
		l.text(from, part, cmp.Or(m[i+1], guard.Challenge.String())) // an action that is left out
	}
	s.at.FieldByName("Monitor").SetBool(m[4] != "")
}
