// Package config reads authguard's settings: built-in defaults, over them one
// YAML file, over that environment variables.
//
// It promises that nothing is guessed. An unknown key or variable, a key set
// twice, a value of the wrong type or out of range, and a limit that can never
// be reached (rule R8) are errors, all of them reported at once, each with the
// line or the variable that it came from ([Problem]). Every value knows its
// origin ([Loaded.Effective]). Secrets do not print ([Secret]).
//
// Every setting is one row of the table in keys.go. What the settings mean to
// a user is in docs/configuration.md, which a test holds against that table.
//
// The package does not watch the file: whoever reloads calls [Load] again and
// asks [Diff] what may change without a restart.
package config
