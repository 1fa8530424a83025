package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/policy"
	"authguard/web/admin"
)

// administrationRealm keys the digests of the admin console's guard. No realm or route can have this name.
const administrationRealm = "/" + admin.Directory

// administration is the guard of the administrators' login. It has its own counters, known clients and CAPTCHA mode, so
// no flood at the public login challenges an administrator.
type administration struct {
	guard *guard.Guard
	mode  *captchamode.Mode
}

// openAdministration creates it for the default realm; it returns nil for others.
func openAdministration(ctx context.Context, r *realm) (a *administration, err error) {
	if r.name != guard.DefaultRealm {
		return nil, nil
	}
	limits, config := alwaysEnforced(r.written.Load().Written)
	a = new(administration)
	if a.mode, err = captchamode.NewMode(config, r.site.storage.clock.Now, r.administrationSwitched); err != nil {
		return nil, err
	}
	a.guard, err = r.newGuard(ctx, administrationRealm, limits, func(c *guard.Config) {
		c.Store, c.Mode, c.Codes = r.site.counting.stores[administrators], a.mode, r.people.codes.Of(admin.Directory)
		c.Canonical, c.Shared = r.people.accounts.Canonical, r.guard.Shared
	})
	if err != nil {
		return nil, err
	}
	// The admin console has its own trusted proxies and is reached through tunnels.
	a.guard.Direct([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")})
	r.Add(background.Run(a.mode.Run))
	return a, nil
}

// alwaysEnforced returns the configured policy for administrators: no override applies to it.
func alwaysEnforced(w policy.Written) (guard.Policy, captchamode.Config) {
	w.Policy.Events, w.Policy.StepUp, w.Mode.Monitor = nil, guard.StepUp{}, false // administrators have MFA
	return w.Policy, w.Mode
}

func (a *administration) enact(w policy.Written) error {
	if a == nil {
		return nil
	}
	limits, config := alwaysEnforced(w)
	limits.KnownClients = a.guard.Policy().KnownClients // the store was created with these
	return errors.Join(a.guard.SetPolicy(limits), a.mode.SetConfig(config))
}

func (a *administration) ofSignIn() *guard.Guard {
	if a == nil {
		return nil
	}
	return a.guard
}

func (r *realm) administrationSwitched(s captchamode.Switch) {
	if s.On == s.WasOn {
		return
	}
	kind, state := alerts.ModeOff, "off"
	if s.On {
		kind, state = alerts.ModeOn, "on"
	}
	r.log.Warn("CAPTCHA mode of the administration's sign-in switched", "state", state)
	r.raise(kind, "CAPTCHA mode of the administration's sign-in is "+state,
		fmt.Sprintf("Failure rate there: %d a minute. "+
			"The public login has a CAPTCHA mode of its own.", s.FailureRate))
}
