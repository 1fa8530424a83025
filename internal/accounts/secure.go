package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authguard/internal/attacks"
	"authguard/internal/events"
	"authguard/internal/operation"
)

// resetWithin limits how long one request secures accounts. The next request continues.
const resetWithin = 20 * time.Second

// Attacked returns the accounts of an attack. Possibly compromised ones say whether they are administrators' and have
// an email address. With another account source, a user is not the administrator of the same name.
func (r *Realm) Attacked(ctx context.Context, id string) ([]attacks.Victim, error) {
	victims, err := r.Attacks.Victims(ctx, r.Name, id)
	if err != nil {
		return nil, err
	}
	for i := range victims {
		v := &victims[i]
		if !v.Lost || r.Elsewhere != "" && !atAdministration(*v) {
			continue
		}
		account, err := r.Accounts.Get(ctx, v.Account)
		if errors.Is(err, ErrUnknown) {
			continue
		}
		if err != nil {
			return nil, err
		}
		v.Username, v.Administrator, v.NoEmail = account.Username, account.Role == Admin, account.Email == ""
	}
	return victims, nil
}

// atAdministration is whether the attack had a sign-in of the account at the admin console.
func atAdministration(v attacks.Victim) bool {
	return slices.ContainsFunc(v.Logins, func(l attacks.Login) bool { return AtConsole(l.Integration) })
}

// NotOurs says where to force a password change.
func NotOurs(kept string) string {
	if kept == InApp {
		return "the app manages the accounts; force the password change there"
	}
	return "accounts.source is " + kept + "; force the password change there"
}

// SecureAccounts ends sessions, removes known clients and forces password changes, unless that was done since the last
// login. It secures one account of an attack, or all possibly compromised ones except administrators'. The audit log
// has a row per account. Errors are ErrAsked and attacks.ErrUnknown.
type SecureAccounts struct {
	ID      string   `json:"id"`
	Account string   `json:"account"` // empty: all
	What    []string `json:"what"`    // of attacks.Resets; empty: all
	operation.Because
	selected []string // accounts from a form; nil: Account
}

// FormFields returns the fields of the form of an attack.
func (*SecureAccounts) FormFields() []string { return []string{"id", "accounts", "what", "reason"} }

// FromForm reads that form: accounts is an empty text for all, or a JSON array.
func (q *SecureAccounts) FromForm(sent map[string]string) {
	q.ID, q.Reason = sent["id"], sent["reason"]
	if sent["accounts"] != "" && (json.Unmarshal([]byte(sent["accounts"]), &q.selected) != nil || q.selected == nil) {
		q.selected = []string{} // also for null, which is not all accounts
	}
	if sent["what"] != "" {
		q.What = []string{sent["what"]}
	}
}

// Secured is the answer of SecureAccounts.
type Secured struct {
	Accounts []Resetting `json:"accounts"`
	Left     int         `json:"left"` // not processed in time: ask again
}

// A Resetting is the outcome for one account.
type Resetting struct {
	Account  string   `json:"account"`
	Done     []string `json:"done"`
	Already  []string `json:"already"` // since the last login
	Problems []string `json:"problems,omitempty"`
	LeftOut  bool     `json:"left_out,omitempty"` // an administrator's account, which is secured by its name only
}

var errOwnAccount = fmt.Errorf("%w: this is your own account: end your other sessions and change your password on the "+
	"page Your sign-in", operation.ErrAsked)

// Do implements Request.
func (q SecureAccounts) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	if q.Account != "" {
		q.selected = []string{q.Account}
	}
	chosen, err := q.chosen(ctx, r)
	if err != nil {
		return nil, err
	}
	answer, began := Secured{Accounts: []Resetting{}}, time.Now()
	for i, v := range chosen {
		one := Resetting{Account: v.Account, Done: []string{}, Already: []string{}}
		switch {
		case time.Since(began) > resetWithin:
			answer.Left = len(chosen) - i
		case q.selected == nil && v.Administrator && by.May(operation.Admin): // else, MayChange hides administrators
			one.LeftOut = true
		case v.Administrator && !by.Token && v.Username == by.Maker:
			err = errOwnAccount
		default:
			err = q.secure(ctx, r, by, v, &one)
		}
		if err != nil || answer.Left > 0 {
			break
		}
		answer.Accounts = append(answer.Accounts, one)
	}
	return &operation.Change{Preview: true, Answer: answer, Notice: answer.notice()}, err // secure has recorded it
}

// chosen returns the accounts to secure.
func (q SecureAccounts) chosen(ctx context.Context, r *Realm) ([]attacks.Victim, error) {
	for _, what := range q.What {
		if !slices.Contains(attacks.Resets(), what) {
			return nil, fmt.Errorf("%w: what: must be one of %s, not %.20q", operation.ErrAsked,
				strings.Join(attacks.Resets(), ", "), what)
		}
	}
	if q.selected != nil && len(q.selected) == 0 {
		return nil, fmt.Errorf("%w: select accounts", operation.ErrAsked)
	}
	if _, err := r.Attacks.Get(ctx, r.Name, q.ID); err != nil {
		return nil, err
	}
	all, err := r.Attacked(ctx, q.ID)
	all = slices.DeleteFunc(all, func(v attacks.Victim) bool {
		return q.selected != nil && !slices.Contains(q.selected, v.Account) || q.selected == nil && !v.Lost
	})
	if err == nil && len(all) == 0 && q.selected != nil {
		err = fmt.Errorf("%w: the account %.60q had no sign-in from an unknown client during this attack",
			operation.ErrAsked, q.selected[0])
	}
	return all, err
}

// secure secures and records one account that the sender may change; an administrator's requires more.
func (q SecureAccounts) secure(
	ctx context.Context, r *Realm, by operation.By, v attacks.Victim, one *Resetting,
) (err error) {
	if err := r.MayChange(ctx, by, v.Account); err != nil {
		if errors.Is(err, ErrUnknown) {
			err = errors.New("no such account")
		}
		one.Problems = append(one.Problems, err.Error())
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	for _, what := range attacks.Resets() {
		switch {
		case len(q.What) > 0 && !slices.Contains(q.What, what):
		case v.Reset(what) != nil:
			one.Already = append(one.Already, what)
		default:
			if err := r.reset(ctx, what, v); err != nil {
				one.Problems = append(one.Problems, what+": "+strings.TrimPrefix(err.Error(), operation.ErrAsked.Error()+": "))
				continue
			}
			one.Done = append(one.Done, what)
			err = errors.Join(err, r.Attacks.Done(ctx, r.Name, v.Account, attacks.Reset{What: what, At: r.Now(), Who: by.Who,
				Why: by.Why}))
		}
	}
	if len(one.Done) > 0 {
		err = errors.Join(err, r.Record(ctx, operation.Action{Who: by.Who, What: "attack-reset", Subject: v.Account,
			Detail: strings.Join(one.Done, ", ") + ", after the attack " + q.ID, Why: by.Why}))
	}
	return err
}

func (s Secured) notice() (n operation.Notice) {
	done, leftOut, problems := 0, 0, []string{}
	for _, one := range s.Accounts {
		if one.LeftOut {
			leftOut++
		}
		if len(one.Done) > 0 {
			done++
		}
		problems = append(problems, one.Problems...)
	}
	switch {
	case done == 1 && len(s.Accounts) == 1:
		n.Text, n.Subject = map[string]string{
			attacks.Sessions: "All sessions ended:", attacks.KnownClients: "All known clients removed:",
			attacks.Password: "Password change forced:",
		}[s.Accounts[0].Done[0]], s.Accounts[0].Account
		if len(s.Accounts[0].Done) > 1 {
			n.Text = "Secured:"
		}
	case done == 0 && len(problems) == 0:
		n.Text = "Nothing left to do."
	default:
		n.Text = "Secured: " + events.Count(done, "account") + "."
	}
	if done > 0 {
		n.Note = "No undo: sessions and known clients are removed, and a password change is forced until it is made."
	}
	if len(problems) > 0 {
		n.Bad = true
		n.Text, n.Subject = fmt.Sprintf("Secured: %s. Some actions failed (%s). The first: %s.",
			events.Count(done, "account"), events.Count(len(problems), "problem"), problems[0]), ""
	}
	if leftOut > 0 {
		n.Text += " " + events.Count(leftOut, "administrator") + " left out: secure each below."
	}
	if s.Left > 0 {
		n.Text += fmt.Sprintf(" %s not processed in time. Repeat the action.", events.Count(s.Left, "account"))
	}
	return n
}

// reset carries out one operation on one account. With another account source, it means the administrator of that name
// only if the attack had a sign-in at the admin console.
func (r *Realm) reset(ctx context.Context, what string, v attacks.Victim) error {
	account, directory := v.Account, ""
	if atAdministration(v) {
		directory = Directory
	}
	switch apart := r.Elsewhere != ""; {
	case what == attacks.Sessions && apart:
		_, err := r.endSessions(ctx, directory, account)
		return err
	case what == attacks.Sessions:
		_, err := r.Sessions.EndOthers(ctx, account, "", "")
		return err
	case what == attacks.KnownClients && apart:
		return r.forgetIn(ctx, directory, account, netip.Addr{})
	case what == attacks.KnownClients:
		return r.forget(ctx, account, netip.Addr{})
	case apart && directory == "": // an account of this name in our table belongs to an administrator
		kept, err := r.Kept(ctx)
		return errors.Join(err, fmt.Errorf("%w: %s", operation.ErrAsked, NotOurs(kept)))
	}
	_, err := r.askNewPassword(ctx, account)
	if errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%w: no such account", operation.ErrAsked)
	}
	return err
}
