package accounts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// MaxGroups is the maximum number of an account's groups: forward auth sends all of them in one header.
const MaxGroups = 50

// groupPattern matches names that every gateway, log and comma-separated list can hold.
var groupPattern = regexp.MustCompile(`^[A-Za-z0-9._@:/+-]{1,64}$`)

// ParseGroups parses the groups of an account in authguard's table, separated by commas, semicolons or spaces. It sorts
// them and removes duplicates. The error is ErrGroup.
func ParseGroups(text string) ([]string, error) {
	all := groupsOf(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",; \t", r) }))
	for _, name := range all {
		if !groupPattern.MatchString(name) {
			return nil, fmt.Errorf("%w: %.70q; write 1 to 64 letters, digits and ._@:/+-", ErrGroup, name)
		}
	}
	if len(all) > MaxGroups {
		return nil, fmt.Errorf("%w: %d are too many: an account may be in %d", ErrGroup, len(all), MaxGroups)
	}
	return all, nil
}

// foreignGroups parses the groups of another program's account, separated by commas. Names may contain spaces and any
// letters; it drops those with control characters.
func foreignGroups(text string) []string {
	all := strings.Split(text, ",")
	for i, name := range all {
		if all[i] = strings.TrimSpace(name); !printable(name) {
			all[i] = ""
		}
	}
	return groupsOf(all)
}

func groupsOf(names []string) []string {
	all := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
	slices.Sort(all)
	return slices.Compact(all)
}

// printable reports whether a text is valid in a header.
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}
