package pages

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/internal/alerts"
	"authguard/internal/attacks"
	"authguard/internal/control"
	"authguard/internal/metrics"
	"authguard/internal/times"
)

// answered adds the situation.
func answered(v NowView, last ...attacks.Attack) NowView {
	last = append(last, attacks.Attack{})
	open := 0
	for _, a := range v.Overview.Unsecured {
		open += a.Open
	}
	v.Overview.Situation = control.SituationOf(&v.Overview, last[0], open)
	return v
}

// botnet is the attack of a botnet with one guesser, as it is recorded.
func botnet(ended time.Time, open int) attacks.Attack {
	began := noon.Add(-10 * time.Minute)
	return attacks.Attack{ID: "20260314-1150-abcd", Kind: attacks.Site, Began: began, Last: noon.Add(-4 * time.Minute), Ended: ended, Attempts: 2844,
		Counts: attacks.Counts{Failed: 63, Challenged: 2756, Refused: 25}, Shapes: []string{attacks.Botnet},
		Sources: attacks.Sources{Addresses: 2791, Networks: 900, Accounts: 400}, Compromised: attacks.Compromised{Lost: 7, Open: open}}
}

// besieged is the overview during the attack of a botnet, with as many rows as there can be; low is when it stopped.
func besieged(low time.Time) NowView {
	v := NowView{Admin: around("/"), Span: metrics.LastHour, Series: metrics.Series{Each: time.Second}}
	for i := range 3600 {
		p := metrics.Point{Start: noon.Truncate(time.Minute).Add(time.Duration(i-3540) * time.Second)}
		if p.Attempts, p.Logins = i%3, i%3; i > 3000 {
			p.Attempts, p.Failures, p.Shown = 9+i%7, i%2, 8+i%5
		}
		v.Series.Points = append(v.Series.Points, p)
	}
	v.Series.FailureRate = hour(1200)
	for i := range v.Series.FailureRate {
		v.Series.FailureRate[i].Threshold, v.Series.FailureRate[i].SlowAt, v.Series.FailureRate[i].LeaveAt = 30, 10, 15
	}
	v.Overview = control.Overview{Now: noon, State: captchamode.State{Level: captchamode.Attack, On: true, Low: low, FailureRate: captchamode.Counts{1500}, SlowAt: 10, LeaveAt: 15, Threshold: 30, CoolDown: times.Duration(10 * time.Minute)},
		Attacks:  []attacks.Attack{botnet(time.Time{}, 7)},
		Switches: []captchamode.Switch{{At: noon.Add(-20 * time.Minute), On: true, Cause: captchamode.ByFailureRate, FailureRate: 31, Threshold: 30}},
		Others:   metrics.Others{Addresses: metrics.Rest{Names: 256, Most: 3}, Networks: metrics.Rest{Names: 900, Most: 9}, Accounts: metrics.Rest{Names: 390, Most: 7}},
		Warnings: []alerts.Warning{{Code: "alert-channel-dead", Title: "1 of 2 alert channels is failing: ops web hook, 13 alerts wait", Text: "dial tcp 127.0.0.1:1: connect: connection refused"}}}
	if !low.IsZero() {
		v.Overview.OffAt, v.Overview.State.FailureRate = noon.Add(21*time.Minute), captchamode.Counts{}
	}
	for i := range 8 { // the most that there are
		row := func(name string) control.Subject {
			return control.Subject{Top: metrics.Top{Name: name, Failures: 25 - i, Stopped: 130 - i, LastSeen: noon.Add(-time.Duration(i) * time.Minute)}, Next: "challenge"}
		}
		address, network := row(fmt.Sprintf("203.0.113.%d", 66+i)), row(fmt.Sprintf("198.51.%d.0/24", 100+i))
		address.Range, network.Range = netip.MustParsePrefix(address.Name+"/32"), netip.MustParsePrefix(network.Name)
		v.Overview.Addresses, v.Overview.Networks = append(v.Overview.Addresses, address), append(v.Overview.Networks, network)
		v.Overview.Accounts = append(v.Overview.Accounts, row(fmt.Sprint("person.number", i, "@example.org")))
	}
	v.Overview.Reasons = []control.Subject{{Top: metrics.Top{Name: "captcha-mode", Words: "CAPTCHA mode is on", Stopped: 2756, LastSeen: noon}}}
	return answered(v)
}

// overviews are the other states of the overview.
func overviews() map[string]NowView {
	quiet := captchamode.State{SlowAt: 10, LeaveAt: 15, Threshold: 30}
	small := attacks.Attack{ID: "20260314-1159-efgh", Kind: attacks.Account, Subject: hostile, Began: noon.Add(-time.Minute), Last: noon, Attempts: 30, Counts: attacks.Counts{Failed: 5, Challenged: 25}, Sources: attacks.Sources{Addresses: 1, Accounts: 1}}
	setup := []control.SetupStep{{Code: "mfa", Title: "MFA for administrators", Text: "A TOTP app or a passkey.", Page: "/security"}, {Code: "proxies", Title: "Trusted proxies", Text: "Name them.", Done: true}}
	quarter, day := besieged(time.Time{}), besieged(time.Time{})
	quarter.Span, quarter.Series.Points, quarter.Series.FailureRate = metrics.LastQuarter, quarter.Series.Points[2700:], quarter.Series.FailureRate[45:]
	day.Span, day.Show = metrics.LastDay, "week"
	day.Series.Week = office()
	table := besieged(time.Time{})
	table.Show, table.Preset = "table", "off"
	return map[string]NowView{
		"attack": besieged(time.Time{}), "stopped": besieged(noon.Add(-4 * time.Minute)), "quarter": quarter, "week": day, "table": table,
		"open":  answered(NowView{Admin: around("/"), Span: metrics.LastHour, Overview: control.Overview{Now: noon, State: quiet, Unsecured: []attacks.Attack{botnet(noon, 7)}}}),
		"quiet": answered(NowView{Admin: around("/"), Span: metrics.LastHour, Series: metrics.Series{FailureRate: hour(0)}, Overview: control.Overview{Now: noon, State: quiet}}, botnet(noon, 0)),
		"small": answered(NowView{Admin: around("/"), Span: metrics.LastSix, Overview: control.Overview{Now: noon, State: quiet, Attacks: []attacks.Attack{small}}}),
		"new":   answered(NowView{Admin: around("/"), Overview: control.Overview{Now: noon, State: quiet, Setup: setup}}),
	}
}

// A user's typos do not offer to block the user.
func TestOnlySeveralAttemptsOfferABlock(t *testing.T) {
	t.Parallel()
	row := func(failed, stopped int) control.Subject {
		return control.Subject{Top: metrics.Top{Failures: failed, Stopped: stopped}, Range: netip.MustParsePrefix("192.0.2.1/32")}
	}
	for _, c := range []struct {
		row    control.Subject
		blocks bool
	}{{row(1, 0), false}, {row(3, 1), false}, {row(5, 0), true}, {row(0, 5), true}, {control.Subject{}, false}} {
		if got := (subjectTable{}).Blocks(c.row); got != c.blocks {
			t.Errorf("%+v: %t", c.row, got)
		}
	}
}

func TestAnAttackFromOneAddressIsSaidExactly(t *testing.T) {
	t.Parallel()
	a := attacks.Attack{Attempts: 311, Sources: attacks.Sources{Addresses: 1, Networks: 1, Accounts: 120},
		Peak: attacks.Peak{At: noon, Attempts: 311}}
	got := AttackView{Admin: Admin{Now: noon}, Report: control.AttackReport{Attack: a}}.Sentence()
	for _, want := range []string{"from 1 IP address in 1 network, against about 120 user names.", ", with 311 attempts."} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	a.Known, a.Passwords = 311, 2
	v := AttackView{Admin: Admin{Now: noon}, Report: control.AttackReport{Attack: a}}
	if got := v.Repetition(); !strings.HasPrefix(got, "2 different passwords in 311 attempts, each used 156 times on average. ") {
		t.Error(got)
	}
	page, err := RenderAttacks(AttacksView{Admin: Admin{Now: noon}, Attacks: control.Attacks{Attacks: []attacks.Attack{a}, Total: 1}})
	if want := "<p>311 attempts, 1 IP address, about 120 user names."; err != nil || !strings.Contains(string(page), want) {
		t.Errorf("%v, no %q in\n%s", err, want, page)
	}
}

func TestTheOverviewNamesTheStepUp(t *testing.T) {
	t.Parallel()
	v := answered(besieged(time.Time{}))
	for _, elevated := range []bool{false, true} {
		v.Overview.State.Daily = captchamode.DailyState{Failures: 1312, Threshold: 33.4, Elevated: elevated}
		page, err := RenderNow(v)
		if err != nil || strings.Contains(string(page), "1,312 logins of unknown clients failed in 24 hours (step-up above 33)") != elevated {
			t.Errorf("elevated %v: %v\n%s", elevated, err, page)
		}
	}
}
