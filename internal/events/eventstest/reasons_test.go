package eventstest

import (
	"slices"
	"testing"
	"unsafe"

	"authguard/guard"
)

func TestReasonsReadBackAsWritten(t *testing.T) {
	t.Parallel()
	if got, want := unsafe.Sizeof(guard.Reasons{}), unsafe.Sizeof(struct {
		list [4]guard.Reason
		n    uint8
	}{}); got != want {
		t.Fatalf("guard.Reasons has %d bytes, not %d: its layout changed", got, want)
	}
	r := Reasons(guard.Reason{Cause: guard.ModeOn}, guard.Reason{Cause: guard.LimitReached, Subject: guard.OnAccount})
	if got, want := r.Codes(), []string{"captcha-mode", "limit:account"}; !slices.Equal(got, want) {
		t.Fatalf("codes %q, want %q", got, want)
	}
}
