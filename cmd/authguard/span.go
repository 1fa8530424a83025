package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A span is a duration on the command line: Go's form, and d and w for days
// and weeks.
type span time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *span) UnmarshalText(text []byte) error {
	word := string(text)
	for unit, size := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if n, err := strconv.ParseUint(strings.TrimSuffix(word, unit), 10, 16); strings.HasSuffix(word, unit) && err == nil {
			*s = span(time.Duration(n) * size)
			return nil
		}
	}
	d, err := time.ParseDuration(word)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is no duration: write something like 30m, 2h or 7d", word)
	}
	*s = span(d)
	return nil
}

func (s span) String() string { return time.Duration(s).String() }
