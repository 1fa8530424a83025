package config_test

import (
	"fmt"

	"authguard/internal/config"
)

func ExampleParse() {
	file := "listn: ':8080'\nlimits:\n  account: [0/1h block]\n"
	_, err := config.Parse("authguard.yaml", []byte(file), []string{"AUTHGUARD_SESSION_LIFETIME=soon"})
	fmt.Println(err)
	// Output:
	// authguard.yaml:1: listn: unknown key; did you mean listen?
	// authguard.yaml:3: limits.account[0].failures: must be from 1 to 4000, not 0
	// AUTHGUARD_SESSION_LIFETIME: session.lifetime: must be a duration such as 30s, 5m, 12h, 7d or 2w, not "soon"
}

func ExampleDiff() {
	before, after := config.Default(), config.Default()
	after.Listen, after.Log.Level = ":8080", config.LevelDebug
	reloadable, needsRestart := config.Diff(before, after)
	fmt.Println(reloadable, needsRestart)
	// Output: [log.level] [listen]
}
