package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/alecthomas/kong"

	"authguard/internal/control"
	"authguard/internal/policy"
	"authguard/internal/times"
)

// operationCmd is a command of the table of operations.
type operationCmd struct {
	kong.Plugins  // the flags
	*tableCommand `kong:"-"`
}

// tableCommand is a command with its operation and flags.
type tableCommand struct {
	control.Command
	operation control.Operation
	flags     any
	realm     realmFlag
}

// addOperations adds the commands of the table to the command line.
func (l *commandLine) addOperations(all []control.Operation) {
	groups := map[string]*kong.Plugins{"user": &l.User.Plugins, "admin": &l.Admin.Plugins, "token": &l.Token.Plugins,
		"ip": &l.IP.Plugins, "captcha": &l.Captcha.Plugins, "limit": &l.Limit.Plugins, "": &l.limitsCommands.Plugins}
	for _, o := range all {
		for _, command := range o.Commands {
			group, name, found := strings.Cut(command.Name, " ")
			if !found {
				group, name = "", command.Name
			}
			*groups[group] = append(*groups[group], asField(o, command, name))
		}
	}
}

// asField returns a pointer to a struct whose only field is the command, as package kong wants it.
func asField(o control.Operation, command control.Command, name string) any {
	one := &tableCommand{Command: command, operation: o, flags: o.Request()}
	if command.Flags != nil {
		one.flags = command.Flags()
	}
	flags := kong.Plugins{one.flags}
	if o.Where == control.OneRealm || o.Where == control.NamedRealm {
		flags = append(flags, &one.realm)
	}
	tag := fmt.Sprintf(`cmd:"" name:%q help:%q example:%q`, name, command.Help, command.Example)
	holder := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "Command",
		Type: reflect.TypeFor[operationCmd](), Tag: reflect.StructTag(tag)}}))
	holder.Elem().Field(0).Set(reflect.ValueOf(operationCmd{Plugins: flags, tableCommand: one}))
	return holder.Interface()
}

// Validate implements kong.Validatable for the flags.
func (c operationCmd) Validate() error {
	if flags, ok := c.flags.(interface{ Validate() error }); ok {
		return flags.Validate()
	}
	return nil
}

// Run sends the request and prints the answer in words.
func (c operationCmd) Run(g *globals) error {
	fields, err := c.fields()
	if err != nil {
		return err
	}
	if reason, _ := fields["reason"].(string); c.Reason && strings.TrimSpace(reason) == "" {
		return errors.New(`missing --reason "…" (recorded in the audit log)`)
	}
	method, path, _ := strings.Cut(c.operation.Route, " ")
	query, question := c.realm.query(), any(fields)
	if method == http.MethodDelete {
		question = nil
		for name, value := range fields {
			query.Set(name, fmt.Sprint(value))
		}
	}
	answer := map[string]any{}
	return g.show(method, "/api"+path, query, question, &answer, func() error {
		words, err := template.New("").Funcs(templateFuncs).Parse(c.Says + "\n")
		if err != nil {
			return err
		}
		return words.Execute(g.out, map[string]any{"Q": c.flags, "A": answer})
	})
}

// fields returns the request's fields, as in JSON.
func (c operationCmd) fields() (all map[string]any, err error) {
	text, err := json.Marshal(c.flags)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	for name, value := range c.Set {
		if all[name] = value; value == "true" {
			all[name] = true
		}
	}
	return all, err
}

// templateFuncs are for the answers of the table of operations.
var templateFuncs = template.FuncMap{
	"quote": strconv.Quote,
	"join":  func(all []string) string { return strings.Join(all, ", ") },
	"soon": func(text string) (string, error) {
		hold, err := times.ParseDuration(text)
		return times.Text(time.Now().Add(hold)), err
	},
	"clock": func(text string) (string, error) {
		at, err := time.Parse(time.RFC3339, text)
		return times.Text(at.Local()), err
	},
	"limits": func(name string) string {
		if name == policy.Whole {
			return "every limit"
		}
		return name
	},
	"ends": func(hold, name string) string {
		if hold == "" {
			return "until `authguard limit reset " + name + "` ends it."
		}
		return "for " + hold + "; `authguard limit reset " + name + "` ends it sooner."
	},
}
