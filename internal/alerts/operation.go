package alerts

import (
	"context"
	"fmt"
	"strings"

	"authguard/internal/operation"
)

// SendTest sends a test message to every channel and waits for all outcomes.
type SendTest struct{}

// Do implements Request.
func (SendTest) Do(ctx context.Context, a *Alerter, by operation.By) (*operation.Change, error) {
	found, bad := a.Test(ctx, by.Who), []string{}
	for _, one := range found {
		if one.Problem != "" {
			bad = append(bad, one.Channel+": "+strings.ReplaceAll(one.Problem, "\n", "; "))
		}
	}
	notice := operation.Notice{Text: "A test message was sent to every channel. Check that it has arrived."}
	if len(found) == 0 {
		notice = operation.Notice{Bad: true, Text: "No alert channel configured. Add one in alerts.to."}
	} else if len(bad) > 0 {
		notice = operation.Notice{Bad: true, Text: "The test message could not be sent to " + strings.Join(bad, "; ") + "."}
	}
	return &operation.Change{
		Action: operation.Action{Detail: fmt.Sprintf("%d channels, %d of them failed", len(found), len(bad))},
		Answer: map[string]any{"channels": append([]Tested{}, found...)}, Notice: notice,
	}, nil
}
