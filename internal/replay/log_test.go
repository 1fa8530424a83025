package replay_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"authguard/internal/replay"
)

// write makes a log of lines.
func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns "time account address outcome" of every attempt, and what became of the
// lines.
func read(t *testing.T, c replay.Config, paths ...string) (all []string, s replay.Stats) {
	t.Helper()
	if c.Zone == nil {
		c.Zone = time.UTC
	}
	l, err := replay.Open(paths, c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for {
		var a replay.Attempt
		more, err := l.Next(&a)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return all, l.Stats()
		}
		name := a.Account
		if !a.Named {
			name = "-"
		}
		all = append(all, fmt.Sprintf("%s %q %s %d", a.At.Format("2006-01-02 15:04:05.999"), name, a.Address, a.Outcome))
	}
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAccessLogs(t *testing.T) {
	t.Parallel()
	path := write(t, "access.log", `203.0.113.9 - - [10/Oct/2026:13:55:36 +0200] "POST /login HTTP/1.1" 302 0 "-" "Mozilla \"5\" [x]"
203.0.113.9 - - [10/Oct/2026:13:55:37 +0200] "POST /login?next=/a HTTP/1.1" 200 512 "-" "-"
www.example.org:443 2001:db8::7 - ann lee [10/Oct/2026:06:55:38 -0500] "POST /login HTTP/2.0" 401 9
203.0.113.9 - ann [10/Oct/2026:11:55:39 +0000] "POST /login HTTP/1.1" 401 9
203.0.113.9 - - [10/Oct/2026:11:55:39 +0000] "GET /login HTTP/1.1" 200 9
203.0.113.9 - - [10/Oct/2026:11:55:39 +0000] "POST /wp-login.php HTTP/1.1" 200 9
203.0.113.9 - - [10/Oct/2026:11:55:40 +0000] "POST /login HTTP/1.1" 503 9
unix: - - [10/Oct/2026:11:55:41 +0000] "POST /login HTTP/1.1" 302 9
203.0.113.9 - - [99/Foo/2026:11:55:41 +0000] "POST /login HTTP/1.1" 302 9
203.0.113.9 - - [10/Oct/2026:11:55:41 +0000] "POST /login" [x] "\"" 302 9
rubbish

`)
	all, s := read(t, replay.Config{}, path)
	same(t, all,
		`2026-10-10 11:55:36 "-" 203.0.113.9 1`,
		`2026-10-10 11:55:37 "-" 203.0.113.9 0`,
		`2026-10-10 11:55:38 "ann lee" 2001:db8::7 0`,
		`2026-10-10 11:55:39 "ann" 203.0.113.9 0`)
	if s.Lines != 12 || s.Others != 5 || s.Bad != 3 || s.Attempts != 4 || s.Named != 2 || s.Succeeded != 1 || s.Failed != 3 {
		t.Errorf("%+v", s)
	}
	if len(s.First) != 3 || s.First[0].Line != 8 || s.First[2].Text != "rubbish" {
		t.Errorf("%+v", s.First)
	}
}

func TestAnotherLoginAndOtherStatuses(t *testing.T) {
	t.Parallel()
	path := write(t, "access.log", `203.0.113.9 - - [10/Oct/2026:11:55:36 +0000] "PUT /api/session HTTP/1.1" 200 0
203.0.113.9 - - [10/Oct/2026:11:55:37 +0000] "PUT /api/session HTTP/1.1" 403 0
203.0.113.9 - - [10/Oct/2026:11:55:38 +0000] "POST /b HTTP/1.1" 403 0
203.0.113.9 - - [10/Oct/2026:11:55:38 +0000] "POST /b HTTP/1.1" 403 0
203.0.113.9 - - [10/Oct/2026:11:55:38 +0000] "POST /a HTTP/1.1" 403 0
`)
	request, err := replay.ParseRequest("put /api/session")
	if err != nil {
		t.Fatal(err)
	}
	c := replay.Config{Logins: []replay.Request{request}, Success: []string{"200"}, Failure: []string{"403"}, Zone: time.UTC}
	all, _ := read(t, c, path)
	same(t, all, `2026-10-10 11:55:36 "-" 203.0.113.9 1`, `2026-10-10 11:55:37 "-" 203.0.113.9 0`)

	l, err := replay.Open([]string{path}, c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for more := true; more; {
		var a replay.Attempt
		if more, err = l.Next(&a); err != nil {
			t.Fatal(err)
		}
	}
	same(t, l.OtherPosts(), "/b (2)", "/a (1)")
}

func TestSSHLogs(t *testing.T) {
	t.Parallel()
	path := write(t, "auth.log", `Dec 31 23:59:58 host sshd[1]: Failed password for root from 203.0.113.9 port 1 ssh2
Jan  1 00:00:01 host sshd-session[1]: Accepted publickey for ann from 2001:db8::7 port 1 ssh2: RSA SHA256:x
Dec 31 23:59:59 host sshd[1]: Failed password for late from 203.0.113.9 port 1 ssh2
Jan  1 00:00:02 host sshd[1]: message repeated 2 times: [ Failed password for invalid user x from 203.0.113.9 port 1 ssh2]
Jan  1 00:00:03 host sshd[1]: Failed password for invalid user a from 192.0.2.1 port 9 ssh2 from 203.0.113.9 port 1 ssh2
Jan  1 00:00:03 host sshd[1]: Failed password for invalid user  from 203.0.113.9 port 1 ssh2
Jan  1 00:00:04 host sshd[1]: Failed publickey for ann from 203.0.113.9 port 1 ssh2: RSA SHA256:x
Jan  1 00:00:04 host sshd[1]: Server listening on 0.0.0.0 port 22.
Jan  1 00:00:04 host sudo: Failed password for root from 203.0.113.9 port 1 ssh2
2027-01-01T01:00:05.25+01:00 host sshd[1]: Failed password for root from 203.0.113.9 port 1 ssh2
Jan  1 00:00:06 host sshd[1]: Failed password for root from nowhere port 1 ssh2
yesterday host sshd[1]: Failed password for root from 203.0.113.9 port 1 ssh2
`)
	all, s := read(t, replay.Config{Year: 2026}, path)
	same(t, all,
		`2026-12-31 23:59:58 "root" 203.0.113.9 0`,
		`2027-01-01 00:00:01 "ann" 2001:db8::7 1`,
		`2027-01-01 00:00:01 "late" 203.0.113.9 0`, // told as of the moment
		`2027-01-01 00:00:02 "x" 203.0.113.9 0`,
		`2027-01-01 00:00:02 "x" 203.0.113.9 0`,
		`2027-01-01 00:00:03 "a from 192.0.2.1 port 9 ssh2" 203.0.113.9 0`,
		`2027-01-01 00:00:03 "" 203.0.113.9 0`,
		`2027-01-01 00:00:05.25 "root" 203.0.113.9 0`)
	if s.Bad != 2 || s.Others != 3 || s.Late != 1 || s.Latest != 2*time.Second || s.Named != 8 {
		t.Errorf("%+v", s)
	}
}

func TestTheYearOfALogIsThatOfItsLastChange(t *testing.T) {
	t.Parallel()
	path := write(t, "auth.log", "Nov  2 10:00:00 host sshd[1]: Failed password for root from 203.0.113.9 port 1 ssh2\n")
	if err := os.Chtimes(path, time.Time{}, time.Date(2025, 2, 1, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	all, _ := read(t, replay.Config{}, path)
	same(t, all, `2024-11-02 10:00:00 "root" 203.0.113.9 0`)
}

func TestJSONLines(t *testing.T) {
	t.Parallel()
	path := write(t, "log.json", `{"@timestamp":"2026-10-10T11:55:36.5Z","user":{"name":"ann"},"source":{"ip":"203.0.113.9"},"event":{"outcome":"success"}}
{"time":"2026-10-10 11:55:37","username":"ann\u0000<b>","ip":"203.0.113.9:4711","status":401,"tags":["a",{"ip":"x"}]}
{"ts":1791633338.25,"email":"a@b","remote_addr":"[2001:db8::7]:1","success":false}
{"msec":1791633339000,"user":null,"clientip":"203.0.113.9","result":"challenged"}
{"time":"2026-10-10T11:55:40Z","ip":"203.0.113.9","outcome":"perhaps"}
{"time":"2026-10-10T11:55:40Z","ip":"nowhere","outcome":"ok"}
{"ip":"203.0.113.9","outcome":"ok"}
{"time":"2026-10-10T11:55:40Z"
{"time":"2026-10-10T11:55:40Z"} {}
`)
	all, s := read(t, replay.Config{}, path)
	same(t, all,
		`2026-10-10 11:55:36.5 "ann" 203.0.113.9 1`,
		`2026-10-10 11:55:37 "ann\x00<b>" 203.0.113.9 0`,
		`2026-10-10 11:55:38.25 "a@b" 2001:db8::7 0`,
		`2026-10-10 11:55:39 "-" 203.0.113.9 2`)
	if s.Bad != 5 || len(s.First) != 5 {
		t.Errorf("%+v", s)
	}
}

func TestFieldsOfOnesOwn(t *testing.T) {
	t.Parallel()
	path := write(t, "log.json", `{"when":"2026-10-10T11:55:36Z","user":"not she","who":"ann","time":"nonsense","peer":"203.0.113.9","code":"E0","n":2}`+"\n")
	all, _ := read(t, replay.Config{
		Fields:  map[string]string{"time": "when", "account": "who", "address": "peer", "outcome": "code", "count": "n"},
		Success: []string{"E0"}, Failure: []string{"E1"},
	}, path)
	same(t, all, `2026-10-10 11:55:36 "ann" 203.0.113.9 1`, `2026-10-10 11:55:36 "ann" 203.0.113.9 1`)
}

func TestCSV(t *testing.T) {
	t.Parallel()
	path := write(t, "log.csv", "\ufeff"+`"Login Timestamp";User ID;IP Address;Login Successful;Other
2020-02-03 12:43:30.772;"a;b";10.0.65.171;True;1
2020-02-03 12:43:31;x;10.0.65.171;False;1
2020-02-03 12:43:31;x;10.0.65.171
`)
	all, s := read(t, replay.Config{}, path)
	same(t, all, `2020-02-03 12:43:30.772 "a;b" 10.0.65.171 1`, `2020-02-03 12:43:31 "x" 10.0.65.171 0`)
	if s.Bad != 1 || s.Others != 1 || s.Lines != 4 {
		t.Errorf("%+v", s)
	}
}

// Rows of the audit log stand for many attempts each, between two moments; those that
// sum a minute up come after rows that were later.
func TestTheAuditLog(t *testing.T) {
	t.Parallel()
	path := write(t, "audit.jsonl", `{"id":1,"at":"2026-10-10T11:00:30Z","kind":"attempt","decision":"succeeded","account":"ann","address":"203.0.113.9","count":1}
{"id":2,"at":"2026-10-10T11:00:31Z","kind":"admin","decision":"unlock","account":"ann","count":1,"who":"admin:bob"}
{"id":3,"at":"2026-10-10T11:00:10Z","last":"2026-10-10T11:00:50Z","kind":"attempt","decision":"blocked","address":"198.51.100.0/24","count":3}
{"id":4,"at":"2026-10-10T11:00:40Z","last":"2026-10-10T11:00:41Z","kind":"attempt","decision":"failed","account":"bob","address":"unknown","count":2}
`)
	all, s := read(t, replay.Config{}, path)
	same(t, all,
		`2026-10-10 11:00:10 "-" 198.51.100.0 2`,
		`2026-10-10 11:00:30 "ann" 203.0.113.9 1`,
		`2026-10-10 11:00:30 "-" 198.51.100.0 2`,
		`2026-10-10 11:00:40 "bob" invalid IP 0`,
		`2026-10-10 11:00:41 "bob" invalid IP 0`,
		`2026-10-10 11:00:50 "-" 198.51.100.0 2`)
	if s.Files[0].Format != "audit" || s.Others != 1 || s.Late != 0 {
		t.Errorf("%+v", s)
	}
}

func TestSeveralFilesCompressedOrNotAreOneLog(t *testing.T) {
	t.Parallel()
	line := func(second int) string {
		return fmt.Sprintf("203.0.113.9 - - [10/Oct/2026:11:55:%02d +0000] \"POST /login HTTP/1.1\" 302 0\n", second)
	}
	var zipped, packed bytes.Buffer
	g := gzip.NewWriter(&zipped)
	_, _ = g.Write([]byte(line(1) + line(5)))
	_ = g.Close()
	z, _ := zstd.NewWriter(&packed)
	_, _ = z.Write([]byte(line(2) + line(6)))
	_ = z.Close()
	all, s := read(t, replay.Config{},
		write(t, "access.log", line(3)+line(4)+strings.TrimSpace(line(7))), write(t, "access.log.1.gz", zipped.String()), write(t, "access.log.2.zst", packed.String()))
	if len(all) != 7 || s.Late != 0 || s.Attempts != 7 || len(s.Files) != 3 {
		t.Errorf("%q %+v", all, s)
	}
}

func TestALineThatIsTooLongIsABadOne(t *testing.T) {
	t.Parallel()
	good := `203.0.113.9 - - [10/Oct/2026:11:55:36 +0000] "POST /login HTTP/1.1" 302 0` + "\n"
	all, s := read(t, replay.Config{}, write(t, "access.log", good+strings.Repeat("x", 3<<20)+"\n"+good))
	if len(all) != 2 || s.Lines != 3 || s.Bad != 1 || !strings.Contains(s.First[0].Why, "1 MiB") || len(s.First[0].Text) > 200 {
		t.Errorf("%q %+v", all, s)
	}
}

func TestWhatCannotBeReadIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, want string
		config     replay.Config
	}{
		"empty":      {"", "is empty", replay.Config{}},
		"unknown":    {"hello\nworld\n", "--format", replay.Config{}},
		"no column":  {"time,ip\n", "set it with --field outcome=NAME", replay.Config{Format: "csv"}},
		"both":       {"x", `"200" cannot be both`, replay.Config{Success: []string{"200"}}},
		"field":      {"x", `unknown field "colour"`, replay.Config{Fields: map[string]string{"colour": "x"}}},
		"format":     {"x", `unknown format "iis"`, replay.Config{Format: "iis"}},
		"not zipped": {"\x1f\x8bnonsense", "gzip", replay.Config{}},
	} {
		_, err := replay.Open([]string{write(t, "x", c.text)}, c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := replay.Open([]string{t.TempDir()}, replay.Config{}); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := replay.ParseRequest("login"); err == nil {
		t.Error("login is no path")
	}
}

func TestALogWithItsNewestLinesFirstIsRefused(t *testing.T) {
	t.Parallel()
	for _, lines := range []int{3000, 30} {
		var b strings.Builder
		for i := lines; i > 0; i-- {
			fmt.Fprintf(&b, "203.0.113.9 - - [10/Oct/2026:11:%02d:%02d +0000] \"POST /login HTTP/1.1\" 302 0\n", i/60, i%60)
		}
		l, err := replay.Open([]string{write(t, "access.log", b.String())}, replay.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var a replay.Attempt
		for more := true; more; {
			if more, err = l.Next(&a); err != nil {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), "tac") {
			t.Errorf("%d lines: %v", lines, err)
		}
	}
}

func FuzzEveryFormat(f *testing.F) {
	for i, line := range []string{
		`203.0.113.9 - - [10/Oct/2026:13:55:36 +0200] "POST /login HTTP/1.1" 302 0 "-" "Mozilla"`,
		`Jan  1 00:00:02 host sshd[1]: message repeated 2 times: [ Failed password for invalid user x from 203.0.113.9 port 1 ssh2]`,
		`{"id":3,"at":"2026-10-10T11:00:10Z","last":"2026-10-10T11:00:50Z","kind":"attempt","decision":"blocked","address":"198.51.100.0/24","count":3}`,
		`{"@timestamp":"2026-10-10T11:55:36.5Z","user":{"name":"ann"},"source":{"ip":"203.0.113.9"},"event":{"outcome":"success"}}`,
		"at,kind,count,address,decision\n2026-10-10T11:00:10Z,attempt,2,203.0.113.9,failed",
		"time,ip,ok\n2026-10-10T11:00:10Z,203.0.113.9,1",
	} {
		f.Add(uint8(i), line)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, format uint8, text string) {
		path := filepath.Join(dir, fmt.Sprintf("%x", time.Now().UnixNano()))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		formats := replay.Formats()
		l, err := replay.Open([]string{path}, replay.Config{Format: formats[int(format)%len(formats)], Zone: time.UTC})
		if err != nil {
			return
		}
		defer l.Close()
		var before time.Time
		for range 1000 {
			var a replay.Attempt
			more, err := l.Next(&a)
			if err != nil {
				return
			}
			if !more {
				if s := l.Stats(); s.Attempts == 0 && s.Others+s.Bad != s.Lines {
					t.Errorf("%d lines, of which %d and %d", s.Lines, s.Others, s.Bad)
				}
				return
			}
			if a.At.Before(before) {
				t.Errorf("%v after %v", a.At, before)
			}
			before = a.At
		}
	})
}
