package control_test

import (
	"context"
	"net/netip"
	"time"

	"authguard/captchamode"
	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/lists"
)

// do carries out an operation of the table as a command would.
func (d *desk) do(ctx context.Context, who string, q control.Request) (control.Change, error) {
	change, err := d.Do(ctx, control.By{Who: who, Fresh: true}, q)
	if change == nil {
		change = new(control.Change)
	}
	return *change, err
}

func of(name string) control.OfAccount { return control.OfAccount{Username: name} }

func admin(name string) control.OfAdministrator { return control.OfAdministrator{Username: name} }

func because(why string) control.Because { return control.Because{Reason: why} }

func explained(why string) control.Explained { return control.Explained{Reason: why} }

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

func (d *desk) AddUser(ctx context.Context, who string, a accounts.Addition, why string) (control.Change, error) {
	return d.do(ctx, who, control.AddUser{Username: a.Username, Email: a.Email, Groups: a.Groups, Password: a.Password,
		Role: a.Role, MustChange: a.MustChange, Because: because(why)})
}

func (d *desk) AddAdministrator(ctx context.Context, who, name, email, why string) (control.Change, error) {
	return d.do(ctx, who, control.AddAdministrator{OfAdministrator: admin(name), Email: email, Explained: explained(why)})
}

func (d *desk) SetPassword(ctx context.Context, who, name, password string, must bool, why string) error {
	_, err := d.do(ctx, who, control.SetPassword{OfAccount: of(name), Password: password, MustChange: must,
		Because: because(why)})
	return err
}

func (d *desk) AskNewPassword(ctx context.Context, who, name, why string) error {
	_, err := d.do(ctx, who, control.AskPassword{OfAccount: of(name), Because: because(why)})
	return err
}

func (d *desk) Disable(ctx context.Context, who, name string) error {
	_, err := d.do(ctx, who, control.DisableUser{OfAccount: of(name)})
	return err
}

func (d *desk) IssueCode(ctx context.Context, who, name string) (control.Code, error) {
	change, err := d.do(ctx, who, control.CreateCode{OfAccount: of(name)})
	code, _ := change.Answer.(control.Code)
	return code, err
}

func (d *desk) Force(ctx context.Context, who string, to captchamode.Forced, hold time.Duration, why string) error {
	_, err := d.do(ctx, who, control.SetMode{Mode: string(to), For: lasts(hold), Because: because(why)})
	return err
}

func (d *desk) Unlock(ctx context.Context, who, account string, address netip.Addr) error {
	_, err := d.do(ctx, who, control.Unlock{Account: account, Address: text(address)})
	return err
}

func (d *desk) UnlockNetwork(ctx context.Context, who string, network netip.Prefix, why string) error {
	_, err := d.do(ctx, who, control.Unlock{Network: network.String(), Because: because(why)})
	return err
}

func (d *desk) RemoveKnownClients(ctx context.Context, who, account string, address netip.Addr) error {
	_, err := d.do(ctx, who, control.RemoveKnownClients{Account: account, Address: text(address)})
	return err
}

func (d *desk) List(ctx context.Context, who string, r lists.Request) (control.Change, error) {
	return d.do(ctx, who, control.ListRange{CIDR: r.Prefix.String(), Verdict: r.Verdict, For: lasts(r.For), Note: r.Note,
		Force: r.Force})
}

func (d *desk) ImportLists(ctx context.Context, who string, q control.ImportLists) (*control.ListPlan, error) {
	change, err := d.do(ctx, who, q)
	plan, _ := change.Answer.(*control.ListPlan)
	return plan, err
}

func (d *desk) SwitchPolicy(ctx context.Context, who, limitSet, to string, hold time.Duration, why string) error {
	_, err := d.do(ctx, who, control.SwitchPolicy{LimitSet: limitSet, To: to, For: lasts(hold), Because: because(why)})
	return err
}
