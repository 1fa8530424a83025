package config

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"authguard/guard"
)

const twoRealms = `
realms:
  - name: shop
    hosts: [shop.example.org]
    limits:
      pair_delay: off
      address: []
  - name: gold
    tokens: [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]
    captcha_mode: {threshold: 50}
origin: https://login.example.org:8443
limits:
  account: [7/24h challenge]
captcha_mode: {threshold: "5x, 30 to 600"}
`

func parse(t *testing.T, text string, environ ...string) *Loaded {
	t.Helper()
	l, err := Parse("t.yaml", []byte(text), environ)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestARealmHasWhatItLeavesOutFromTheRest(t *testing.T) {
	t.Parallel()
	l := parse(t, twoRealms, "AUTHGUARD_LIMITS_NETWORK=9/1m challenge")
	shop, gold := l.In(l.Realms[0]), l.In(l.Realms[1])
	seven := []guard.Limit{{Failures: 7, Window: 24 * time.Hour, Action: guard.Challenge}}
	for name, c := range map[string]Config{"shop": shop, "gold": gold} {
		if !reflect.DeepEqual(c.Limits.Account, seven) || c.Limits.Network[0].Failures != 9 {
			t.Errorf("%s: %+v %+v", name, c.Limits, c.CAPTCHAMode)
		}
	}
	if shop.Limits.PairDelay.First != 0 || shop.Limits.Address != nil || gold.Limits.PairDelay.First == 0 || gold.Limits.Address == nil {
		t.Error("the limits of one are the other's")
	}
	if shop.CAPTCHAMode.Threshold.Max != 600 || gold.CAPTCHAMode.Threshold.Max != 50 || l.CAPTCHAMode.Threshold.Min != 30 {
		t.Error("the site of one is the other's")
	}
	if shop.Origin != "https://shop.example.org:8443" || gold.Origin != l.Config.Origin {
		t.Errorf("origins: %s, %s", shop.Origin, gold.Origin)
	}
	tenants := parse(t, "origin: https://login.example.org\nrealms: [{name: tenants, hosts: ['*.example.org']}]\n")
	if got := tenants.In(tenants.Realms[0]).Origin; got != "" { // that of origin is another realm's
		t.Errorf("without a host the origin is %s", got)
	}
	if len(shop.API.Tokens) != 0 || len(gold.API.Tokens) != 1 {
		t.Errorf("tokens: %v %v", shop.API, gold.API)
	}
}

func TestEveryRealmsSettingsAreShownWithTheirOrigin(t *testing.T) {
	t.Parallel()
	got := map[string]Setting{}
	for _, s := range parse(t, twoRealms).Effective() {
		got[s.Path] = s
	}
	for _, want := range []Setting{
		{"realms", "shop, gold", "t.yaml:2", true},
		{"realms[0].limits.pair_delay", "off", "t.yaml:6", true},
		{"realms[0].limits.account", "7/24h challenge", "t.yaml:13", true},
		{"realms[0].accounts.source", "table", "default", false},
		{"realms[1].tokens", "(set)", "t.yaml:9", true},
		{"realms[1].captcha_mode.threshold", "50", "t.yaml:10", true},
	} {
		if got[want.Path] != want {
			t.Errorf("got %+v, want %+v", got[want.Path], want)
		}
	}
}

func TestRealmsDifferByName(t *testing.T) {
	t.Parallel()
	before, after := Default(), Default()
	before.Realms = []Realm{{Name: "shop"}, {Name: "blog"}}
	after.Realms = []Realm{{Name: "gold"}, {Name: "shop", Hosts: []string{"h"}, Accounts: Accounts{Source: "query"}}}
	after.Realms[1].Limits.DelayUpTo = time.Second
	live, restart := Diff(before, after)
	if want := []string{"realms.gold", "realms.shop.hosts", "realms.shop.limits.delay_up_to", "realms.blog"}; !slices.Equal(live, want) {
		t.Errorf("live: %v", live)
	}
	if want := []string{"realms.shop.accounts.source"}; !slices.Equal(restart, want) {
		t.Errorf("restart: %v", restart)
	}
}
