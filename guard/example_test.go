package guard_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"time"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

// newGuard is a guard that keeps everything in this process's memory.
func newGuard() *guard.Guard {
	counters, err := failures.NewMemory(failures.Config{})
	if err != nil {
		log.Fatal(err)
	}
	places, err := trusted.NewMemory(trusted.MemoryConfig{})
	if err != nil {
		log.Fatal(err)
	}
	mode, err := captchamode.NewMode(captchamode.DefaultConfig(), nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	g, err := guard.New(guard.Config{
		Policy: guard.DefaultPolicy(), Secret: []byte("at least sixteen random bytes"),
		Store: guard.NewLocal(counters, places), Mode: mode,
	})
	if err != nil {
		log.Fatal(err)
	}
	return g
}

// Everything is made from a secret. What is changed is changed before that.
func ExampleDefault() {
	secret := []byte("sixteen random bytes, or more") // from the environment
	g, err := guard.Default(secret, func(d *guard.Defaults) {
		d.Policy.Account[0].Failures = 3
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	fmt.Println(g.Policy().Account[0].Failures)
	// Output: 3
}

// One login from beginning to end. The password is looked at only if the guard
// lets the attempt through.
func Example() {
	ctx, g := context.Background(), newGuard()
	name, password, addr := "alice", "correct horse", netip.MustParseAddr("192.0.2.7")
	checkPassword := func(_ context.Context, d *guard.Decision) (bool, error) {
		return d.Offered(password) == "correct horse", nil
	}

	d, ok, err := g.Login(ctx, guard.Attempt{Account: name, Address: addr}, checkPassword)
	switch {
	case err != nil:
		fmt.Println("try again later:", err)
	case d.Action == guard.Delay || d.Action == guard.Block:
		fmt.Println("wait", d.RetryAfter)
	case d.Action == guard.Challenge:
		fmt.Println("solve a challenge first")
	case !ok:
		fmt.Println("wrong name or password")
	default:
		fmt.Println("welcome,", d.Account)
	}
	// Output: welcome, alice
}

// Where the check cannot be a function, an attempt is begun and settled apart.
// Three wrong passwords in a row make the next one wait.
func ExampleGuard_Begin() {
	ctx, g := context.Background(), newGuard()
	for range 4 {
		d, err := g.Begin(ctx, guard.Attempt{Account: "alice", Address: netip.MustParseAddr("203.0.113.9")})
		if err != nil {
			log.Fatal(err)
		}
		if d.Action != guard.Proceed {
			fmt.Println(d.Action, d.RetryAfter.Round(time.Second), d.Reasons.Codes())
			continue
		}
		fmt.Println("the password may be checked")
		if err := g.Settle(ctx, d.Ticket, guard.OutcomeOf(false)); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// the password may be checked
	// the password may be checked
	// the password may be checked
	// delay 1s [pair-delay]
}

// Whoever has logged in from an address passes there, however many strangers
// have guessed at the account meanwhile.
func ExampleGuard_Settle() {
	ctx, g := context.Background(), newGuard()
	try := func(address string, right bool) guard.Action {
		d, _, err := g.Login(ctx, guard.Attempt{Account: "alice", Address: netip.MustParseAddr(address)},
			func(context.Context, *guard.Decision) (bool, error) { return right, nil })
		if err != nil {
			log.Fatal(err)
		}
		return d.Action
	}
	try("192.0.2.7", true)
	for i := range 5 {
		try(fmt.Sprintf("198.51.%d.1", i), false)
	}
	fmt.Println("a stranger:", try("203.0.113.9", true))
	fmt.Println("at home:", try("192.0.2.7", true))
	// Output:
	// a stranger: challenge
	// at home: proceed
}

// A ticket that travels as text can be settled by another process with the same
// secret.
func ExampleGuard_Seal() {
	ctx, g := context.Background(), newGuard()
	d, err := g.Begin(ctx, guard.Attempt{Account: "alice", Address: netip.MustParseAddr("192.0.2.7")})
	if err != nil {
		log.Fatal(err)
	}
	text := g.Seal(&d.Ticket)

	ticket, err := g.Open(text)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Settle(ctx, ticket, guard.Succeeded))
	fmt.Println(g.Settle(ctx, ticket, guard.Succeeded))
	// Output:
	// <nil>
	// guard: this attempt is already settled
}

// What stands against an account, without changing anything.
func ExampleGuard_Explain() {
	ctx, g := context.Background(), newGuard()
	address := netip.MustParseAddr("203.0.113.9")
	_, _, _ = g.Login(ctx, guard.Attempt{Account: "alice", Address: address},
		func(context.Context, *guard.Decision) (bool, error) { return false, nil })
	e, err := g.Explain(ctx, "alice", netip.Addr{})
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range e.Lines {
		fmt.Println(line.Subject, line.Used, "of", line.Limit.Failures)
	}
	// Output:
	// account 1 of 5
	// account 1 of 100
}

func ExampleGuard_Unlock() {
	ctx, g := context.Background(), newGuard()
	if err := g.Unlock(ctx, "alice", netip.Addr{}); err != nil {
		log.Fatal(err)
	}
}

// Names that look alike to a person are one account.
func ExampleNormaliseAccount() {
	for _, typed := range []string{" Alice", "ＡＬＩＣＥ", "alice"} {
		name, err := guard.NormaliseAccount(typed)
		fmt.Printf("%q %v\n", name, err)
	}
	// Output:
	// "alice" <nil>
	// "alice" <nil>
	// "alice" <nil>
}

// A limit that another one makes unreachable is an error, with the arithmetic.
func ExamplePolicy_Validate() {
	p := guard.DefaultPolicy()
	p.Account = []guard.Limit{
		{Failures: 2, Window: time.Minute, Action: guard.Block},
		{Failures: 300, Window: time.Hour, Action: guard.Block},
	}
	fmt.Println(p.Validate())
	// Output: limits.account[1].failures: can never be reached: limits.account[0] allows 2 per 1 minute, which is at most 2 × 60 = 120 in 1 hour, fewer than 300
}

// The most specific entry decides.
func ExampleLists() {
	var lists guard.Lists
	lists.Set([]guard.Listing{
		{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Verdict: guard.Blocked},
		{Prefix: netip.MustParsePrefix("198.51.100.7/32"), Verdict: guard.Allowed},
	})
	fmt.Println(lists.Look(netip.MustParseAddr("198.51.100.8"), time.Now()) == guard.Blocked)
	fmt.Println(lists.Look(netip.MustParseAddr("198.51.100.7"), time.Now()) == guard.Allowed)
	// Output:
	// true
	// true
}

// Other actions have limits of their own: the sixth password reset within an hour is blocked.
func ExampleGuard_Exceeded() {
	g, err := guard.Default([]byte("sixteen random bytes, or more"), func(d *guard.Defaults) {
		d.Policy.Events = map[string][]guard.EventLimit{
			"password-reset": {{Count: 5, Window: time.Hour, Action: guard.Block, By: guard.OnAccount}},
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	for range 6 {
		d, err := g.Exceeded(context.Background(), "password-reset", guard.Subjects{Account: "alice@example.org"})
		switch {
		case err != nil:
			fmt.Println("try again later") // the counters cannot be read
		case d.Action != guard.Proceed:
			fmt.Println("come back in", guard.Spell(d.RetryAfter))
		default:
			fmt.Println("an email is on its way")
		}
	}
	// Output:
	// an email is on its way
	// an email is on its way
	// an email is on its way
	// an email is on its way
	// an email is on its way
	// come back in 1 hour
}
