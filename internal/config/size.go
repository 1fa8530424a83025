package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// A Size is an amount of memory in bytes.
type Size int64

// Units of a Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

var (
	errSize     = errors.New("must be a size such as 512KiB, 256MiB or 2GiB")
	sizePattern = regexp.MustCompile(`^([0-9]{1,9}) ?(KiB|MiB|GiB)$`)
)

// String is the size in its largest whole unit, as a file may say it.
func (s Size) String() string {
	switch {
	case s != 0 && s%GiB == 0:
		return fmt.Sprintf("%dGiB", s/GiB)
	case s != 0 && s%MiB == 0:
		return fmt.Sprintf("%dMiB", s/MiB)
	case s%KiB == 0:
		return fmt.Sprintf("%dKiB", s/KiB)
	default:
		return fmt.Sprintf("%dB", int64(s))
	}
}

func parseSize(text string) (Size, error) {
	m := sizePattern.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%w, not %s", errSize, quote(text))
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	return Size(n) * map[string]Size{"KiB": KiB, "MiB": MiB, "GiB": GiB}[m[2]], err
}
