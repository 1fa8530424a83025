package control_test

import (
	"context"
	"net/netip"
	"time"

	"authguard/captchamode"
	"authguard/internal/accounts"
	"authguard/internal/lists"
	"authguard/internal/operation"
	"authguard/internal/policy"
)

// do carries out an operation of the table as a command would.
func (d *desk) do(ctx context.Context, who string, q any) (operation.Change, error) {
	change, err := d.Do(ctx, operation.By{Who: who, Fresh: true}, q)
	if change == nil {
		change = new(operation.Change)
	}
	return *change, err
}

func of(name string) operation.OfAccount { return operation.OfAccount{Username: name} }

func admin(name string) operation.OfAdministrator { return operation.OfAdministrator{Username: name} }

func because(why string) operation.Because { return operation.Because{Reason: why} }

func explained(why string) operation.Explained { return operation.Explained{Reason: why} }

func text(address netip.Addr) string {
	if !address.IsValid() {
		return ""
	}
	return address.String()
}

func lasts(hold time.Duration) string {
	if hold == 0 {
		return ""
	}
	return hold.String()
}

func (d *desk) AddUser(ctx context.Context, who string, a accounts.Addition, why string) (operation.Change, error) {
	return d.do(ctx, who, accounts.AddUser{Username: a.Username, Email: a.Email, Groups: a.Groups, Password: a.Password,
		Role: a.Role, MustChange: a.MustChange, Because: because(why)})
}

func (d *desk) AddAdministrator(ctx context.Context, who, name, email, why string) (operation.Change, error) {
	return d.do(ctx, who, accounts.AddAdministrator{OfAdministrator: admin(name), Email: email, Explained: explained(why)})
}

func (d *desk) SetPassword(ctx context.Context, who, name, password string, must bool, why string) error {
	_, err := d.do(ctx, who, accounts.SetPassword{OfAccount: of(name), Password: password, MustChange: must,
		Because: because(why)})
	return err
}

func (d *desk) AskNewPassword(ctx context.Context, who, name, why string) error {
	_, err := d.do(ctx, who, accounts.AskPassword{OfAccount: of(name), Because: because(why)})
	return err
}

func (d *desk) Disable(ctx context.Context, who, name string) error {
	_, err := d.do(ctx, who, accounts.DisableUser{OfAccount: of(name)})
	return err
}

func (d *desk) IssueCode(ctx context.Context, who, name string) (accounts.Code, error) {
	change, err := d.do(ctx, who, accounts.CreateCode{OfAccount: of(name)})
	code, _ := change.Answer.(accounts.Code)
	return code, err
}

func (d *desk) Force(ctx context.Context, who string, to captchamode.Forced, hold time.Duration, why string) error {
	_, err := d.do(ctx, who, policy.SetMode{Mode: string(to), For: lasts(hold), Because: because(why)})
	return err
}

func (d *desk) Unlock(ctx context.Context, who, account string, address netip.Addr) error {
	_, err := d.do(ctx, who, policy.Unlock{Account: account, Address: text(address)})
	return err
}

func (d *desk) UnlockNetwork(ctx context.Context, who string, network netip.Prefix, why string) error {
	_, err := d.do(ctx, who, policy.Unlock{Network: network.String(), Because: because(why)})
	return err
}

func (d *desk) RemoveKnownClients(ctx context.Context, who, account string, address netip.Addr) error {
	_, err := d.do(ctx, who, accounts.RemoveKnownClients{Account: account, Address: text(address)})
	return err
}

func (d *desk) List(ctx context.Context, who string, r lists.Request) (operation.Change, error) {
	return d.do(ctx, who, lists.ListRange{CIDR: r.Prefix.String(), Verdict: r.Verdict, For: lasts(r.For), Note: r.Note,
		Force: r.Force})
}

func (d *desk) ImportLists(ctx context.Context, who string, q lists.ImportLists) (*lists.Plan, error) {
	change, err := d.do(ctx, who, q)
	plan, _ := change.Answer.(*lists.Plan)
	return plan, err
}

func (d *desk) SwitchPolicy(ctx context.Context, who, limitSet, to string, hold time.Duration, why string) error {
	_, err := d.do(ctx, who, policy.SwitchPolicy{LimitSet: limitSet, To: to, For: lasts(hold), Because: because(why)})
	return err
}
