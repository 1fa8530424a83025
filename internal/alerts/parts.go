package alerts

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"authguard/captchamode"
	"authguard/internal/events"
	"authguard/internal/passwords"
	"authguard/internal/times"
)

// A Warning is a problem to fix. Code is stable; it is the Kind of an alert about the same problem. Setting, if not
// empty, is a configuration line that helps.
type Warning struct {
	Code    string `json:"code"`
	Title   string `json:"title"`
	Text    string `json:"text"`
	Setting string `json:"setting,omitempty"`
}

// NodeName names a node: host name and listen address, because a machine may run several nodes.
func NodeName(listen string) string {
	host, _ := os.Hostname()
	return Name(host + " (" + listen + ")")
}

// raiseHere raises an alert about this node.
func (a *Alerter) raiseHere(kind Kind, text string) { a.Raise(kind, "", "node "+a.node+text) }

// DatabaseChanged alerts when the database cannot be written, and when it can again.
func (a *Alerter) DatabaseChanged(failed error) {
	if failed == nil {
		a.logger.Info("the database can be written again")
		a.raiseHere(databaseBack, " accepts logins again")
		return
	}
	a.logger.Error("the database cannot be written: every login gets 503", "error", failed)
	a.raiseHere(databaseFailed, " answers every login with 503 until then; open sessions continue.\nDatabase: "+
		Name(failed.Error()))
}

// DatabaseWarning warns while DatabaseChanged's error lasts.
func DatabaseWarning(why error, since time.Time) []Warning {
	if why == nil {
		return nil
	}
	return []Warning{{
		Code: string(databaseFailed), Title: "The database cannot be written",
		Text: fmt.Sprintf("Every login has got 503 since %s: %v. Check that the disk has space, that the file is in its "+
			"place, that it or the server is not read-only, and that no other process locks it. "+
			"Logins work again a second later.", times.Text(since.UTC()), why),
	}}
}

// ClockChanged alerts if the machine's clock is off.
func (a *Alerter) ClockChanged(off string) {
	if off != "" {
		a.raiseHere(clockOff, ": "+off+"; the node uses the servers' time")
	}
}

// ClockWarning warns while the clock is off.
func ClockWarning(off string) []Warning {
	if off == "" {
		return nil
	}
	return []Warning{{
		Code: string(clockOff), Title: "This machine's clock is wrong",
		Text: "Right now " + off + ". The node uses their time for limits, challenges, blocks and sessions, but not for " +
			"its log. Synchronize it by NTP: timedatectl set-ntp true, or chrony.",
	}}
}

// LeakedWarning warns while the list of leaked passwords could not be loaded.
func LeakedWarning(s passwords.LeakedState) []Warning {
	if s.Kept == "" {
		return nil
	}
	return []Warning{{
		Code: "leaked-passwords-file", Title: "The list of leaked passwords could not be loaded",
		Text: fmt.Sprintf("%s cannot be used: %s. A list of %s passwords stays in use. authguard password-list build "+
			"replaces the file atomically.", s.File, s.Kept, humanize.Comma(int64(s.Passwords))),
	}}
}

// RedisChanged alerts when this node loses Redis, and when Redis is back.
func (a *Alerter) RedisChanged(up bool, why error) {
	if up {
		a.raiseHere(redisBack, " shares its counters with the other nodes again")
		return
	}
	a.raiseHere(redisLost, " counts locally with its share of the limits; known clients still get in.\nRedis: "+
		Name(why.Error()))
}

// RedisRefused alerts that this node does not start, because it would count apart from the others.
func (a *Alerter) RedisRefused(why error) {
	a.raiseHere(redisLost, " does not start.\n"+why.Error())
}

// RedisEmptied alerts that Redis has lost its data. times counts that since this node started.
func (a *Alerter) RedisEmptied(times int64) {
	a.raiseHere(redisEmptied, fmt.Sprintf(": Redis was flushed, or restarted without its file (%d times since this node "+
		"started). Every limit counts from zero again, so attackers get more attempts. Known clients are kept. Enable "+
		"appendonly, and restrict FLUSHALL", times))
}

// RedisWarning warns while Redis is lost.
func RedisWarning(since time.Time, why error) Warning {
	return Warning{
		Code: string(redisLost), Title: "This node counts locally, without Redis",
		Text: fmt.Sprintf("Redis has been unavailable since %s: %v. Known clients still get in, and this node enforces its "+
			"share of each limit. Run authguard doctor to find the cause.", times.Text(since.UTC()), why),
	}
}

// CountersChanged alerts when counters cannot be saved, with the effect, and when they can again.
func (a *Alerter) CountersChanged(failed error, effect string) {
	if failed == nil {
		a.raiseHere(countersBack, " saves its counters again")
		return
	}
	a.raiseHere(CountersFailed, ": "+effect+"\nError: "+Name(failed.Error()))
}

// ChallengesFilling alerts that the store of used challenges is almost full, or has room again.
func (a *Alerter) ChallengesFilling(full float64) {
	kind, text := challengesRoom, fmt.Sprintf("%.0f %% is used.", 100*full)
	if full > 0.5 {
		kind, text = challengesFilling, text+" When it is full, no challenge can be solved until older ones expire; known "+
			"clients still get in.\n"+
			"A client is solving very many challenges: block the IP addresses with the most rejected attempts."
	}
	a.Raise(kind, "", text)
}

// ChallengesWarning warns that the store of used challenges is almost full.
func ChallengesWarning() Warning {
	return Warning{
		Code: string(challengesFilling), Title: "The store of used challenges is almost full",
		Text: "When it is full, no challenge can be solved until older ones expire; known clients still get in. " +
			"A client is solving very many: block the IP addresses with the most rejected attempts.",
	}
}

// AccountsChanged alerts when a realm's accounts cannot be looked up, and when they can again.
func (a *Alerter) AccountsChanged(realm string, failed error) {
	if failed == nil {
		a.RaiseIn(realm, accountsBack, "", "Logins work again.")
		return
	}
	a.RaiseIn(realm, accountsFailed, "", "Every login gets 503 until then.\n"+Name(failed.Error()))
}

// AccountsWarning warns while AccountsChanged's error lasts.
func AccountsWarning(realm string, why error, since time.Time) Warning {
	return Warning{
		Code: string(accountsFailed), Title: "Accounts cannot be looked up",
		Text: InRealm(realm, fmt.Sprintf("Every login has got 503 since %s: %v. Check that the database or "+
			"directory runs and accepts authguard's credentials. "+
			"Logins work again a second later.", times.Text(since.UTC()), why)),
	}
}

// QueueCrowded alerts about the account or IP address that fills the password check queue.
func (a *Alerter) QueueCrowded(realm string, h passwords.Heavy) {
	who := "many accounts from the IP address " + events.AddressText(h.Address)
	if h.Account != "" {
		who = fmt.Sprintf("the account %s, last from %s", Name(h.Account), events.AddressText(h.Address))
	}
	a.RaiseIn(realm, queueCrowded, "", fmt.Sprintf(
		"%d of %d running or queued password checks belong to %s. Others go first, so they hardly notice. "+
			"If it is an attack: authguard ip block ADDRESS.", h.Present, h.All, who))
}

// UnusableHash alerts about an account with an unsupported password hash.
func (a *Alerter) UnusableHash(realm, account string, why error) {
	a.RaiseIn(realm, unusableHash, "", fmt.Sprintf(
		"A login to the account %s failed, whatever the password: %s.\n"+
			"Set new passwords for such accounts: authguard doctor counts them, except behind accounts.query. "+
			"This alert repeats after an hour at the earliest.",
		Name(account), strings.TrimPrefix(why.Error(), "passwords: ")))
}

// CodesFailed alerts that verification codes cannot be sent.
func (a *Alerter) CodesFailed(realm string, err error) {
	a.RaiseIn(realm, codesFailed, "", "Users who request a verification code get none. Until then create codes with: "+
		"authguard user create-code NAME\n"+Name(err.Error()))
}

// NoticesFailed alerts that emails to account owners cannot be sent.
func (a *Alerter) NoticesFailed(realm string, err error) {
	a.RaiseIn(realm, noticesFailed, "",
		"The mail server rejects the emails. They are kept and retried.\n"+Name(err.Error()))
}

// ProviderChanged alerts when the built-in image CAPTCHA replaces a failed provider, and when the provider is back.
func (a *Alerter) ProviderChanged(realm string, up bool, why error) {
	if up {
		a.RaiseIn(realm, providerBack, "", "unknown clients get its widget again")
		return
	}
	a.RaiseIn(realm, providerLost, "",
		"unknown clients get the built-in image CAPTCHA instead.\n"+Name(why.Error()))
}

// AdministrationSwitched alerts about CAPTCHA mode of the administrators' sign-in, which is on or off only.
func (a *Alerter) AdministrationSwitched(s captchamode.Switch) {
	if s.On == s.WasOn {
		return
	}
	kind, state := ModeOff, "off"
	if s.On {
		kind, state = ModeOn, "on"
	}
	a.logger.Warn("CAPTCHA mode of the administration's sign-in switched", "state", state)
	a.Raise(kind, "CAPTCHA mode of the administration's sign-in is "+state,
		fmt.Sprintf("Failure rate there: %d a minute. The public login has a CAPTCHA mode of its own.", s.FailureRate))
}

// LooseRoute alerts about a route of the proxy, as LooseWarning.
func (a *Alerter) LooseRoute(realm, name string) {
	w := LooseWarning(realm, name)
	a.RaiseIn(realm, Kind(w.Code), "", w.Text)
}

// LooseWarning warns of a route of the proxy that takes every login for a success.
func LooseWarning(realm, name string) Warning {
	return Warning{Code: string(looseRoute), Title: "A proxy route matches every login", Text: InRealm(realm,
		"A login with a made-up account and password matches success of the proxy's route "+name+". It cannot tell a right "+
			"password from a wrong one: every login from an unknown client counts as failed, and none from a known client "+
			"does. Correct success: authguard proxy detect proposes one.")}
}

// ChannelWarnings warns of channels whose last message failed.
func (a *Alerter) ChannelWarnings() (all []Warning) {
	for _, dead := range a.Dead() {
		all = append(all, Warning{
			Code: string(ChannelDead), Title: "The alert channel " + dead.Name + " has failed",
			Text: fmt.Sprintf("%[2]d tries have failed since %[1]s, and %[3]d alerts wait: %[4]s. They are sent when it works "+
				"again. Send a test with: authguard doctor --alerts", times.Text(dead.Since.UTC()), dead.Tries, dead.Waiting,
				dead.Why),
		})
	}
	return all
}
