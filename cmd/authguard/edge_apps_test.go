//go:build apps

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

// wholeLines are names that would be lines of the log, whatever reads them.
var wholeLines = []string{
	"alice", "alice from 6.6.6.6", "x\ntime=2026-11-22T12:00:00.000Z level=INFO msg=\"attempt failed\" address=6.6.6.6 integration=login",
	"time=2026-11-22T12:00:00.000Z level=INFO msg=\"attempt failed\" address=6.6.6.6 integration=login account=x",
	"x\r\n\r\nvm authguard[1]: time=2026-11-22T12:00:00.000Z level=INFO msg=\"attempt blocked\" address=6.6.6.6 integration=login",
	`x" address=6.6.6.6 integration="login`, `x","address":"6.6.6.6","integration":"login`, "x\u2028address=6.6.6.6 integration=",
	"x\n" + `{"time":"2026-11-22T12:00:00.000Z","level":"INFO","msg":"attempt failed","address":"6.6.6.6","integration":"login"}`,
	`{"time":"2026-11-22T12:00:00.000Z","level":"INFO","msg":"attempt failed","address":"6.6.6.6","integration":"login"}`,
	"\x00\x1b[2J6.6.6.6", "<ADDR>6.6.6.6</ADDR>",
}

// The real fail2ban reads what the real server logs.
func TestAppsFail2banReadsTheTrueAddressOnly(t *testing.T) {
	if !doctest.Alone(t) {
		return
	}
	filter := filepath.Join(doctest.Root(t), "deploy/fail2ban/filter.d/authguard.conf")
	for _, format := range []string{"text", "json"} {
		s := newServer(t, quiet+"log: {format: "+format+"}\n", "alice")
		var want []string
		for i, name := range wholeLines {
			at := fmt.Sprintf("127.8.0.%d", i+1)
			from(at).login(t, s, name, "wrong")
			want = append(want, at)
		}
		from("127.8.1.1").login(t, s, "alice", rightPassword)
		redistest.Until(t, "the log", func() bool { return s.log.has("127.8.1.1") })
		s.stop()
		ours := regexp.MustCompile(`(?m)^(time=|\{)`)
		for kind, text := range map[string]string{"file": s.log.String(), "journal": ours.ReplaceAllString(s.log.String(), "vm authguard[77]: $1")} {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("fail2ban-regex", "-o", "ip", path, filter).CombinedOutput()
			got := slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool { return line == "" })
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, %s: fail2ban (apt-get install fail2ban) would ban %q (%v), want %q\n%s", format, kind, got, err, want, text)
			}
		}
	}
	s := doctest.NewShell(t, product)
	if said, ok := s.Run("rm -f /etc/fail2ban/jail.d/*; cd $ROOT\n" + doctest.Claimed(t, "docs/how-to/firewall.md")[0].Text + "fail2ban-client -t"); !ok || !strings.Contains(said, "OK: configuration test is successful") {
		t.Error(said)
	}
	if said := s.Try("fail2ban-client -d"); !strings.Contains(said, "'authguard', 'addfailregex'") && !strings.Contains(said, "'multi-set', 'authguard', 'addfailregex'") {
		t.Errorf("fail2ban has no such jail: %s", said)
	}
}

// The real Prometheus takes the configuration of the document and the alerts, and they
// go off when they should.
func TestAppsPrometheusTakesTheAlerts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rules, err := os.ReadFile("../../deploy/prometheus/authguard.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	at := write("authguard.rules.yml", string(rules))
	config := strings.Replace(doctest.Claimed(t, "docs/reference/metrics.md")[0].Text, "/etc/prometheus/authguard.rules.yml", at, 1)
	const series = `    input_series:
      - {series: 'up{job="authguard", instance="a"}', values: '1 1 0 0 0 0'}
      - {series: 'authguard_captcha_mode{realm="default"}', values: '0 0 0 1 1 1'}
      - {series: 'authguard_redis_up{instance="a"}', values: '1 1 1 0 0 0'}
      - {series: 'authguard_attempts_total{job="authguard", realm="shop", ending="succeeded", cause="none"}', values: '0+2x60 120x60'}
`
	test := "rule_files: [" + at + "]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n" + series + "    alert_rule_test:\n"
	for _, when := range []struct {
		alert, at string
		labels    string
	}{
		{"AuthguardDown", "2m", ""}, {"AuthguardDown", "3m", `{job: authguard, instance: a, severity: page}`},
		{"AuthguardUnderAttack", "2m", ""}, {"AuthguardUnderAttack", "3m", `{realm: default, severity: info}`},
		{"AuthguardRedisLost", "3m", ""}, {"AuthguardRedisLost", "4m", `{instance: a, severity: page}`},
		{"AuthguardNoLogins", "80m", ""}, {"AuthguardNoLogins", "105m", `{job: authguard, realm: shop, severity: page}`},
	} {
		expected := "[]"
		if when.labels != "" {
			expected = "\n          - exp_labels: " + when.labels + "\n            exp_annotations: {summary: '" + summary(string(rules), when.alert) + "'" + runbookOf(string(rules), when.alert) + "}"
		}
		test += "      - eval_time: " + when.at + "\n        alertname: " + when.alert + "\n        exp_alerts: " + expected + "\n"
	}
	for _, args := range [][]string{{"check", "config", write("prometheus.yml", config)}, {"test", "rules", write("test.yml", test)}} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v (apt-get install prometheus): %v\n%s", args, err, out)
		}
	}
}

// runbookOf is the annotation of an alert that leads to its runbook, if it has one.
func runbookOf(rules, alert string) string {
	_, rule, _ := strings.Cut(rules, "alert: "+alert+"\n")
	rule, _, _ = strings.Cut(rule, "- alert:")
	if _, url, ok := strings.Cut(rule, "runbook_url: "); ok {
		url, _, _ = strings.Cut(url, "\n")
		return ", runbook_url: '" + url + "'"
	}
	return ""
}

// summary is what an alert of this test says.
func summary(rules, alert string) string {
	m := regexp.MustCompile(`(?s)alert: ` + alert + `\n.*?summary: "([^"]*)"`).FindStringSubmatch(rules)
	if m == nil {
		return ""
	}
	return strings.NewReplacer("{{ $labels.instance }}", "a", "{{ $labels.realm }}", map[bool]string{true: "shop", false: "default"}[alert == "AuthguardNoLogins"]).Replace(m[1])
}

// The real TCP wrappers deny what is blocked, and nobody else.
func TestAppsHostsDenyDenies(t *testing.T) {
	s := newServer(t, quiet)
	for _, cidr := range []string{"192.0.2.0/24", "198.51.100.7", "2001:db8:7::/48", "2001:db8::1"} {
		s.must("ip", "block", cidr)
	}
	s.must("ip", "allow", "192.0.2.0/25")
	dir := t.TempDir()
	s.must("ip", "export", "blocked", "--format", "hosts.deny", "--output", filepath.Join(dir, "hosts.deny"))
	if err := os.WriteFile(filepath.Join(dir, "hosts.allow"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for address, denied := range map[string]bool{
		"192.0.2.200": true, "192.0.2.7": false, "198.51.100.7": true, "198.51.100.8": false, "203.0.113.1": false,
		"2001:db8:7:1::5": true, "2001:db8:8::5": false, "2001:db8::1": true, "2001:db8::2": false,
	} {
		cmd := exec.Command("tcpdmatch", "-d", "sshd", address)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if says := strings.Contains(string(out), "denied"); err != nil || says != denied || strings.Contains(string(out), "warning") {
			t.Errorf("%s (apt-get install tcpd): %v\n%s", address, err, out)
		}
	}
}
