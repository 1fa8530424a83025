package redistest

import (
	"net"
	"strconv"
	"testing"
)

// Two servers on one port: the tests of the second one would talk to the first.
func TestAPortIsHandedOutOnce(t *testing.T) {
	t.Parallel()
	_, port, _ := net.SplitHostPort(FreeAddress(t))
	if n, err := strconv.Atoi(port); err != nil || reserve(n) {
		t.Errorf("port %s twice (%v)", port, err)
	}
}
