// Command ocrrate measures how often a machine reads the built-in challenge:
// it draws pictures, cleans them up in the ways that an attacker would try,
// gives them to tesseract, and prints how many were read wholly right.
//
//	go run ./captchamode/challenge/image/ocrrate [-n 300] [-digits 6] [-size 240x80]
//
// It needs tesseract and is no part of the tests. docs/challenges.md has the
// table it printed and what was chosen.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"time"
)

func main() {
	n := flag.Int("n", 300, "pictures per setting")
	only := flag.Int("digits", 0, "measure only this many digits")
	size := flag.String("size", "", "measure only this size, like 240x80")
	flag.Parse()
	fmt.Printf("%d pictures per setting, %s\n", *n, time.Now().Format(time.DateOnly))
	fmt.Println("digits  size     drawn      best    with (cleaning, psm)")
	for _, s := range settings {
		if (*only != 0 && s.digits != *only) || (*size != "" && s.size() != *size) {
			continue
		}
		if err := measure(s, *n); err != nil {
			log.Fatal(err)
		}
	}
}

// measure prints the best rate that any way of cleaning reached.
func measure(s setting, n int) error {
	dir, err := os.MkdirTemp("", "ocrrate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	samples, err := draw(s, n)
	if err != nil {
		return err
	}
	var best result
	for _, c := range cleanings {
		results, err := read(dir, samples, c)
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.right > best.right || best.psm == "" {
				best = r
			}
			fmt.Fprintf(os.Stderr, "  %d %s %s %s psm %s: %d of %d\n",
				s.digits, s.size(), s.drawn, c.name, r.psm, r.right, n)
		}
	}
	fmt.Printf("%d       %-8s %-9s %5.1f%%   %s, psm %s\n", s.digits, s.size(), s.drawn,
		100*float64(best.right)/float64(n), best.cleaning, best.psm)
	return nil
}
