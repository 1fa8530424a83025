package config

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Prefix begins the name of every variable that is a setting.
const Prefix = "AUTHGUARD_"

// FileVariable names the settings file for the commands. It is not a setting
// and is ignored here.
const FileVariable = Prefix + "CONFIG"

// variable is the name for a key: AUTHGUARD_SITE_COOL_DOWN for site.cool_down.
func variable(path string) string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// Kubernetes and Docker's links put these into every container beside a
// service called authguard or authguard-something. Refusing to start over them
// would be an outage that nobody caused.
var (
	serviceName = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	servicePort = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

func isService(name, text string) bool {
	return serviceName.MatchString(name) || strings.HasSuffix(name, "_PORT") && servicePort.MatchString(text)
}

// applyEnvironment sets keys from variables, in the order of their names.
func (l *loading) applyEnvironment(environ []string) {
	environ = slices.Clone(environ)
	slices.Sort(environ)
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, Prefix) && name != FileVariable {
			l.applyVariable(name, text)
		}
	}
}

func (l *loading) applyVariable(name, text string) {
	i := slices.IndexFunc(l.keys, func(k key) bool { return k.variable() == name })
	switch {
	case i < 0 && isService(name, text):
	case i < 0:
		l.problem(Problem{Source: name, Text: "unknown variable" + l.suggestVariable(name)})
	case !utf8.ValidString(text):
		l.problem(Problem{Source: name, Path: l.keys[i].path, Text: "is not UTF-8 text"})
	default:
		l.set(l.keys[i], text, name)
	}
}

func (l *loading) set(k key, text, name string) {
	faults := under(k.path, k.value.set(k.value.split(text)))
	for _, f := range faults {
		l.problem(Problem{Source: name, Path: f.path, Text: f.text})
	}
	if len(faults) == 0 {
		l.loaded.origins[k.path] = Origin{Source: name}
	}
}

func (l *loading) suggestVariable(name string) string {
	names := []string{FileVariable}
	for _, k := range l.keys {
		names = append(names, k.variable())
	}
	// Only the part after the prefix counts, or every short name would be near
	// every other.
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], Prefix)
	}
	if best := nearest(strings.TrimPrefix(name, Prefix), names); best != "" {
		return "; did you mean " + Prefix + best + "?"
	}
	return ""
}
