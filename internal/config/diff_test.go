package config_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/config"
)

func TestNothingDiffersFromItself(t *testing.T) {
	t.Parallel()
	if live, restart := config.Diff(config.Default(), config.Default()); live != nil || restart != nil {
		t.Errorf("got %v, %v", live, restart)
	}
}

func TestDiffTellsWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Listen, c.Accounts.CaseSensitive, c.Counters.Memory = ":1", true, config.GiB
	c.Limits.Account = append(slices.Clone(c.Limits.Account), guard.Limit{Failures: 1, Window: time.Hour})
	c.Limits.PairDelay.Monitor = true
	c.Limits.Spray.Accounts = 5
	c.API.Tokens = []config.Secret{"a"}
	c.Log.Level = config.LevelDebug
	live, restart := config.Diff(config.Default(), c)
	if want := []string{"limits.pair_delay", "limits.account", "limits.spray", "log.level", "api.tokens"}; !slices.Equal(live, want) {
		t.Errorf("reloadable: %v", live)
	}
	if want := []string{"listen", "accounts.case_sensitive", "counters.memory"}; !slices.Equal(restart, want) {
		t.Errorf("needs a restart: %v", restart)
	}
}

func TestAChangedSecretIsSeenButNotShown(t *testing.T) {
	t.Parallel()
	old, new := config.Default(), config.Default()
	old.API.Tokens, new.API.Tokens = []config.Secret{"hunter1"}, []config.Secret{"hunter2"}
	if live, _ := config.Diff(old, new); !slices.Equal(live, []string{"api.tokens"}) {
		t.Errorf("got %v", live)
	}
	marshalled, err := json.Marshal(new)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", new, new, new, new.API), string(marshalled)} {
		if strings.Contains(text, "hunter") {
			t.Error(text)
		}
	}
}

func TestEffectiveShowsSecretsAsSet(t *testing.T) {
	t.Parallel()
	l := load(t, "", []string{"AUTHGUARD_API_TOKENS=0123456789abcdef0123456789abcdef,0123456789abcdef0123456789abcdeg"})
	for _, s := range l.Effective() {
		switch s.Path {
		case "api.tokens":
			if s.Value != "(set)" || s.Origin != "AUTHGUARD_API_TOKENS" || !s.Live {
				t.Errorf("got %+v", s)
			}
		case "accounts.database", "alerts.to":
			if s.Value != "" {
				t.Errorf("got %+v", s)
			}
		case "limits.account":
			if s.Value != "5/24h challenge, 100/24h block" {
				t.Errorf("got %+v", s)
			}
		}
	}
}
