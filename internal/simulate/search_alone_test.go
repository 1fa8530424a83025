//go:build !race

package simulate_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"authguard/internal/replay"
	"authguard/internal/simulate"
)

// On a log with an attack in it the search is at least as good as the defaults, in both
// ways, and finds the same again.
func TestTheRecordedLog(t *testing.T) {
	t.Parallel()
	find := func() *simulate.Found {
		found, err := simulate.Search(t.Context(), ours()[0], nil, simulate.OfLogs([]string{"../../testdata/ssh.log"}, replay.Config{Year: 2026, Zone: time.UTC}), nil)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	one, two := find(), find()
	base := one.Base.Score
	if one.Best.Let > base.Let || one.Best.Let == base.Let && one.Best.Checked >= base.Checked || one.Best.Met > base.Met || one.Best.KeptOut > base.KeptOut {
		t.Errorf("%+v, where the defaults have %+v", one.Best.Score, base)
	}
	if one.Best.Text != two.Best.Text || !reflect.DeepEqual(scores(one.Frontier), scores(two.Frontier)) {
		t.Errorf("another time:\n%s\n%s", one.Best.Text, two.Best.Text)
	}
	var text, page strings.Builder
	if err := one.Sheet().Text(&text); err != nil || !strings.Contains(text.String(), one.Best.Text) {
		t.Errorf("%v\n%s", err, text.String())
	}
	if err := one.Sheet().Page(&page); err != nil || !strings.Contains(page.String(), "<circle") {
		t.Errorf("%v\n%s", err, page.String())
	}
}

func scores(all []simulate.Limits) (list []simulate.Score) {
	for _, l := range all {
		list = append(list, l.Score)
	}
	return list
}

func TestScenariosAreJudgedByRightGuesses(t *testing.T) {
	t.Parallel()
	s, err := simulate.Parse([]byte("name: x\ndays: 1\npeople: {accounts: 60, common: 0.5}\nattackers: [{kind: walk, from: 1h, for: 2h, attempts: 600, addresses: 1}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	open := ours()[0]
	open.Policy.Address, open.Policy.Network, open.Policy.Account = nil, nil, nil
	got, err := simulate.OfScenarios([]simulate.Scenario{s, s})(t.Context(), []replay.Setup{ours()[0], open})
	if err != nil || len(got) != 2 || got[0].Checked >= got[1].Checked || got[0].Logins != got[1].Logins || got[0].Logins%2 != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
