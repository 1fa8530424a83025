package image

import (
	"crypto/subtle"
	"unicode"
)

const maxAnswer = 64

func matches(digits []byte, answer string) bool {
	if len(answer) > maxAnswer {
		return false
	}
	typed, ok := parse(answer)
	return ok && subtle.ConstantTimeCompare(typed, digits) == 1
}

// parse returns the values of the digits. It skips spaces, since users type groups, and accepts other scripts, since
// keyboards have their own digits.
func parse(answer string) ([]byte, bool) {
	var typed []byte
	for _, r := range answer {
		if unicode.IsSpace(r) {
			continue
		}
		value, ok := digitValue(r)
		if !ok {
			return nil, false
		}
		typed = append(typed, value)
	}
	return typed, len(typed) > 0
}

// digitValue returns the value of a decimal digit of any script. Unicode has each script's ten digits in order, and
// so do Go's tables; a test checks them.
func digitValue(r rune) (byte, bool) {
	if r >= '0' && r <= '9' {
		return byte(r - '0'), true
	}
	for _, run := range unicode.Nd.R16 {
		if rune(run.Lo) <= r && r <= rune(run.Hi) {
			return byte((r - rune(run.Lo)) % 10), true
		}
	}
	for _, run := range unicode.Nd.R32 {
		if rune(run.Lo) <= r && r <= rune(run.Hi) {
			return byte((r - rune(run.Lo)) % 10), true
		}
	}
	return 0, false
}
