//go:build apps

package main

import "testing"

func TestAppsAGibibyteTakesNoMemory(t *testing.T) { streams(t, 1<<30) }
