package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// number is a whole number from least to most.
func number(at *int, least, most int) value {
	want := "a whole number"
	return scalar[int]{at: at, want: want, bare: true, format: strconv.Itoa, parse: func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("must be %s, not %s", want, quote(text))
		}
		return n, within(n, least, most, cmp.Less, strconv.Itoa)
	}}
}

// decimal is a number from least to most.
func decimal(at *float64, least, most float64) value {
	return checked(at, func(f float64) error { return within(f, least, most, cmp.Less, formatFloat) })
}

// part is a number above 0, and below 1 or equal to it.
func part(at *float64, orOne bool) value {
	return checked(at, func(f float64) error {
		switch {
		case orOne && !(f > 0 && f <= 1):
			return errors.New("must be above 0 and at most 1")
		case !orOne && !(f > 0 && f < 1):
			return errors.New("must be above 0 and below 1")
		default:
			return nil
		}
	})
}

func checked(at *float64, check func(float64) error) value {
	want := "a number"
	return scalar[float64]{at: at, want: want, bare: true, format: formatFloat, parse: func(text string) (float64, error) {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return 0, fmt.Errorf("must be %s, not %s", want, quote(text))
		}
		return f, check(f)
	}}
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// flag is true or false, and none of YAML 1.1's other words for it.
func flag(at *bool) value {
	want := "true or false"
	return scalar[bool]{at: at, want: want, bare: true, format: strconv.FormatBool, parse: func(text string) (bool, error) {
		if text != "true" && text != "false" {
			return false, fmt.Errorf("must be %s, not %s", want, quote(text))
		}
		return text == "true", nil
	}}
}

// word is one of a few.
func word[T ~string](at *T, words ...T) value {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	return choice(at, names, words)
}

// choice is one of a few names, each for a value.
func choice[T comparable](at *T, names []string, values []T) value {
	want := alternatives(names)
	return scalar[T]{at: at, want: want,
		parse: func(text string) (T, error) {
			if i := slices.Index(names, text); i >= 0 {
				return values[i], nil
			}
			var none T
			return none, fmt.Errorf("must be %s, not %s", want, quote(text))
		},
		format: func(v T) string { return names[slices.Index(values, v)] },
	}
}

func alternatives(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// span is a duration from least to most.
func span(at *time.Duration, least, most time.Duration) value {
	want := strings.TrimPrefix(errDuration.Error(), "must be ")
	return scalar[time.Duration]{at: at, want: want, format: formatDuration, parse: func(text string) (time.Duration, error) {
		d, err := parseDuration(text)
		return d, cmp.Or(err, within(d, least, most, cmp.Less, formatDuration))
	}}
}

// size is an amount of memory from least to most.
func size(at *Size, least, most Size) value {
	want := strings.TrimPrefix(errSize.Error(), "must be ")
	return scalar[Size]{at: at, want: want, format: Size.String, parse: func(text string) (Size, error) {
		s, err := parseSize(text)
		return s, cmp.Or(err, within(s, least, most, cmp.Less, Size.String))
	}}
}

// text is a line or several, checked by any number of functions.
func text[T ~string](at *T, checks ...func(string) error) value {
	checks = append(checks, printable)
	return scalar[T]{at: at, want: "text", text: true,
		format: func(v T) string { return string(v) },
		parse: func(s string) (T, error) {
			for _, check := range checks {
				if err := check(s); err != nil {
					return "", err
				}
			}
			return T(s), nil
		},
	}
}

// printable refuses control characters but those that lay text out.
func printable(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\t", r) }) {
		return errors.New("must not contain control characters")
	}
	return nil
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("must not be empty; leave it out for the default")
	}
	return nil
}

func oneLine(s string) error {
	if strings.ContainsAny(s, "\r\n") {
		return errors.New("must be on one line")
	}
	return nil
}
