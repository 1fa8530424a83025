package test

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"authguard/guard"
)

func TestEveryRuleHasATestOfItsName(t *testing.T) {
	t.Parallel()
	held := map[string]int{}
	name := regexp.MustCompile(`(?m)^func Test(R[0-9]+)[A-Z]`)
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "bench/") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range name.FindAllStringSubmatch(string(text), -1) {
			held[match[1]]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	listed, err := os.ReadFile("docs/contributing/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := 0
	for _, match := range regexp.MustCompile(`(?m)^\| (R[0-9]+) \| \*\*`).FindAllStringSubmatch(string(listed), -1) {
		if rules++; match[1] != fmt.Sprint("R", rules) {
			t.Errorf("docs/contributing/rules.md has %s where R%d should be", match[1], rules)
		}
		if held[match[1]] == 0 {
			t.Errorf("docs/contributing/rules.md has %s, and no test is called Test%[1]s…", match[1])
		}
	}
	if rules < 31 {
		t.Errorf("docs/contributing/rules.md has %d rules; R1 to R31 must hold", rules)
	}
}

func TestR8AnImpossibleRungIsAnErrorWithTheArithmetic(t *testing.T) {
	t.Parallel()
	policy := guard.DefaultPolicy()
	policy.Account = []guard.Limit{
		{Failures: 2, Window: time.Minute, Action: guard.Challenge},
		{Failures: 300, Window: time.Hour, Action: guard.Challenge},
	}
	err := policy.Validate()
	const want = "limits.account[1].failures: can never be reached: limits.account[0] allows 2 per 1 minute, which is at most 2 × 60 = 120 in 1 hour, fewer than 300"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\ndoes not say\n%s", err, want)
	}
	policy.Account[1].Failures = 120
	if err := policy.Validate(); err != nil {
		t.Errorf("a limit that can just be reached: %v", err)
	}
}
