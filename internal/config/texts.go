package config

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/times"
)

// off is the text of the zero value.
const off = "off"

// Settings of several numbers that are written as one text, as in the table of the default policy.
type (
	// PairDelay is written as "3/1h delay 1s to 20s", with "monitor" behind it, or "off".
	PairDelay guard.PairDelay
	// Spray is written as "10 accounts", with "monitor" behind it, or "off".
	Spray guard.Spray
	// Threshold is written as "5x, 30 to 500": a multiple of the baseline and its bounds, or as one number.
	Threshold struct {
		Multiplier float64
		Min, Max   int
	}
	// CoolDown is written as "10m to 2h", or as one duration.
	CoolDown struct{ Min, Max time.Duration }
)

const (
	space  = `\s+`
	number = `([0-9]+)`
	span   = `([0-9][0-9.a-zµμ]*)`
	alone  = `(\s+monitor)?\s*$`
)

var (
	pairDelayText = regexp.MustCompile(`^\s*` + number + `/` + span + space + `delay` + space + span + space + `to` + space +
		span + alone)
	sprayText     = regexp.MustCompile(`^\s*` + number + space + `accounts` + alone)
	thresholdText = regexp.MustCompile(`^\s*(?:([0-9.]+)x,\s*` + number + space + `to` + space + `)?` + number + `\s*$`)
	coolDownText  = regexp.MustCompile(`^\s*(?:` + span + space + `to` + space + `)?` + span + `\s*$`)
)

// read sets the numbers and durations of a text; what is optional and missing stays. The error says what would be read.
func read(pattern *regexp.Regexp, text []byte, such string, to ...any) error {
	found := pattern.FindSubmatch(text)
	for i, one := range to {
		if found == nil || len(found[i+1]) == 0 {
			continue
		}
		part, err := string(found[i+1]), error(nil)
		switch one := one.(type) {
		case *int:
			*one, err = strconv.Atoi(part)
		case *float64:
			*one, err = strconv.ParseFloat(part, 64)
		case *time.Duration:
			*one, err = times.ParseDuration(part)
		case *bool:
			*one = true
		}
		if err != nil {
			found = nil
		}
	}
	if found == nil {
		return fmt.Errorf("must be like %s, not %.60q", such, text)
	}
	return nil
}

func monitored(on bool) string {
	if on {
		return " monitor"
	}
	return ""
}

// UnmarshalText is the inverse of String. After an error, d is undefined.
func (d *PairDelay) UnmarshalText(text []byte) error {
	if *d = (PairDelay{}); string(text) == off {
		return nil
	}
	return read(pairDelayText, text, "3/1h delay 1s to 20s, or off", &d.After, &d.Window, &d.First, &d.Max, &d.Monitor)
}

// String returns the text.
func (d PairDelay) String() string {
	if d == (PairDelay{}) {
		return off
	}
	return fmt.Sprintf("%d/%s delay %s to %s%s", d.After, times.FormatDuration(d.Window), times.FormatDuration(d.First),
		times.FormatDuration(d.Max), monitored(d.Monitor))
}

// UnmarshalText is the inverse of String. After an error, s is undefined.
func (s *Spray) UnmarshalText(text []byte) error {
	if *s = (Spray{}); string(text) == off {
		return nil
	}
	return read(sprayText, text, "10 accounts, or off", &s.Accounts, &s.Monitor)
}

// String returns the text.
func (s Spray) String() string {
	if s == (Spray{}) {
		return off
	}
	return fmt.Sprintf("%d accounts%s", s.Accounts, monitored(s.Monitor))
}

// UnmarshalText is the inverse of String. One number is the threshold whatever the baseline. After an error, t is
// undefined.
func (t *Threshold) UnmarshalText(text []byte) error {
	*t = Threshold{Multiplier: captchamode.DefaultConfig().ThresholdMultiplier}
	err := read(thresholdText, text, "5x, 30 to 500, or one number", &t.Multiplier, &t.Min, &t.Max)
	if t.Min == 0 {
		t.Min = t.Max
	}
	return err
}

// String returns the text.
func (t Threshold) String() string {
	if t.Min == t.Max && t.Multiplier == captchamode.DefaultConfig().ThresholdMultiplier {
		return strconv.Itoa(t.Min)
	}
	return fmt.Sprintf("%gx, %d to %d", t.Multiplier, t.Min, t.Max)
}

// UnmarshalText is the inverse of String. One duration is for all attacks. After an error, c is undefined.
func (c *CoolDown) UnmarshalText(text []byte) error {
	*c = CoolDown{}
	err := read(coolDownText, text, "10m to 2h, or one duration", &c.Min, &c.Max)
	if c.Min == 0 {
		c.Min = c.Max
	}
	return err
}

// String returns the text.
func (c CoolDown) String() string {
	if c.Min == c.Max {
		return times.FormatDuration(c.Min)
	}
	return times.FormatDuration(c.Min) + " to " + times.FormatDuration(c.Max)
}
