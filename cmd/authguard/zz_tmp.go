package main

import (
	"fmt"
	"os"
)

type globals struct{ Config string }

func (g *globals) configPath() string { return os.Getenv("AUTHGUARD_CONFIG") }

func main() {
	if err := (serveCmd{}).Run(&globals{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
