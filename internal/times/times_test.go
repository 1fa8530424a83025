package times_test

import (
	"fmt"
	"time"

	"authguard/internal/times"
)

func Example() {
	at := time.Date(2026, 3, 2, 14, 5, 10, 0, time.FixedZone("CET", 3600))
	fmt.Println(times.Text(at))
	fmt.Println(times.Day(at), times.Clock(at))
	fmt.Println(times.Date(at), times.Zone(at))
	fmt.Println(times.RFC3339(at), times.Second(at))
	fmt.Printf("%q %q\n", times.Text(time.Time{}), times.RFC3339(time.Time{}))
	// Output:
	// 2026-03-02 14:05:10 CET
	// 2026-03-02 14:05
	// 2 Mar 2026 CET
	// 2026-03-02T13:05:10.000Z 2026-03-02T13:05:10Z
	// "-" ""
}
