// Command readrate measures how often programs solve the built-in challenge. It reads the image with tesseract and a
// small network, and the audio with a matched filter and such a network. Each is measured on the library's output and
// on what is served.
//
//	go run ./captchamode/challenge/image/readrate [-only tesseract,network,filter,listener] [-n 200]
//
// It is not part of the tests. Only the tesseract rows need tesseract. For its results, see docs/explanation/challenges.md.
package main

import (
	"flag"
	"fmt"
	"log"
	"strings"
	"time"
)

// A reader tries n challenges of a setting. It returns how many it read completely, and by which method.
type reader struct {
	name string
	read func(s setting, n int) (right int, how string, err error)
	only func(s setting) bool
}

var readers = []reader{
	{"tesseract", tesseractReads, func(setting) bool { return true }},
	{"network", networkReads, usual},
	{"filter", filterReads, usual},
	{"listener", listenerReads, usual},
}

// usual means that only the default size and number of digits are measured.
func usual(s setting) bool { return s.digits == 6 && s.width == 240 }

func main() {
	n := flag.Int("n", 200, "pictures or sounds per row; the filter reads a tenth, as it takes 10 s for each")
	only := flag.String("only", "tesseract,network,filter,listener", "these readers only")
	made := flag.String("made", "", "measure only what is made by \"library\" or \"ours\"")
	flag.Parse()
	fmt.Printf("%s\n\nreader     digits  size     made by   read wholly right\n", time.Now().Format(time.DateOnly))
	for _, r := range readers {
		if !strings.Contains(","+*only+",", ","+r.name+",") {
			continue
		}
		for _, s := range settings {
			if !r.only(s) || *made != "" && s.drawn != *made {
				continue
			}
			count := *n
			if r.name == "filter" {
				count = (count + 9) / 10
			}
			start := time.Now()
			right, how, err := r.read(s, count)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%-10s %d       %-8s %-9s %d of %d (%.1f %%) in %v%s\n", r.name, s.digits, s.size(), s.drawn,
				right, count, 100*float64(right)/float64(count), time.Since(start).Round(time.Second), how)
		}
	}
}
