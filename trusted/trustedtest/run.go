// Package trustedtest is the test suite for implementations of trusted.Store. Times are arguments, so no test waits.
package trustedtest

import (
	"testing"
	"time"

	"authguard/trusted"
)

// Run runs all tests. open returns an empty store with the default limits. It is called once per subtest, and closes
// the store in t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) trusted.Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s subject)
	}{
		{"a place nobody logged in from is a stranger's", unknownClients},
		{"a remembered place is privileged, for its account only", remembered},
		{"a place expires after its last use, not its first", expires},
		{"the least recently used place goes first", leastRecentlyUsed},
		{"a full account gets one new place an hour", oneAnHour},
		{"a place of long standing goes last", longStanding},
		{"a spent place that is remembered is new", spentIsNew},
		{"a clock that goes backwards takes nothing away", backwards},
		{"a spent place is spent until it expires or is remembered again", spent},
		{"spent places take no room from privileged ones", spentTakesNoRoom},
		{"a spent device never comes back, however many there are", spentIsBounded},
		{"one forgotten place leaves the others alone", forgetOne},
		{"a reset forgets everything and tells when", reset},
		{"a reset is never taken back by an older one", olderReset},
		{"a login before a reset that is told after it changes nothing", toldLate},
		{"the zero key is refused", zeroKey},
		{"parallel use loses nothing", parallel},
		{"random histories agree with the model", histories},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, subject{open(t)})
		})
	}
}

// start has no sub-millisecond part, because stores use milliseconds.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func at(d time.Duration) time.Time { return start.Add(d) }

// key returns digests that differ in the first bytes and the last, like real ones.
func key(kind byte, n int) trusted.Key {
	k := trusted.Key{kind, byte(n), byte(n >> 8)}
	k[15] = byte(n * 31)
	return k
}

func account(n int) trusted.Key { return key('a', n) }
func place(n int) trusted.Key   { return key('p', n) }
