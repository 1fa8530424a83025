package config

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"authguard/guard"
	"authguard/internal/times"
)

type setting struct {
	path string
	at   reflect.Value
	tag  reflect.StructTag
	live bool // reloadable
}

var (
	hump        = regexp.MustCompile(`([a-z])([A-Z])`)
	isPath      = regexp.MustCompile(`(^|\.)(data|database|file|htpasswd|keys_file|logo|texts|tls_(ca|cert|key))$`)
	limitType   = reflect.TypeFor[guard.Limit]()
	limitSyntax = regexp.MustCompile(`^\s*([^/\s]+)/(\S+)(?:\s+(\S+))??(\s+monitor)?\s*$`)
	// alwaysPattern is a list's limit that applies without failures: "0 challenge".
	alwaysPattern = regexp.MustCompile(`^\s*0\s+(\S+)(\s+monitor)?\s*$`)
)

func settings(c *Config) []setting { return fields(setting{at: reflect.ValueOf(c).Elem()}) }

func fields(section setting) []setting {
	var all []setting
	for i := range section.at.NumField() {
		f := section.at.Type().Field(i)
		s := setting{path: section.path, at: section.at.Field(i), tag: f.Tag}
		s.live = section.live || f.Tag.Get("reload") == "live"
		if key := cmp.Or(f.Tag.Get("key"), strings.ToLower(hump.ReplaceAllString(f.Name, "${1}_$2"))); key != "." {
			s.path = join(section.path, key)
		}
		if s.at.Kind() == reflect.Struct && !plainText(s.at.Type()) {
			all = append(all, fields(s)...)
		} else {
			all = append(all, s)
		}
	}
	return all
}

// plainText reports whether values of a struct's type are written as one text, such as a network.
func plainText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func (s setting) key() string { return s.path[strings.LastIndexByte(s.path, '.')+1:] }

// section reports whether the setting, or each item of it, has keys of its own. Only the file can set those.
func (s setting) section() bool {
	t := s.at.Type()
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && !plainText(t) && !(setting{at: reflect.New(t).Elem()}).limit()
}

// limit reports whether the setting is a limit, which may be written as one text.
func (s setting) limit() bool { return s.at.Type() == limitType || s.at.Type() == eventLimitType }

// part reports whether the setting is a ratio, which may be written as 33%.
func (s setting) part() bool { return s.tag.Get("unit") == "part" }

// resize replaces the list by n zero items and returns them. An empty list is always nil.
func (s setting) resize(n int) []setting {
	s.at.SetZero()
	if n > 0 {
		s.at.Set(reflect.MakeSlice(s.at.Type(), n, n))
	}
	items := make([]setting, n)
	for i := range items {
		items[i] = setting{path: fmt.Sprintf("%s[%d]", s.path, i), at: s.at.Index(i)}
	}
	return items
}

// set parses a single value. Its error does not repeat text, which may be a secret.
func (s setting) set(text string) (err error) {
	var want string
	switch to := s.at.Addr().Interface().(type) {
	case *int:
		want = "a whole number"
		*to, err = strconv.Atoi(text)
	case *float64:
		want = "a number"
		whole, percent := strings.CutSuffix(text, "%")
		if *to, err = strconv.ParseFloat(whole, 64); percent && s.part() {
			*to /= 100
		} else if percent {
			err = strconv.ErrSyntax
		}
	case *bool:
		want = "true or false" // not YAML 1.1's other booleans
		if *to = text == "true"; !*to && text != "false" {
			err = strconv.ErrSyntax
		}
	case *Size:
		want = "a size such as 512KiB, 256MiB or 2GiB"
		*to, err = parseSize(text)
	case *guard.Action:
		return setAction(to, text, s.path)
	case *guard.SubjectKind:
		*to, err = wordOf(text, eventSubjects)
		return err
	case *time.Duration:
		*to, err = times.ParseDuration(text)
	case *netip.Prefix:
		*to, err = parseNetwork(text)
	case encoding.TextUnmarshaler:
		err = to.UnmarshalText([]byte(text))
	default:
		s.at.SetString(text)
		if below, home := strings.CutPrefix(text, "~/"); home && isPath.MatchString(s.path) {
			folder, _ := os.UserHomeDir() // empty: the message falls back to root's
			return fmt.Errorf("must not begin with ~, which only a shell expands: write %s", path.Join(cmp.Or(folder, "/root"),
				below))
		}
		err = checkText(text, s.tag.Get("text") == "lines")
	}
	if err != nil && want != "" {
		return fmt.Errorf("must be %s, not %.60q", want, text)
	}
	return err
}

func checkText(text string, lines bool) error {
	if !lines && strings.ContainsAny(text, "\r\n") {
		return errors.New("must be on one line")
	}
	if strings.ContainsFunc(text, isJunk) {
		return errors.New("must be UTF-8 text without control characters")
	}
	return nil
}

// isJunk reports whether r is invalid in a text.
func isJunk(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\t'
}

// show formats the setting as in a variable, or as "(set)" for a secret. For items with keys of their own it shows the
// first key.
func (s setting) show() string {
	if s.part() {
		return strconv.FormatFloat(100*s.at.Float(), 'g', 4, 64) + "%"
	}
	if s.at.Kind() != reflect.Slice {
		return show(s.at.Interface())
	}
	parts := make([]string, s.at.Len())
	for i := range parts {
		if one, ok := s.at.Index(i).Interface().(Event); ok {
			parts[i] = one.String()
			continue
		}
		if s.section() {
			parts[i] = fields(setting{at: s.at.Index(i)})[0].show()
			continue
		}
		parts[i] = show(s.at.Index(i).Interface())
		if parts[i] == hidden {
			return hidden
		}
	}
	return strings.Join(parts, ", ")
}

func show(value any) string {
	switch v := value.(type) {
	case time.Duration:
		return times.FormatDuration(v)
	case guard.Limit:
		text := fmt.Sprintf("%d/%s %s", v.Failures, times.FormatDuration(v.Window), v.Action)
		if v.Failures == 0 && v.Window == 0 {
			text = "0 " + v.Action.String()
		}
		if v.Monitor {
			text += " monitor"
		}
		return text
	case guard.EventLimit:
		text := fmt.Sprintf("%d/%s %s by %s", v.Count, times.FormatDuration(v.Window), v.Action, v.By)
		if v.Monitor {
			text += " monitor"
		}
		return text
	default:
		return fmt.Sprint(v)
	}
}

// Setting is one value for display.
type Setting struct {
	Path   string `json:"path"`
	Value  string `json:"value"`  // as written in a variable; "(set)" for a secret
	Origin string `json:"origin"` // "default", "authguard.yaml:12" or "AUTHGUARD_LISTEN"
	Live   bool   `json:"live"`   // reloadable
}

// Effective lists every setting in the order of [Config]. The settings of each realm follow realms.
func (l *Loaded) Effective() []Setting {
	var all []Setting
	for _, s := range settings(&l.Config) {
		all = append(all, Setting{s.path, s.show(), l.origins[s.path].String(), s.live})
		if s.at.Type() != realmsType {
			continue
		}
		for i := range l.Realms {
			at := fmt.Sprintf("%s[%d]", s.path, i)
			for _, own := range fields(setting{path: at, at: s.at.Index(i)}) {
				from, set := l.origins[own.path]
				if !set { // inherited
					from = l.origins[strings.TrimPrefix(own.path, at+".")]
				}
				all = append(all, Setting{own.path, own.show(), from.String(), own.live})
			}
		}
	}
	return all
}

// Notes returns warnings about the configured limits, the default realm's first: monitoring mode, and those of
// [guard.Policy.Notes]. Defaults have none.
func (l *Loaded) Notes() (notes []string) {
	add := func(at, name string, policy guard.Policy) {
		for _, note := range policy.Notes() {
			limitSet, _, _ := strings.Cut(note.Path, "[")
			if _, set := l.origins[at+limitSet]; set {
				notes = append(notes, name+note.Error())
			}
		}
	}
	monitored := func(name string, monitor bool) {
		if monitor {
			notes = append(notes, name+"monitor: true: NOTHING IS ENFORCED. Limits, lists, events and CAPTCHA mode are "+
				"logged and reported only; set monitor: false, or run authguard limit enforce all")
		}
	}
	monitored("", l.Monitor)
	add("", "", l.Policy())
	for i, r := range l.Realms {
		monitored("realms."+r.Name+".", r.Monitor)
		add(fmt.Sprintf("realms[%d].", i), "realms."+r.Name+".", l.In(r).Policy())
	}
	return notes
}

// Diff lists the settings that differ, in the order of [Config]. A running service can adopt reloadable on reload, even if
// needsRestart is not empty.
//
// Limits are reloadable because counters keep times, not verdicts: new limits apply to old failures.
func Diff(old, new Config) (reloadable, needsRestart []string) {
	return differ(settings(&old), settings(&new))
}

func differ(before, after []setting) (reloadable, needsRestart []string) {
	for i, s := range after {
		switch {
		case s.at.Type() == realmsType:
			live, restart := diffRealms(before[i].at.Interface().([]Realm), s.at.Interface().([]Realm))
			reloadable, needsRestart = append(reloadable, live...), append(needsRestart, restart...)
		case reflect.DeepEqual(before[i].at.Interface(), s.at.Interface()):
		case s.live:
			reloadable = append(reloadable, s.path)
		default:
			needsRestart = append(needsRestart, s.path)
		}
	}
	return reloadable, needsRestart
}
