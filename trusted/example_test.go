package trusted_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"authguard/trusted"
)

// A place is privileged for the account that has logged in from it, and for no
// other.
func ExampleMemory() {
	ctx, now := context.Background(), time.Now()
	places, err := trusted.NewMemory(trusted.MemoryConfig{})
	if err != nil {
		log.Fatal(err)
	}
	alice, bob, home := trusted.Key{1}, trusted.Key{2}, trusted.Key{3} // in earnest keyed digests
	if err := places.Remember(ctx, alice, home, now); err != nil {
		log.Fatal(err)
	}
	hers, _ := places.Record(ctx, alice, now)
	his, _ := places.Record(ctx, bob, now)
	fmt.Println(hers.Status(home) == trusted.Known, his.Status(home) == trusted.Known)
	// Output: true false
}

// A device cookie says which account has logged in with this browser before.
func ExampleCookies() {
	cookies, err := trusted.NewCookies([]byte("a signing key of thirty-two bytes"))
	if err != nil {
		log.Fatal(err)
	}
	alice := trusted.Key{1}
	text := cookies.Issue(alice, trusted.Key{4}, time.Now())
	account, _, _, err := cookies.Parse(text)
	fmt.Println(account == alice, err)
	_, _, _, err = cookies.Parse(text[1:])
	fmt.Println(err)
	// Output:
	// true <nil>
	// trusted: not a device cookie of ours
}
