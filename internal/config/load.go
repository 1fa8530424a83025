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

// Loaded is a valid Config with the origin of each value.
type Loaded struct {
	Config
	// origins of settings that differ from the default, including list items and their fields
	origins map[string]Origin
}

// Load reads the settings: the defaults, overridden by the file at path, overridden by environ, in the form of
// [os.Environ]. An empty path means no file; otherwise the file must exist. The error holds every problem; see
// [Problems].
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

// Parse is Load for a file's content; messages call it name.
func Parse(name string, data []byte, environ []string) (*Loaded, error) {
	return new(loader).load(name, data, environ)
}

type loader struct {
	file     string
	loaded   *Loaded
	settings []setting
	realms   postponed
	problems invalid
	known    invalid // problems before validation
}

func (l *loader) load(name string, data []byte, environ []string) (*Loaded, error) {
	l.file, l.loaded = name, &Loaded{Config: Default(), origins: map[string]Origin{}}
	l.settings = settings(&l.loaded.Config)
	l.readFile(data)
	// The file must be valid even where a variable overrides it.
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

// Prefix starts the name of every variable that is a setting.
const Prefix = "AUTHGUARD_"

// FileVariable names the settings file for the commands. It is not a setting and is ignored here.
const FileVariable = Prefix + "CONFIG"

// serviceVariable matches variables that Kubernetes and Docker links set in containers beside a service named authguard
// or authguard-*. Rejecting them would be an outage for no reason.
var serviceVariable = regexp.MustCompile(`^[A-Z0-9_]+_(SERVICE_HOST=|SERVICE_PORT(_[A-Z0-9_]+)?=|` +
	`PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=|PORT=(tcp|udp|sctp)://)`)

// variable returns AUTHGUARD_CAPTCHA_MODE_COOL_DOWN for captcha_mode.cool_down.
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

// override sets a setting from a variable and discards the file's value.
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

// text sets a single value, or a limit written as one text.
func (l *loader) text(from Origin, s setting, text string) {
	if s.at.Type() == eventLimitType {
		l.eventLimit(from, s, text)
		return
	}
	if s.at.Type() != limitType {
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
	m := limitSyntax.FindStringSubmatch(text)
	if m == nil {
		l.problem(from, s.path, "must be like 10/1m challenge, not %.60q", text)
		return
	}
	for i, part := range fields(s)[:3] {
		l.text(from, part, cmp.Or(m[i+1], guard.Challenge.String())) // the default action
	}
	s.at.FieldByName("Monitor").SetBool(m[4] != "")
}
