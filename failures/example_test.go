package failures_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"authguard/failures"
)

// A charge is made before the password is looked at, and taken back if it was
// right. With a limit of two the third charge finds no room.
func ExampleMemory_Charge() {
	m, err := failures.NewMemory(failures.Config{})
	if err != nil {
		log.Fatal(err)
	}
	limitSet := failures.MustLimits(failures.Backoff{}, failures.Limit{Failures: 2, Window: time.Minute})
	alice := failures.Key{1} // in earnest a keyed digest
	subjects := []failures.Subject{{Shard: alice, Key: alice, Limits: limitSet, Bind: failures.Every}}
	usage := make([]failures.Usage, 1)
	for range 3 {
		id, err := m.Charge(context.Background(), subjects, usage)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(id.Charged(), usage[0].Count)
	}
	// Output:
	// true 0
	// true 1
	// false 2
}

func ExampleMemory_TakeBack() {
	m, err := failures.NewMemory(failures.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, usage := context.Background(), make([]failures.Usage, 1)
	limitSet := failures.MustLimits(failures.Backoff{}, failures.Limit{Failures: 2, Window: time.Minute})
	subjects := []failures.Subject{{Shard: failures.Key{1}, Key: failures.Key{1}, Limits: limitSet, Bind: failures.Every}}
	id, _ := m.Charge(ctx, subjects, usage)
	if err := m.TakeBack(ctx, id, subjects); err != nil {
		log.Fatal(err)
	}
	err = m.Read(ctx, subjects, usage, nil)
	fmt.Println(usage[0].Count, err)
	// Output: 0 <nil>
}

func ExampleNewLimits() {
	_, err := failures.NewLimits(failures.Backoff{}, failures.Limit{Failures: 0, Window: time.Minute})
	fmt.Println(err)
	// Output: failures: limit 0: failures must be from 1 to 4000, not 0
}

// After three failures a second, then twice that each time, up to twenty.
func ExampleBackoff_Delay() {
	b := failures.Backoff{After: 3, First: time.Second, Max: 20 * time.Second, Window: time.Hour}
	for n := 2; n < 9; n++ {
		fmt.Print(b.Delay(n), " ")
	}
	// Output: 0s 1s 2s 4s 8s 16s 20s
}
