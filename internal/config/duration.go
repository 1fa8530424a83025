package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	errDuration = errors.New("must be a duration such as 30s, 5m, 12h, 7d or 2w")
	daysPattern = regexp.MustCompile(`^(?:([0-9]{1,5})w)?(?:([0-9]{1,5})d)?(.*)$`)
)

// parseDuration reads Go's durations with weeks and days before them: 2w,
// 1d12h, 90s. A day is 24 hours.
func parseDuration(text string) (time.Duration, error) {
	m := daysPattern.FindStringSubmatch(text)
	if m == nil || text == "" {
		return 0, fmt.Errorf("%w, not %s", errDuration, quote(text))
	}
	days, rest := 7*atoi(m[1])+atoi(m[2]), time.Duration(0)
	if m[3] != "" {
		var err error
		if rest, err = time.ParseDuration(m[3]); err != nil || rest < 0 && days > 0 {
			return 0, fmt.Errorf("%w, not %s", errDuration, quote(text))
		}
	}
	// Two hundred years still fit into an int64 of nanoseconds.
	if days > 100*365 || rest > 100*365*day {
		return 0, fmt.Errorf("must be a duration of less than a hundred years, not %s", quote(text))
	}
	return time.Duration(days)*day + rest, nil
}

// formatDuration is what parseDuration reads, as short as it goes: 90d, 24h,
// 1m30s.
func formatDuration(d time.Duration) string {
	if d >= 2*day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// atoi reads digits that a pattern has already checked; none are zero.
func atoi(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
