package captchamode_test

import (
	"fmt"
	"time"

	"authguard/captchamode"
)

// A botnet of many addresses switches the mode on; two quiet hours switch it off.
func ExampleMode() {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	mode, err := captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return now }, func(s captchamode.Switch) {
		fmt.Println(s.Was(), "→", s.Now(), "by", s.Cause)
	})
	if err != nil {
		panic(err)
	}
	for i := range 31 {
		mode.Observe(captchamode.Failure, [16]byte{byte(i)}) // a keyed digest of the address
	}
	for range 3 * 60 {
		now = now.Add(time.Minute)
		mode.Tick() // Run does so in a service
	}
	// Output:
	// off → throttling by failure-rate
	// throttling → on by failure-rate
	// on → off by cool-down
}

// An override takes precedence over the detector until it ends.
func ExampleMode_Force() {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	mode, err := captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return now }, nil)
	if err != nil {
		panic(err)
	}
	err = mode.Force(captchamode.Override{State: captchamode.ForcedOn, Who: "ann", Why: "a drill", Until: now.Add(time.Hour)})
	fmt.Println(mode.On(), err)
	now = now.Add(time.Hour)
	mode.Tick()
	fmt.Println(mode.On())
	// Output:
	// true <nil>
	// false
}
