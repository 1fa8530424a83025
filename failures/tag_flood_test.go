//go:build !race

package failures

import (
	"testing"
	"time"
)

// R6: four hundred thousand invented names push no wrong password out that came twice, and
// the table does not grow. Within what an attempt may take, they push out none.
func TestR28AFloodOfNamesPushesNoKnownPasswordOut(t *testing.T) {
	t.Parallel()
	m, pass := newTags(t)
	stale := Tag{Account: account(0), Value: 7}
	m.offered(stale)
	if !m.Repeated(stale, ChargeID{At: m.clock()}) {
		t.Fatal("the second try is not recognized")
	}
	for n := range uint64(400_000) {
		if n%1000 == 0 {
			pass(3 * time.Second)
		}
		m.offered(Tag{Account: account(n + 1), Value: 7})
	}
	if !m.Knows(stale) {
		t.Error("the flood pushed it out")
	}
	if late := (Tag{Account: account(2_000_000), Value: 7}); m.noted(late) {
		pass(TagLife + time.Millisecond)
		if m.Knows(late) || m.Knows(stale) {
			t.Error("known for longer than a day")
		}
	} else {
		t.Error("after the flood nothing new is remembered")
	}
}
