package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/lists"
	"authguard/internal/operation"
	"authguard/internal/policy"
)

// An Operation is a change by an administrator. The API, forms and commands decode the same request; Do checks it,
// carries it out and records it. OpenAPI and the commands' help follow from the entry.
type Operation struct {
	Name  string // its code in the audit log
	Did   string // the code in words
	Route string // method and path below /api, with :name for a field; empty: not in the API
	Scope operation.Scope
	Where Where
	// Reason says why a reason is required. Empty: it is optional.
	Reason   string
	Alert    alerts.Kind // of the Alert of a Change
	Created  bool        // the API answers 201
	Proves   bool        // the session has passed MFA afterwards
	MaxBody  int64       // in bytes; 0 is 64 KiB
	Forms    []Form
	Commands []Command
	Request  func() any // returns a pointer to an empty operation.Request
}

// Where is what an operation applies to.
type Where int

const (
	OneRealm   Where = iota // the request's realm; tokens of one realm may do it there
	NamedRealm              // the request's realm, but no token of one realm may do it
	AllRealms               // all realms, recorded in the request's
	MainRealm               // the default realm only
	OwnAccount              // the administrator's own account: only a session may, even one that lacks MFA
)

// A Form is an operation on a page.
type Form struct {
	Path   string
	Notice string // shown with the subject of the change, unless the Change has a notice
	Users  bool   // administrators' accounts are rejected
	// Set are fixed fields, empty for those that this form must not set. Default are those of empty ones, Alias other
	// names of fields in this form.
	Set, Default, Alias map[string]string
}

// A Command is an operation on the command line.
type Command struct {
	Name, Help, Example string
	// Says is the answer, a template over the flags and the API's answer.
	Says string
	// Set are fixed fields of the request, Flags a pointer to other flags than the request's fields.
	Set    map[string]string
	Flags  func() any
	Reason bool // a reason must be given
}

// Operate checks a request, makes the change and records it. Errors are operation.ErrAsked for an invalid request,
// operation.Refused, those of the operation, and operation.ErrUnrecorded if only the record failed.
func (c *Control) Operate(ctx context.Context, o Operation, by operation.By, q any) (*operation.Change, error) {
	if q, ok := q.(operation.Checked); ok {
		if err := q.May(ctx, c.Accounts, by); err != nil {
			return nil, err
		}
	}
	var err error
	if by.Why, err = operation.Reason(q); err != nil {
		return nil, err
	}
	if o.Reason != "" && by.Why == "" {
		return nil, fmt.Errorf("%w: missing reason: %s", operation.ErrAsked, o.Reason)
	}
	by.Realm, by.Now = c.config.Realm, c.config.Now()
	change, err := c.carryOut(ctx, by, q)
	switch {
	case change == nil && err == nil:
		return &operation.Change{Preview: true}, nil
	case change == nil || change.Preview:
		return change, err
	}
	if o.Alert != "" && change.Alert != "" {
		c.config.Alerts.RaiseIn(c.config.Realm, o.Alert, "", change.Alert)
	}
	for one := change; one != nil; one = one.Also {
		a := one.Action
		a.Who, a.What, a.Why = by.Who, cmp.Or(a.What, o.Name), cmp.Or(a.Why, by.Why)
		err = errors.Join(err, c.record(ctx, a))
	}
	return change, err
}

// carryOut gives a request to the part of the realm that it changes.
func (c *Control) carryOut(ctx context.Context, by operation.By, q any) (*operation.Change, error) {
	switch q := q.(type) {
	case operation.Request[*accounts.Realm]:
		return q.Do(ctx, c.Accounts, by)
	case operation.Request[*lists.Table]:
		return q.Do(ctx, c.config.Listings, by)
	case operation.Request[*policy.Limits]:
		return q.Do(ctx, c.Limits, by)
	case operation.Request[*accounts.Tokens]:
		change, err := q.Do(ctx, c.config.Tokens, by)
		if change == nil {
			return nil, err
		}
		if failed := c.Follow(context.WithoutCancel(ctx)); failed != nil {
			err = errors.Join(err, fmt.Errorf("control: saved, and valid when the tokens can be read again: %w", failed))
		}
		return change, err
	case operation.Request[*alerts.Alerter]:
		return q.Do(ctx, c.config.Alerts, by)
	}
	return nil, fmt.Errorf("control: no part of a realm does a request %T", q)
}

// Do is Operate for the entry of the table with this request.
func (c *Control) Do(ctx context.Context, by operation.By, q any) (*operation.Change, error) {
	for _, o := range Operations() {
		if reflect.TypeOf(o.Request()).Elem() == reflect.Indirect(reflect.ValueOf(q)).Type() {
			return c.Operate(ctx, o, by, q)
		}
	}
	return nil, fmt.Errorf("control: no operation has a request %T", q)
}

func request[Q any]() any { return new(Q) }
