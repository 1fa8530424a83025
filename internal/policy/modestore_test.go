package policy_test

import (
	"database/sql"
	"log/slog"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/internal/background"
	"authguard/internal/database/databasetest"
	"authguard/internal/policy"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

func TestAPersonsWordAndWhatWasLearnedOutliveTheProcess(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		now := time.Now()
		clock := func() time.Time { return now }
		store := policy.NewModeStore(policy.ModeConfig{DB: db, Realm: "default", Log: slog.New(slog.DiscardHandler)})
		config := captchamode.DefaultConfig()
		mode, err := captchamode.NewMode(config, clock, store.Switched)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Load(t.Context(), mode); err != nil {
			t.Fatal(err)
		}
		for range 20 { // a normal of its own
			for i := range 8 {
				mode.LoggedIn([16]byte{byte(i)}, [16]byte{}, false, now)
			}
			now = now.Add(time.Minute)
			mode.Tick()
		}
		stop := background.Go(store.Run)
		if err := mode.Force(captchamode.Override{State: captchamode.ForcedOn, Who: "ann", Why: "a botnet", Until: now.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		stop()

		again := policy.NewModeStore(policy.ModeConfig{DB: db, Realm: "default", Log: slog.New(slog.DiscardHandler)})
		second, err := captchamode.NewMode(config, clock, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Load(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		before, after := mode.State(), second.State()
		if !second.On() || after.Override.Who != "ann" || after.Override.Why != "a botnet" {
			t.Errorf("the override was lost: %+v", after.Override)
		}
		if after.Normal != before.Normal || after.Normal == 0 {
			t.Errorf("normal was %v, is %v", before.Normal, after.Normal)
		}
		if len(second.Switches()) == 0 {
			t.Error("the history was lost")
		}
	})
}
