package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A result is how many samples tesseract read completely.
type result struct {
	cleaning string
	psm      string
	right    int
}

// tesseractReads runs tesseract on images prepared in each way that an attacker would try, and counts the best.
func tesseractReads(s setting, n int) (right int, how string, err error) {
	dir, err := os.MkdirTemp("", "readrate")
	if err != nil {
		return 0, "", err
	}
	defer os.RemoveAll(dir)
	samples, err := draw(s, n)
	if err != nil {
		return 0, "", err
	}
	for _, c := range cleanings {
		results, err := read(dir, samples, c)
		if err != nil {
			return 0, "", err
		}
		for _, r := range results {
			if r.right >= right {
				right, how = r.right, fmt.Sprintf("  %s, psm %s", r.cleaning, r.psm)
			}
		}
	}
	return right, how, nil
}

// segmentations are tesseract's page modes for one line: "a line" and "a word".
var segmentations = []string{"7", "8"}

func read(dir string, samples []sample, c cleaning) ([]result, error) {
	paths, err := write(dir, samples, c)
	if err != nil {
		return nil, err
	}
	results := make([]result, len(segmentations))
	for i, psm := range segmentations {
		texts, err := tesseract(dir, paths, psm)
		if err != nil {
			return nil, err
		}
		results[i] = result{c.name, psm, count(samples, texts)}
	}
	return results, nil
}

func write(dir string, samples []sample, c cleaning) (paths []string, err error) {
	for i, s := range samples {
		var encoded bytes.Buffer
		if err := png.Encode(&encoded, c.apply(s.picture)); err != nil {
			return nil, err
		}
		path := filepath.Join(dir, fmt.Sprintf("%03d.png", i))
		if err := os.WriteFile(path, encoded.Bytes(), 0o600); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// tesseract reads all images in one run, separated by form feeds. It crashes on a few (division by zero), which ends
// the whole run. Bisection finds that image, which counts as not read.
func tesseract(dir string, paths []string, psm string) ([]string, error) {
	list := filepath.Join(dir, "list.txt")
	if err := os.WriteFile(list, []byte(strings.Join(paths, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("tesseract", list, "-", "--psm", psm, "--dpi", "150",
		"-c", "tessedit_char_whitelist=0123456789")
	cmd.Env = append(os.Environ(), "OMP_THREAD_LIMIT=1")
	out, err := cmd.Output()
	var crashed *exec.ExitError
	switch {
	case err == nil:
		return strings.Split(string(out), "\f")[:len(paths)], nil
	case !errors.As(err, &crashed):
		return nil, fmt.Errorf("tesseract: %w", err)
	case len(paths) == 1:
		return []string{""}, nil
	}
	half := len(paths) / 2
	before, err := tesseract(dir, paths[:half], psm)
	if err != nil {
		return nil, err
	}
	after, err := tesseract(dir, paths[half:], psm)
	return append(before, after...), err
}

func count(samples []sample, texts []string) (right int) {
	for i, s := range samples {
		if strings.Join(strings.Fields(texts[i]), "") == s.digits {
			right++
		}
	}
	return right
}
