package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fileOf is a file of this content.
func fileOf(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAMissingHtpasswdFileIsAnsweredWithHowToMakeIt(t *testing.T) {
	t.Parallel()
	file := fileOf(t, "a.yaml", "accounts: {source: htpasswd, htpasswd: /no/such/file}\n")
	said := say(t, exec.Command(product, "-c", file, "config", "validate"), "")
	if said.status != 1 || !strings.Contains(said.complaints, "no such file or directory. Create it with: htpasswd -cB /no/such/file USER") {
		t.Errorf("%+v", said)
	}
}

func TestReplaySaysWhichYearItAssumed(t *testing.T) {
	t.Parallel()
	const line = "Mar 27 13:08:09 host sshd[1361]: Failed password for root from 203.0.113.9 port 54259 ssh2\n"
	said := say(t, exec.Command(product, "limit", "replay", fileOf(t, "auth.log", line)), "")
	if said.status != 0 || !strings.Contains(said.out, "the first line's year is assumed to be 20") {
		t.Errorf("%+v", said)
	}
	said = say(t, exec.Command(product, "limit", "replay", "--year", "2020", fileOf(t, "auth.log", line)), "")
	if said.status != 0 || strings.Contains(said.out, "assumed") {
		t.Errorf("%+v", said)
	}
}

// What a container prints on one stream is JSON from the first line on.
func TestTheBannerIsJSONWhereTheLogIs(t *testing.T) {
	t.Parallel()
	s := newServer(t, "log: {format: json}\n")
	for line := range bytes.Lines([]byte(s.banner)) {
		if !json.Valid(line) {
			t.Errorf("%s", line)
		}
	}
	if s.banner == "" || s.password == "" {
		t.Errorf("no banner: %q", s.banner)
	}
}
