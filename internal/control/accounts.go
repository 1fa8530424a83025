package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/mfa"
	"authguard/internal/operation"
	"authguard/internal/sessions"
)

// The orders of accounts.
const (
	ByName     = ""
	ByFailures = "failures" // most in the last day first
	ByLast     = "last"     // newest last failure first
)

// AccountsPage is the default number of accounts on a page.
const AccountsPage = 50

// An AccountsQuery asks for a page of accounts.
type AccountsQuery struct {
	Find  string // part of the user name or email address; empty: all
	Sort  string // ByName, or ByFailures or ByLast for accounts with failures
	State string // as accounts.Table.InState; empty: all
	After string // Next of the previous page; empty: the first page
	Limit int    // default AccountsPage, at most MaxUsers
}

// Accounts is a page of accounts.
type Accounts struct {
	// Kept is where the accounts are, see Standing. Outside authguard's own table, only tried user names are known.
	Kept string          `json:"kept"`
	All  []ListedAccount `json:"users"`
	Next string          `json:"next,omitempty"`
	// Partial is set if there were more wrong passwords than the newest audit.MostFailing, which are counted.
	Partial bool `json:"partial,omitempty"`
	// Counts are those of authguard's own table.
	Counts accounts.Counts `json:"-"`
}

// MaxUsers is the most accounts on one page of AccountsOf.
const MaxUsers = 1000

// A ListedAccount is an account with its activity.
type ListedAccount struct {
	accounts.Account
	audit.Outcome
	State    string `json:"state"`
	Places   int    `json:"known_clients"` // by IP address
	Sessions int    `json:"sessions"`      // at all integrations
	Code     bool   `json:"code"`          // it has a valid verification code
	Second   bool   `json:"mfa"`
}

// AccountsOf returns a page of the accounts. It changes nothing.
func (c *Control) AccountsOf(ctx context.Context, q AccountsQuery) (p Accounts, err error) {
	if p.Kept, err = c.Accounts.Kept(ctx); err != nil {
		return p, err
	}
	if q.Limit <= 0 || q.Limit > MaxUsers {
		q.Limit = AccountsPage
	}
	q.Find = strings.TrimSpace(q.Find)
	if usual, err := c.config.Guard.Normalise(q.Find); err == nil {
		q.Find = usual // as names are stored
	}
	var found []accounts.Account
	switch {
	case q.Sort == ByFailures || q.Sort == ByLast || p.Kept != accounts.Ours:
		found, err = c.failing(ctx, q, &p)
	case q.State != "":
		found, err = c.config.Accounts.InState(ctx, q.State, q.After, q.Limit+1)
	case q.Sort != ByName:
		return p, fmt.Errorf("%w: sort: must be %s, %s or empty", operation.ErrAsked, ByFailures, ByLast)
	case q.Find != "":
		found, err = c.config.Accounts.Search(ctx, q.Find, q.After, q.Limit+1)
	default:
		found, err = c.config.Accounts.List(ctx, q.After, q.Limit+1)
	}
	if err != nil {
		return p, err
	}
	if p.Kept == accounts.Ours {
		if p.Counts, err = c.config.Accounts.Counts(ctx); err != nil {
			return p, err
		}
	}
	if len(found) > q.Limit {
		found = found[:q.Limit]
		p.Next = cmp.Or(p.Next, found[q.Limit-1].Username)
	} else {
		p.Next = ""
	}
	p.All = make([]ListedAccount, len(found))
	for i, account := range found {
		if p.All[i], err = c.listed(ctx, account); err != nil {
			return p, err
		}
	}
	return p, nil
}

// failing returns the accounts with wrong passwords, one more than a page. Other account sources give only names.
func (c *Control) failing(ctx context.Context, q AccountsQuery, p *Accounts) ([]accounts.Account, error) {
	begin := 0
	if q.After != "" {
		var err error
		if begin, err = strconv.Atoi(q.After); err != nil || begin < 0 {
			return nil, fmt.Errorf("%w: after: send the value of next from the previous page", operation.ErrAsked)
		}
	}
	all, whole, err := c.config.Audit.Failing(ctx, c.config.Realm, c.Now().Add(-aDay), q.Sort != ByFailures)
	if err != nil {
		return nil, err
	}
	p.Partial = !whole
	all = slices.DeleteFunc(all, func(f audit.Failing) bool { return !strings.Contains(f.Account, q.Find) })
	slices.SortFunc(all, func(a, b audit.Failing) int {
		order := cmp.Or(cmp.Compare(b.Failures, a.Failures), b.Last.Compare(a.Last))
		if q.Sort != ByFailures {
			order = b.Last.Compare(a.Last)
		}
		return cmp.Or(order, strings.Compare(a.Account, b.Account))
	})
	found, err := c.thoseOf(ctx, all, p.Kept == accounts.Ours, begin+q.Limit+1)
	if err != nil {
		return nil, err
	}
	p.Next = strconv.Itoa(begin + q.Limit)
	return found[min(begin, len(found)):], nil
}

// thoseOf returns the first most accounts of the tried names, only existing ones if here is set. It queries the table
// in chunks, because an attack with made-up names has many.
func (c *Control) thoseOf(ctx context.Context, all []audit.Failing, here bool,
	most int) (found []accounts.Account, err error) {
	for part := range slices.Chunk(all, 500) {
		if len(found) >= most {
			break
		}
		names := make([]string, len(part))
		for i, f := range part {
			names[i] = f.Account
		}
		known, err := c.config.Accounts.Those(ctx, names)
		if err != nil {
			return nil, err
		}
		for _, f := range part {
			i := slices.IndexFunc(known, func(a accounts.Account) bool { return a.Username == f.Account })
			if i >= 0 && (here || known[i].Role == accounts.Admin) {
				found = append(found, known[i])
			} else if !here {
				found = append(found, accounts.Account{Username: f.Account})
			}
		}
	}
	return found[:min(most, len(found))], nil
}

func (c *Control) listed(ctx context.Context, a accounts.Account) (l ListedAccount, err error) {
	l = ListedAccount{Account: a, State: accounts.NotKnown}
	if a.ID != "" {
		l.State = a.State()
	}
	if l.Outcome, err = c.config.Audit.Outcome(ctx, c.config.Realm, a.Username, c.Now().Add(-aDay)); err != nil {
		return l, err
	}
	running, err := c.config.Sessions.Of(ctx, a.Username, "")
	if err != nil {
		return l, err
	}
	l.Sessions = len(running)
	known, err := c.config.Guard.KnownClients(ctx, guard.Attempt{Account: a.Username}, nil)
	if err != nil {
		return l, err
	}
	l.Places = len(known.List)
	if l.Code, err = c.config.Codes.Live(ctx, a.Username); err != nil || a.Role != accounts.Admin {
		return l, err
	}
	has, err := c.config.MFA.Of(ctx, a.ID)
	l.Second = has.Any()
	return l, err
}

// Person returns an account of authguard's own table with its activity; nil if there is none, or for another account
// source.
func (c *Control) Person(ctx context.Context, name string) (*ListedAccount, error) {
	if kept, err := c.Accounts.Kept(ctx); err != nil || kept != accounts.Ours {
		return nil, err
	}
	a, err := c.config.Accounts.Get(ctx, name)
	if errors.Is(err, accounts.ErrUnknown) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	l, err := c.listed(ctx, a)
	return &l, err
}

// An Administrator is an account that may use the admin console, with its sign-in methods.
type Administrator struct {
	accounts.Account
	mfa.Kept
	LastLogin time.Time          `json:"last_login,omitzero"` // as far as the audit log goes back
	Running   []sessions.Session `json:"-"`                   // at the admin console, newest first
	Sessions  int                `json:"sessions"`            // the number of Running
}

// Administrators returns all administrators, by name.
func (c *Control) Administrators(ctx context.Context) (all []Administrator, err error) {
	admins, err := c.config.Accounts.Admins(ctx)
	if err != nil {
		return nil, err
	}
	for _, account := range admins {
		one := Administrator{Account: account}
		if one.Kept, err = c.config.MFA.Of(ctx, account.ID); err != nil {
			return nil, err
		}
		if one.Running, err = c.config.Sessions.Of(ctx, account.Username, accounts.Integration); err != nil {
			return nil, err
		}
		one.Sessions = len(one.Running)
		outcome, err := c.config.Audit.Outcome(ctx, c.config.Realm, account.Username, c.Now())
		if err != nil {
			return nil, err
		}
		one.LastLogin = outcome.LastLogin
		all = append(all, one)
	}
	return all, nil
}
