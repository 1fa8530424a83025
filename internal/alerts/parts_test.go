package alerts_test

import (
	"strings"
	"testing"

	"authguard/internal/alerts"
)

// Two nodes of one machine have two names in alerts.
func TestNodesOfOneMachineHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	if a, b := alerts.NodeName("127.0.0.1:8080"), alerts.NodeName(":8082"); a == b || !strings.Contains(a, "8080") || !strings.Contains(b, "8082") {
		t.Errorf("%s and %s", a, b)
	}
}
