package simulate_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/config"
	"authguard/internal/replay"
	"authguard/internal/simulate"
)

// judge is a judge to whom an address' first limit is worth what it says, and meets people
// the more the lower it is.
func judge(calls *int) simulate.Judge {
	return func(_ context.Context, setups []replay.Setup) (all []simulate.Score, err error) {
		for _, s := range setups {
			*calls++
			n := s.Policy.Address[0].Failures
			all = append(all, simulate.Score{Checked: int64(n), Met: int64(100 / n), Logins: 1000})
		}
		return all, nil
	}
}

func TestTheFewestGuessesForTheFrictionThatIsAllowed(t *testing.T) {
	t.Parallel()
	for friction, want := range map[float64]int{1: 3, 0.02: 5, 0.011: 10, 0.005: 20, 0: 20} {
		calls := 0
		found, err := simulate.Search(t.Context(), ours()[0], &friction, judge(&calls), nil)
		if err != nil {
			t.Fatal(err)
		}
		// The limit is at a quarter, half, once or twice what it was: with four times as much the next one could never be reached.
		if got := found.Best.Policy.Address[0].Failures; got != want {
			t.Errorf("friction %v: %d, want %d", friction, got, want)
		}
		if found.Tried != calls || len(found.Frontier) < 3 {
			t.Errorf("%d tried in %d calls, %d at the frontier", found.Tried, calls, len(found.Frontier))
		}
		for i, l := range found.Frontier[1:] {
			if l.Met < found.Frontier[i].Met || l.Checked >= found.Frontier[i].Checked {
				t.Errorf("frontier: %+v after %+v", l.Score, found.Frontier[i].Score)
			}
		}
		if l := guard.DefaultPolicy().Address[0]; found.Base.Policy.Address[0] != l {
			t.Errorf("what it began with was changed: %+v", found.Base.Policy.Address[0])
		}
	}
}

// Nobody has said what may be: then it is what the limits in force cost, and what is found
// is at least as good in both ways.
func TestWhatIsFoundIsNoWorseThanWhatThereWas(t *testing.T) {
	t.Parallel()
	for cost, allowed := range map[int64]float64{200: 0.2, 0: 0.001} {
		found, err := simulate.Search(t.Context(), ours()[0], nil, func(_ context.Context, setups []replay.Setup) (all []simulate.Score, err error) {
			for _, s := range setups {
				// Fewer guesses for more challenges by address; by account for nothing.
				address, account := int64(s.Policy.Address[0].Failures), int64(s.Policy.Account[0].Failures)
				all = append(all, simulate.Score{Checked: int64(100*address + account), Met: cost + 20 - address, Logins: 1000})
			}
			return all, nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		was := found.Base.Score
		if found.Friction != max(allowed, was.Friction()) || found.Best.Met > max(was.Met, 1) || found.Best.Checked >= was.Checked {
			t.Errorf("allowed %v: %+v for %+v", found.Friction, found.Best.Score, was)
		}
	}
}

func TestNobodyIsKeptOutForFewerGuesses(t *testing.T) {
	t.Parallel()
	found, err := simulate.Search(t.Context(), ours()[0], new(1.0), func(_ context.Context, setups []replay.Setup) (all []simulate.Score, err error) {
		for _, s := range setups {
			n := s.Policy.Account[1].Failures
			all = append(all, simulate.Score{Checked: int64(n), KeptOut: max(0, int64(100-n)), Logins: 1000})
		}
		return all, nil
	}, nil)
	if err != nil || found.Best.Policy.Account[1].Failures != 100 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestAJudgeThatFailsEndsTheSearch(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	_, err := simulate.Search(t.Context(), ours()[0], new(1.0), func(context.Context, []replay.Setup) ([]simulate.Score, error) { return nil, broken }, nil)
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}

// What is printed is what was tried.
func TestWhatIsToPasteIsAConfiguration(t *testing.T) {
	t.Parallel()
	s := ours()[0]
	s.Policy.Address = []guard.Limit{{Failures: 7, Window: 90 * time.Second, Action: guard.Challenge, Monitor: true}, {Failures: 70, Window: 36 * time.Hour, Action: guard.Block}}
	s.Policy.PairDelay.After, s.Mode.ThresholdMultiplier, s.Mode.ThresholdMin = 2, 8, 12
	loaded, err := config.Parse("found", []byte(simulate.Text(s)), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, simulate.Text(s))
	}
	if p := loaded.Policy(); !reflect.DeepEqual(p.Address, s.Policy.Address) || p.PairDelay != s.Policy.PairDelay {
		t.Errorf("%+v\n%+v", p, s.Policy)
	}
	if loaded.CAPTCHAMode.Mode() != s.Mode {
		t.Errorf("%+v", loaded.CAPTCHAMode)
	}
}

// Attackers' logins and checked guesses are two figures, not one sum.
func TestASuggestionHasAFigureForEachColumn(t *testing.T) {
	t.Parallel()
	score := simulate.Limits{Score: simulate.Score{Let: 96, Checked: 10095, Met: 3, Logins: 100}}
	present, same := score, score
	present.Let, same.Text = 97, "other limits that score the same"
	found := simulate.Found{Base: present, Best: score, Frontier: []simulate.Limits{same, present}}
	var text, page bytes.Buffer
	if err := errors.Join(found.Sheet().Text(&text), found.Sheet().Page(&page)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	for i, last := range []string{"limits", "suggested", "present"} {
		if row := strings.Fields(lines[len(lines)-3+i]); row[len(row)-1] != last {
			t.Errorf("row %d of the table: %q, want %s at its end", i, row, last)
		}
	}
	for _, out := range []string{text.String(), page.String()} {
		if !strings.Contains(out, "10,095") || strings.Contains(out, "96.0") || !strings.Contains(out, "checked guesses") {
			t.Errorf("%s", out)
		}
	}
}
