package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"authguard/internal/database"
	"authguard/internal/testing/redistest"
)

// Something that is missing, or of somewhere else, beside what is there.
func TestR7AServerDoesNotBeginAnewUnasked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose func(t *testing.T, data string) error
		says string
		// forgets: everybody has all limits afresh once it was asked to begin anew.
		forgets bool
	}{
		"the keys file is gone": {func(_ *testing.T, data string) error {
			return os.Remove(filepath.Join(data, "keys"))
		}, "the keys file is missing", true},
		"the keys file and the counters are gone": {func(t *testing.T, data string) error {
			return errors.Join(os.Remove(filepath.Join(data, "keys")), removeAll(t, filepath.Join(data, "counters*")))
		}, "the keys file is missing", true},
		"the saved counters are gone": {func(_ *testing.T, data string) error {
			return os.Remove(filepath.Join(data, "counters"))
		}, "the saved counters are missing", true},
		"the saved counters and their journal are gone": {func(t *testing.T, data string) error {
			return removeAll(t, filepath.Join(data, "counters*"))
		}, "the saved counters are missing", true},
		"the saved counters are cut": {func(_ *testing.T, data string) error {
			return os.Truncate(filepath.Join(data, "counters"), 100)
		}, "the saved counters cannot be used", true},
		"the saved counters are empty": {func(_ *testing.T, data string) error {
			return os.Truncate(filepath.Join(data, "counters"), 0)
		}, "the saved counters cannot be used", true},
		"a bit of the saved counters is flipped": {func(_ *testing.T, data string) error {
			return flip(filepath.Join(data, "counters"))
		}, "the saved counters cannot be used", true},
		"the administrators' saved counters are gone": {func(t *testing.T, data string) error {
			return removeAll(t, filepath.Join(data, "counters-administration*"))
		}, "the saved counters are missing", false},
		"the administrators' saved counters are cut": {func(_ *testing.T, data string) error {
			return os.Truncate(filepath.Join(data, "counters-administration"), 100)
		}, "the saved counters cannot be used", false},
		"the keys file is another": {func(t *testing.T, data string) error {
			return os.WriteFile(filepath.Join(data, "keys"), []byte(otherKeys), 0o600)
		}, "the keys files of the nodes differ", true},
		"the database is empty": {func(t *testing.T, data string) error {
			return errors.Join(removeAll(t, filepath.Join(data, "authguard.db-*")), os.Truncate(filepath.Join(data, "authguard.db"), 0))
		}, "the database is empty", false},
		"the database is gone": {func(t *testing.T, data string) error {
			return removeAll(t, filepath.Join(data, "authguard.db*"))
		}, "the database is empty", false},
		"keys and database are of another folder": {func(t *testing.T, data string) error {
			other := newServer(t, quiet, "alice")
			other.stop()
			err := removeAll(t, filepath.Join(data, "authguard.db*"))
			for _, file := range []string{"keys", "authguard.db"} {
				err = errors.Join(err, os.Rename(filepath.Join(other.dir, "data", file), filepath.Join(data, file)))
			}
			return err
		}, "counted under another key", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, quiet+"limits: {pair_delay: off}\n", "alice")
			if got := from("127.5.5.5").login(t, s, "alice", rightPassword); got.status != http.StatusOK {
				t.Fatalf("%d %s", got.status, got.body)
			}
			for i := range 5 {
				from(loopback(6, i)).login(t, s, "alice", fmt.Sprint("wrong", i))
			}
			s.stop()
			if err := c.lose(t, filepath.Join(s.dir, "data")); err != nil {
				t.Fatal(err)
			}
			for try := range 2 { // the first try must not make what the second one finds
				out, err := s.command("serve").CombinedOutput()
				if err == nil || !strings.Contains(string(out), c.says) || !strings.Contains(string(out), "--allow-data-loss") {
					t.Fatalf("%v\n%s", err, out)
				}
				if try > 0 {
					break
				}
				_, refusal, _ := strings.Cut(string(out), "authguard: ")
				refusal, _, _ = strings.Cut(refusal, "\n")
				s.saysToo(t, refusal[:min(400, len(refusal))], "doctor", "config validate")
			}
			s.start("--allow-data-loss")
			s.stop()
			s.start() // it was said once
			want := map[bool]int{false: http.StatusForbidden, true: http.StatusUnauthorized}[c.forgets]
			if got := from(loopback(7, 1)).login(t, s, "alice", "another"); got.status != want {
				t.Errorf("a guess afterwards: %d, want %d", got.status, want)
			}
		})
	}
}

// saysToo runs commands that find what serve refuses, with its words and no other files
// than before.
func (s *server) saysToo(t *testing.T, refusal string, commands ...string) {
	t.Helper()
	before := listing(t, filepath.Join(s.dir, "data"))
	for _, command := range commands {
		out, err := s.command(strings.Fields(command)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), refusal) {
			t.Errorf("%s: %v\n%s\nwant: %s", command, err, out, refusal)
		}
	}
	if after := listing(t, filepath.Join(s.dir, "data")); after != before {
		t.Errorf("the commands left\n%s\nof\n%s", after, before)
	}
}

// listing is the files of a folder, with size and time.
func listing(t *testing.T, folder string) (all string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		all += fmt.Sprintln(e.Name(), info.Size(), info.ModTime())
	}
	return all
}

// flip changes one bit in the middle of a file.
func flip(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text[len(text)/2] ^= 4
	return os.WriteFile(path, text, 0o600)
}

const otherKeys = "counters 1111111111111111111111111111111111111111111111111111111111111111\n" +
	"challenges 2222222222222222222222222222222222222222222222222222222222222222\n" +
	"cookie 3333333333333333333333333333333333333333333333333333333333333333\n"

func removeAll(t *testing.T, pattern string) (err error) {
	t.Helper()
	files, _ := filepath.Glob(pattern)
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// Thirty times it is killed, far sooner than it saves.
func TestR7KilledFasterThanItSavesItChecksNoMoreThanTheLimit(t *testing.T) {
	long(t)
	t.Parallel()
	s := newServer(t, quiet+"limits: {pair_delay: off}\ncounters: {save_interval: 1m}\n", "alice")
	checked := 0
	for n := range 30 {
		if from(loopback(6, n)).login(t, s, "alice", fmt.Sprint("wrong", n)).status == http.StatusUnauthorized {
			checked++
		}
		s.kill()
		s.start()
	}
	if checked != 5 {
		t.Errorf("%d of 30 guesses were checked, one before each kill -9; want 5", checked)
	}
}

// A request that was sent before the signal is answered during shutdown.delay: here the
// server sees all requests, and the signal, at once.
func TestWhatWasSentBeforeSIGTERMIsAnswered(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"shutdown: {delay: 1m}\n", "alice")
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	connections := make([]net.Conn, 80)
	for i := range connections {
		connections[i] = s.send(t)
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	for _, c := range connections {
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%+v, %v", response, err)
		}
		c.Close()
	}
	s.kill()
}

// send opens a connection and sends a request, and waits for nothing.
func (s *server) send(t *testing.T) net.Conn {
	t.Helper()
	host := strings.TrimPrefix(s.base, "http://")
	c, err := net.Dial("tcp", host)
	if err == nil {
		_, err = fmt.Fprintf(c, "GET /auth/verify HTTP/1.1\r\nHost: %s\r\n\r\n", host)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestToldToStopItIsNotReadyAndGoesOnForAWhile(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"shutdown: {delay: 1m}\n", "alice")
	old := s.send(t)
	reader := bufio.NewReader(old)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.Close {
		t.Fatalf("before: %+v, %v", response, err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	redistest.Until(t, "the server to be not ready", func() bool {
		return from("127.0.0.1").get(t, s.admin+"/readyz").status == http.StatusServiceUnavailable
	})
	got := from("127.0.0.1").get(t, s.admin+"/readyz")
	if !strings.Contains(got.body, "this server is shutting down") {
		t.Errorf("readyz: %s", got.body)
	}
	// A connection that is kept is closed by its next answer, not under its request.
	if _, err := fmt.Fprintf(old, "GET /auth/verify HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if response, err := http.ReadResponse(reader, nil); err != nil || !response.Close || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a connection that was kept: %+v, %v", response, err)
	}
	if got := from("127.5.5.5").login(t, s, "alice", rightPassword); got.status != http.StatusOK {
		t.Errorf("a login meanwhile: %d %s", got.status, got.body)
	}
	s.kill()
}

// A login over a new connection is answered before the signal and during shutdown.delay.
func TestNewConnectionsAroundSIGTERMAreAnswered(t *testing.T) {
	long(t)
	t.Parallel()
	s := newServer(t, quiet+"shutdown: {delay: 1m}\nlimits: {check_timeout: 1m}\n", "alice")
	var all sync.WaitGroup
	for n := range 80 {
		if n == 30 {
			_ = s.cmd.Process.Signal(syscall.SIGTERM)
		}
		all.Go(func() {
			if got := from(loopback(20, n)).login(t, s, "alice", rightPassword); got.status != http.StatusOK {
				t.Errorf("login %d: %d %s", n, got.status, got.body)
			}
		})
	}
	all.Wait()
	s.kill()
}

// At the end of the delay, the server closes the connections without a request and
// answers those in progress. Then the process ends.
func TestARequestInProgressIsAnsweredAfterTheDelay(t *testing.T) {
	t.Parallel()
	app := newSink(t)
	s := newServer(t, quiet+"shutdown: {delay: 100ms}\nproxy: {preset: django, upstream: "+app.URL+"}\n")
	_, idle := s.dial(t, "GET /auth/verify HTTP/1.1\r\nHost: x\r\n\r\n")
	if response, err := http.ReadResponse(idle, nil); err != nil || response.Close {
		t.Fatalf("%+v, %v", response, err)
	} else {
		_, _ = io.Copy(io.Discard, response.Body)
	}
	upload, answer := s.dial(t, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\nx")
	<-app.begun
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if _, err := idle.ReadByte(); err == nil {
		t.Error("a connection without a second request was answered")
	}
	if _, err := io.WriteString(upload, strings.Repeat("x", 1<<20-1)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(answer, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(response.Body); string(body) != "1048576 <nil>\n" || !response.Close {
		t.Errorf("the upload: %q, closes: %v", body, response.Close)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, s.log)
	}
}

// What a server that was killed starts without is found by the commands before the start,
// and reported by the server.
func TestAFolderWithoutRoomForTheServersFilesIsFoundBeforeTheStart(t *testing.T) {
	t.Parallel()
	for _, name := range []string{database.LockName, socketName, strings.Repeat("long", 30)} {
		s := newServer(t, quiet)
		s.stop()
		data := filepath.Join(s.dir, "data")
		switch name {
		case socketName, database.LockName:
			path := filepath.Join(data, name)
			if err := errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
		default:
			file := filepath.Join(s.dir, "authguard.yaml")
			yaml, err := os.ReadFile(file)
			yaml = bytes.Replace(yaml, []byte(data), []byte(filepath.Join(data, name)), 1)
			if err = errors.Join(err, os.WriteFile(file, yaml, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"config", "validate"}, {"doctor"}} {
			if found := say(t, s.command(args...), ""); found.status == 0 || !strings.Contains(found.out+found.complaints, name) {
				t.Errorf("%s: %v: %+v", name, args, found)
			}
		}
	}
}

func TestALostJournalIsFoundBeforeTheStart(t *testing.T) {
	t.Parallel()
	only := func(t *testing.T, data string) string {
		t.Helper()
		files, _ := filepath.Glob(filepath.Join(data, "counters.journal-*"))
		if len(files) != 1 {
			t.Fatalf("journals: %q", files)
		}
		return files[0]
	}
	for name, c := range map[string]struct {
		lose func(t *testing.T, data string) error
		says string
	}{
		"gone": {func(t *testing.T, data string) error { return os.Remove(only(t, data)) },
			"The counters' journal is missing"},
		"empty": {func(t *testing.T, data string) error { return os.Truncate(only(t, data), 0) },
			"The counters' journal is missing"},
		"cut": {func(t *testing.T, data string) error {
			info, err := os.Stat(only(t, data))
			return errors.Join(err, os.Truncate(only(t, data), info.Size()/2))
		}, "The counters' journal is damaged"},
		"flipped": {func(t *testing.T, data string) error { return flip(only(t, data)) },
			"The counters' journal is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, quiet+"limits: {pair_delay: off}\ncounters: {save_interval: 1m}\n", "alice")
			for i := range 4 {
				from(loopback(6, i)).login(t, s, "alice", fmt.Sprint("wrong", i))
			}
			s.kill()
			if d, _ := diagnose(t, s.command("doctor", "--json")); !d.OK {
				t.Errorf("kill -9 is no damage: %+v", d)
			}
			data := filepath.Join(s.dir, "data")
			if err := c.lose(t, data); err != nil {
				t.Fatal(err)
			}
			if d, status := diagnose(t, s.command("doctor", "--json")); status == 0 || d.state("start.counters") != "problem" {
				t.Errorf("doctor: status %d, %+v", status, d)
			}
			if out := s.must("config", "validate"); !strings.Contains(out, c.says) {
				t.Errorf("config validate: %s", out)
			}
			s.start()
			redistest.Until(t, "an alert", func() bool { return s.log.has("kind=counters-lost") })
			if !s.log.has(c.says) {
				t.Errorf("the log does not say: %s", c.says)
			}
		})
	}
}
