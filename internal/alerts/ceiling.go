package alerts

import (
	"fmt"
	"time"
)

const ceilingWindow = time.Hour

// A ceiling allows so many messages in any hour. A quarter of them is for
// important ones, so that a stream of ordinary alerts cannot use it up before
// the attack ends.
type ceiling struct {
	perHour int
	sent    []time.Time // the last perHour, oldest first
}

// next is when a message may go; zero for at once.
func (c *ceiling) next(important bool) time.Time {
	room := c.perHour
	if !important {
		room -= c.reserve()
	}
	if len(c.sent) < room {
		return time.Time{}
	}
	// One nanosecond, since an interval of exactly an hour has both its ends.
	return c.sent[len(c.sent)-room].Add(ceilingWindow + 1)
}

func (c *ceiling) reserve() int { return min(c.perHour-1, max(1, c.perHour/4)) }

func (c *ceiling) took(now time.Time) {
	c.sent = append(c.sent, now)
	if extra := len(c.sent) - c.perHour; extra > 0 {
		c.sent = append(c.sent[:0], c.sent[extra:]...)
	}
}

// note tells the reader why alerts come late.
func (c *ceiling) note(held int) string {
	if held == 0 {
		return ""
	}
	return fmt.Sprintf("%d of these waited: at most %d messages are sent per hour.", held, c.perHour)
}
