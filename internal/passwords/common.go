package passwords

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"strings"
)

// common has the passwords of at least eight characters from @zxcvbn-ts/language-common 4.1.3 (npm, MIT), sorted: see
// common.LICENSE.
//
//go:embed common.txt.gz
var common []byte

// IsCommon reports whether a password is one of the 17,950 most common ones of at least eight characters, in any case.
// It takes about a millisecond, and keeps no memory.
func IsCommon(password string) bool {
	password = strings.ToLower(password)
	unpacked, err := gzip.NewReader(bytes.NewReader(common))
	if err != nil {
		return false // never: a test reads the list
	}
	for lines := bufio.NewScanner(unpacked); lines.Scan(); {
		if lines.Text() == password {
			return true
		}
	}
	return false
}
