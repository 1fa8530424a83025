package config

import "slices"

// Diff lists the settings that differ, in the order of
// docs/configuration.md: those that a running service takes over on reload,
// and those that it takes over only when it is restarted. If needsRestart is
// not empty, the reloadable ones may still be taken over.
//
// Limits are reloadable because counters keep moments, not answers: new limits
// judge the old failures.
func Diff(old, new Config) (reloadable, needsRestart []string) {
	before, after := keys(&old), keys(&new)
	for i, k := range after {
		switch {
		case equal(before[i].value.node(), k.value.node()):
		case k.live:
			reloadable = append(reloadable, k.path)
		default:
			needsRestart = append(needsRestart, k.path)
		}
	}
	return reloadable, needsRestart
}

func equal(a, b node) bool {
	return a.kind == b.kind && a.text == b.text && slices.EqualFunc(a.items, b.items, equal)
}
