package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"authguard/internal/alerts"
)

// minToken is the fewest characters of a bearer token: 128 bits in hex.
const minToken = 32

var (
	tokenPattern = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`) // RFC 6750: b64token
	urlPattern   = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[^\s]+$`)
)

// tokens is a list of bearer tokens. None of its messages repeats one.
func tokens(at *[]Secret) value {
	return list[Secret]{at: at, parts: words, item: func(at *Secret) value {
		return text(at, func(s string) error {
			switch {
			case len(s) < minToken:
				return fmt.Errorf("must have at least %d characters; make one with: openssl rand -hex 32", minToken)
			case !tokenPattern.MatchString(s):
				return errors.New("must consist of letters, digits and -._~+/ so that it fits a header")
			default:
				return nil
			}
		})
	}}
}

// channels is a list of shoutrrr URLs. A variable separates them by white
// space only: the URLs themselves have commas.
func channels(at *[]Secret) value {
	return list[Secret]{at: at, parts: strings.Fields, item: func(at *Secret) value {
		return text(at, func(s string) error {
			if !urlPattern.MatchString(s) {
				return errors.New("must be a URL such as smtp://… or discord://…")
			}
			if err := alerts.Check(s); err != nil {
				return errors.New(strings.TrimPrefix(err.Error(), "alerts: "))
			}
			return nil
		})
	}}
}
