package challenge_test

import (
	"context"
	"fmt"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/image"
)

// A challenge is issued to an address and can be solved once, from there.
func ExampleDesk() {
	pictures, err := image.New(image.Config{})
	if err != nil {
		panic(err)
	}
	desk, err := challenge.New(challenge.Config{
		Secret: []byte("32 random bytes, from a keys file"), Spent: challenge.NewMemorySpent(0, nil), BuiltIn: pictures,
	})
	if err != nil {
		panic(err)
	}
	ctx, address := context.Background(), [16]byte{1} // a keyed digest of the address
	one, err := desk.Issue(ctx, address, false)
	if err != nil {
		panic(err)
	}
	fmt.Println(one.Kind, one.Image == "/captcha/"+one.ID+".png")
	for _, answer := range []string{"", "not the digits", "another try"} {
		verdict, err := desk.Check(ctx, address, challenge.Solve{ID: one.ID, Answer: answer})
		fmt.Println(verdict.Solved, verdict.Reason, err)
	}
	// Output:
	// image true
	// false absent <nil>
	// false wrong <nil>
	// false spent <nil>
}
