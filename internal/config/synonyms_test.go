package config

import (
	"regexp"
	"strings"
	"testing"
)

// one is a line such as limits.account: 5/24h challenge as a file.
func one(line string) []byte {
	key, value, _ := strings.Cut(line, ": ")
	value, _, _ = strings.Cut(value, " # ")
	return []byte(strings.ReplaceAll(key, ".", ": {") + ": " + value + strings.Repeat("}", strings.Count(key, ".")))
}

func problems(t *testing.T, text string) string {
	t.Helper()
	_, err := Parse("t.yaml", []byte(text), nil)
	if err == nil {
		t.Fatalf("%s is taken", text)
	}
	return err.Error()
}

func TestASynonymIsAnsweredWithTheLineToWrite(t *testing.T) {
	t.Parallel()
	if len(synonyms) < 25 {
		t.Errorf("%d synonyms", len(synonyms))
	}
	for key, line := range synonyms {
		said := problems(t, string(one(key+": 1")))
		if !strings.HasSuffix(said, "unknown key; write "+line) || strings.Contains(said, "\n") {
			t.Errorf("%s: %s", key, said)
		}
		text := string(one(line))
		if strings.HasPrefix(line, "challenge.kind") || strings.Contains(line, "proxy.upstream") {
			continue // which need other settings, too
		}
		if _, err := Parse("t.yaml", []byte(text), nil); err != nil {
			t.Errorf("%s: it is told to write %s: %v", key, text, err)
		}
	}
}

func TestAnActionOfOtherProgramsIsNamed(t *testing.T) {
	t.Parallel()
	for word, instead := range actionSynonyms {
		said := problems(t, "limits: {account: [5/1h "+word+", 100/24h block]}")
		if want := `limits.account[0].action: must be block, challenge or fake-failure, not "` + word + `": write ` + instead; !strings.HasSuffix(said, want) {
			t.Errorf("%s\nwant\n%s", said, want)
		}
	}
}

func TestMistakesAreAnsweredWithTheLineToWrite(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"proxy: {upstream: 127.0.0.1:8000, preset: django}":          "proxy.upstream: needs a scheme: write http://127.0.0.1:8000 or https://127.0.0.1:8000",
		"origin: login.example.org":                                  "origin: needs a scheme: write http://login.example.org",
		"data: ~/authguard":                                          "data: must not begin with ~, which only a shell expands: write /",
		"redis: {tls_ca: ~/ca.pem}":                                  "redis.tls_ca: must not begin with ~, which only a shell expands: write /",
		"pages:\n  color: #00695c":                                   `pages.color: has no value: # begins a comment, so write it in quotes: color: "#0f665e"`,
		"alerts: {to: [ops@example.org]}":                            "alerts.to[0]: an email address needs its server: write smtp://mail.example.org:587/?from=SENDER&to=ADDRESS",
		"alerts: {to: [mailto:ops@example.org]}":                     "alerts.to[0]: an email address needs its server: write smtp://",
		"alerts: {to: ['https://hooks.slack.com/services/T1/B1/x']}": "alerts.to[0]: write slack+ before a Slack URL: slack+https://hooks.slack.com/services/",
		"proxy: {upstream: 'http://127.0.0.1:1', routes: [{path: /a, name: login, account: 'form:a', names: '[a-'}]}": "proxy.routes[0].names: must be a regular expression such as [A-Za-z0-9._@+-]+",
		"limits: {site: 10/1m}":             `limits.site[0].action: must be block or fake-failure, not "challenge"`,
		"trusted_proxies: 0.0.0.0/0":        "proxies[0]: would let every client choose its IP address",
		"captcha_mode: {baseline: 50%}":     `captcha_mode.baseline: must be a number, not "50%"`,
		"captcha_mode: {throttle_at: 150%}": "captcha_mode.throttle_at: must be above 0 and below 1",
	} {
		if said := problems(t, text); !strings.Contains(said, want) {
			t.Errorf("%s:\n%s\nwant\n%s", text, said, want)
		}
	}
}

func TestOneValueIsAListOfOneAndAChallengeIsTheDefault(t *testing.T) {
	t.Parallel()
	short := "trusted_proxies: 127.0.0.1\nlimits:\n  network: 60/1m\n  address:\n    - {failures: 10, window: 1m, monitor: true}\n" +
		"  account: 5/1h monitor\ncaptcha_mode: {throttle_at: 33%}\nevents: {reset: 5/1h block by account}\n"
	long := "trusted_proxies: [127.0.0.1]\nlimits:\n  network: [60/1m challenge]\n  address: [10/1m challenge monitor]\n" +
		"  account: [5/1h challenge monitor]\ncaptcha_mode: {throttle_at: 0.33}\nevents: {reset: [5/1h block by account]}\n"
	a, err := Parse("a.yaml", []byte(short), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Parse("b.yaml", []byte(long), nil)
	if err != nil {
		t.Fatal(err)
	}
	if live, restart := Diff(a.Config, b.Config); live != nil || restart != nil {
		t.Errorf("the two ways differ: %v %v", live, restart)
	}
	shown := map[string]string{}
	for _, s := range a.Effective() {
		shown[s.Path] = s.Value
	}
	if shown["captcha_mode.throttle_at"] != "33%" || shown["limits.network"] != "60/1m challenge" {
		t.Errorf("%v", shown)
	}
}

// A limit that cannot be read says nothing about those beside it.
func TestABadActionIsOneProblem(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"limits: {address: [5/1h block, 10/1h block, 100/24h challenge]}", "events: {reset: [5/1h ban by account, 100/1h block by account]}",
	} {
		if said := problems(t, text); strings.Contains(said, "\n") {
			t.Errorf("%s:\n%s", text, said)
		}
	}
}

func TestNoProblemNamesARule(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"trusted_proxies: 0.0.0.0/0", "lists: [{name: x, file: y, limits: [0 block]}]", "limits: {address: [2/1m block, 300/1h block]}"} {
		if said := problems(t, text); regexp.MustCompile(`R\d+|limit \d`).MatchString(said) {
			t.Errorf("%s:\n%s", text, said)
		}
	}
}
