package challenge_test

import (
	"context"
	"fmt"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/image"
)

// A challenge is issued to an address for a purpose, and can be solved once, from
// there and for that.
func ExampleIssuer() {
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
	ctx := context.Background()
	bond := challenge.Binding{Address: [16]byte{1}, Purpose: [16]byte{2}} // keyed digests
	one, err := desk.Issue(ctx, bond, false)
	if err != nil {
		panic(err)
	}
	fmt.Println(one.Kind, one.Image == "/captcha/"+one.ID+".png")
	for _, answer := range []string{"", "not the digits", "another try"} {
		verdict, err := desk.Check(ctx, challenge.Solution{ID: one.ID, Answer: answer}, bond)
		fmt.Println(verdict.Solved, verdict.Reason, err)
	}
	// Output:
	// image true
	// false absent <nil>
	// false wrong <nil>
	// false spent <nil>
}
