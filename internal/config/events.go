package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"authguard/guard"
)

// Event is a named event other than a login, with its limits. Package guard validates both.
type Event struct {
	Name   string
	Limits []guard.EventLimit
}

// String is the event as written in the file, on one line.
func (e Event) String() string {
	limits := make([]string, len(e.Limits))
	for i, l := range e.Limits {
		limits[i] = show(l)
	}
	return e.Name + ": [" + strings.Join(limits, ", ") + "]"
}

func eventsOf(all []Event) map[string][]guard.EventLimit {
	if len(all) == 0 {
		return nil
	}
	limits := make(map[string][]guard.EventLimit, len(all))
	for _, e := range all {
		limits[e.Name] = e.Limits
	}
	return limits
}

var (
	eventsType     = reflect.TypeFor[[]Event]()
	eventLimitType = reflect.TypeFor[guard.EventLimit]()
	eventPattern   = regexp.MustCompile(`^\s*([^/\s]+)/(\S+)\s+(\S+)\s+by\s+(\S+)(\s+monitor)?\s*$`)
	actions        = map[string]guard.Action{"challenge": guard.Challenge, "block": guard.Block,
		"fake-failure": guard.FakeFailure}
	identityActions = map[string]guard.Action{"challenge": guard.Challenge, "alert": guard.Alert}
	siteActions     = map[string]guard.Action{"block": guard.Block, "fake-failure": guard.FakeFailure}
	clientActions   = map[string]guard.Action{"challenge": guard.Challenge, "forget": guard.Forget}
	eventActions    = map[string]guard.Action{"block": guard.Block, "challenge": guard.Challenge, "delay": guard.Delay,
		"alert": guard.Alert}
	eventSubjects = map[string]guard.SubjectKind{
		"account": guard.OnAccount, "address": guard.OnAddress, "network": guard.OnNetwork, "subject": guard.OnSubject,
		"site": guard.OnSite,
	}
)

const anEvent = "must be events and their limits, such as password-reset: [5/1h block by account]"

func (l *loader) events(n ast.Node, s setting) {
	if list, ok := n.(*ast.SequenceNode); ok && len(list.Values) == 0 {
		s.at.SetZero()
		return
	}
	m, ok := n.(ast.MapNode)
	if !ok {
		l.problem(l.at(n), s.path, anEvent+", not %s", kindOf(n))
		return
	}
	var all []Event // sorted by name: the order has no meaning
	seen := map[string]int{}
	for pairs := m.MapRange(); pairs.Next(); {
		name, _, _ := scalar(pairs.Key())
		path, from := join(s.path, name), l.at(pairs.Key())
		items, isList := []ast.Node{pairs.Value()}, true
		if list, several := pairs.Value().(*ast.SequenceNode); several {
			items = list.Values
		} else if _, _, one := scalar(pairs.Value()); !one {
			isList = false
		}
		switch {
		case !namePattern.MatchString(name):
			l.problem(from, s.path, "has a key that is not a name: "+anEvent)
			continue
		case seen[name] > 0:
			l.problem(from, path, "is already set on line %d", seen[name])
			continue
		case !isList:
			l.problem(from, path, "must be a list of limits such as [5/1h block by account], not %s", kindOf(pairs.Value()))
			continue
		}
		seen[name], l.loaded.origins[path] = from.Line, from
		limits := setting{path: path, at: reflect.New(reflect.SliceOf(eventLimitType)).Elem()}
		for i, item := range limits.resize(len(items)) {
			l.value(items[i], l.at(items[i]), item)
		}
		all = append(all, Event{name, limits.at.Interface().([]guard.EventLimit)})
	}
	slices.SortFunc(all, func(a, b Event) int { return strings.Compare(a.Name, b.Name) })
	s.at.Set(reflect.ValueOf(all))
}

// eventLimit sets a limit written as one text.
func (l *loader) eventLimit(from Origin, s setting, text string) {
	m := eventPattern.FindStringSubmatch(text)
	if m == nil {
		l.problem(from, s.path, "must be like 5/1h block by account, not %.60q", text)
		return
	}
	for i, part := range fields(s)[:4] {
		l.text(from, part, m[i+1])
	}
	s.at.FieldByName("Monitor").SetBool(m[5] != "")
}

// setAction parses an action that is allowed for the limit at path.
func setAction(to *guard.Action, text, path string) (err error) {
	*to, err = wordOf(text, actionsAt(path))
	if instead := actionSynonyms[text]; err != nil && instead != "" {
		return fmt.Errorf("%w: write %s", err, instead)
	}
	return err
}

func actionsAt(path string) map[string]guard.Action {
	switch {
	case partOf(path[max(0, strings.Index(path, "events.")):], "events"):
		return eventActions
	case strings.Contains(path, "limits.fingerprint["):
		return identityActions
	case strings.Contains(path, "limits.site["):
		return siteActions
	case strings.Contains(path, "limits.known_client["):
		return clientActions
	}
	return actions
}

// wordOf looks up a word. Its error lists the words and suggests the nearest.
func wordOf[T any](text string, words map[string]T) (found T, err error) {
	found, ok := words[text]
	if !ok {
		known := slices.Sorted(maps.Keys(words))
		last := len(known) - 1
		err = fmt.Errorf("must be %s or %s, not %.60q%s", strings.Join(known[:last], ", "), known[last], text,
			didYouMean(text, known))
	}
	return found, err
}
