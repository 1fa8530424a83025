package times

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is a [time.Duration] that JSON, YAML and flags write as text. The zero Duration is "0s".
type Duration time.Duration

const (
	day  = 24 * time.Hour
	most = 100 * 365 * day
)

var pattern = regexp.MustCompile(`^(?:([0-9]{1,5})w)?(?:([0-9]{1,5})d)?(0|(?:[0-9.]+[a-zµμ]+)*)$`)

// ParseDuration parses weeks and days, each a whole number, followed by anything that [time.ParseDuration] accepts: 2w, 1d12h,
// 90s. A day is 24 hours. Negative durations and a hundred years or more are errors, which read well after the
// setting's name.
func ParseDuration(text string) (time.Duration, error) {
	m := pattern.FindStringSubmatch(text)
	if m == nil || text == "" {
		return 0, notADuration(text)
	}
	weeks, _ := strconv.Atoi("0" + m[1]) // the pattern admits only digits
	days, _ := strconv.Atoi("0" + m[2])
	var rest time.Duration
	if m[3] != "" {
		var err error
		if rest, err = time.ParseDuration(m[3]); err != nil {
			return 0, notADuration(text)
		}
	}
	// At most 799,992 days and 292 years: counted in hours, they cannot overflow.
	if 24*(7*weeks+days)+int(rest/time.Hour) >= int(most/time.Hour) {
		return 0, fmt.Errorf("must be a duration of less than a hundred years, not %.60q", text)
	}
	return time.Duration(7*weeks+days)*day + rest, nil
}

func notADuration(text string) error {
	return fmt.Errorf("must be a duration such as 30s, 5m, 12h, 7d or 2w, not %.60q", text)
}

// FormatDuration returns the shortest text that [ParseDuration] parses as d: 90d, 24h, 1m30s. One day is 24h because limits are usually
// compared in hours.
func FormatDuration(d time.Duration) string {
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

// String is [FormatDuration].
func (d Duration) String() string { return FormatDuration(time.Duration(d)) }

// MarshalText is [FormatDuration], for JSON, YAML and flags.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is [ParseDuration]. An invalid text leaves d unchanged.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	if err == nil {
		*d = Duration(parsed)
	}
	return err
}
