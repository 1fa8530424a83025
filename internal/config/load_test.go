package config_test

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/config"
)

func TestWithoutFileAndVariablesTheDefaultsHold(t *testing.T) {
	t.Parallel()
	l := load(t, "", nil)
	if !reflect.DeepEqual(l.Config, config.Default()) {
		t.Errorf("got %+v", l.Config)
	}
	for _, s := range l.Effective() {
		if s.Origin != "default" {
			t.Errorf("%s comes from %s", s.Path, s.Origin)
		}
	}
}

func TestDefaultsAreThePolicyOutOfTheBox(t *testing.T) {
	t.Parallel()
	c := config.Default()
	if got, want := c.Policy(), guard.DefaultPolicy(); !reflect.DeepEqual(got, want) {
		t.Errorf("policy: got %+v, want %+v", got, want)
	}
	if got, want := c.CAPTCHAMode.Mode(), captchamode.DefaultConfig(); got != want {
		t.Errorf("mode: got %+v, want %+v", got, want)
	}
}

func TestTheFileGoesOverTheDefaults(t *testing.T) {
	t.Parallel()
	l := load(t, "session: {lifetime: 1d}\nlimits:\n  account: [7/1h block monitor]\ntrusted_proxies: [10.0.0.1, '::ffff:10.0.0.2']\ncounters: {memory: 1GiB}\n", nil)
	want := config.Default()
	want.Session.Lifetime = 24 * time.Hour
	want.Limits.Account = []guard.Limit{{Failures: 7, Window: time.Hour, Action: guard.Block, Monitor: true}}
	want.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.2/32")}
	want.Counters.Memory = config.GiB
	if !reflect.DeepEqual(l.Config, want) {
		t.Errorf("got %+v, want %+v", l.Config, want)
	}
}

// The YAML library takes a colon in a list inside braces for the end of a key.
func TestAddressesAreReadInEveryStyle(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"redis: {mode: cluster, addresses: [127.0.0.1:6379, redis:6379, '[::1]:6379']}",
		"redis: {mode: cluster, addresses: ['127.0.0.1:6379', \"redis:6379\", \"[::1]:6379\"]}",
		"redis:\n  mode: cluster\n  addresses: [127.0.0.1:6379, redis:6379, '[::1]:6379']",
		"redis:\n  mode: cluster\n  addresses:\n    - 127.0.0.1:6379\n    - redis:6379\n    - '[::1]:6379'",
	} {
		c, err := config.Parse("test.yaml", []byte(text), nil)
		if err != nil || !slices.Equal(c.Redis.Addresses, []string{"127.0.0.1:6379", "redis:6379", "[::1]:6379"}) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"{addresses: [redis: 6379]}", "{addresses: [{redis: 6379}]}", "{addresses: ['redis':6379]}", "{addresses: [redis:'6379']}"} {
		if _, err := config.Parse("test.yaml", []byte("redis: "+text), nil); err == nil || !strings.Contains(err.Error(), "redis.addresses[0]: must be a single value, not a mapping") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestVariablesGoOverTheFile(t *testing.T) {
	t.Parallel()
	l := load(t, "listen: ':1'\ncaptcha_mode:\n  cool_down: 1h\n  threshold: 40\n", []string{
		"HOME=/root",
		"AUTHGUARD_CONFIG=elsewhere.yaml",
		"AUTHGUARD_CAPTCHA_MODE_COOL_DOWN=3h",
		"AUTHGUARD_ADMIN_LISTEN=",
		"AUTHGUARD_TRUSTED_PROXIES=10.0.0.0/8, 192.0.2.1\n::1",
		"AUTHGUARD_LIMITS_ADDRESS=10/1m challenge, 200/24h block monitor,",
		"AUTHGUARD_LIMITS_NETWORK=",
		"AUTHGUARD_ALERTS_TO=smtp://h/?from=x@y&to=a@b,c@d discord://t@i",
		"AUTHGUARD_KNOWN_CLIENTS_DEVICE_COOKIE=false",
	})
	want := config.Default()
	want.Listen = ":1"
	want.CAPTCHAMode.CoolDown, want.CAPTCHAMode.Threshold = config.CoolDown{Min: 3 * time.Hour, Max: 3 * time.Hour}, config.Threshold{Multiplier: 5, Min: 40, Max: 40}
	want.Admin.Listen = ""
	for _, p := range []string{"10.0.0.0/8", "192.0.2.1/32", "::1/128"} {
		want.TrustedProxies = append(want.TrustedProxies, netip.MustParsePrefix(p))
	}
	want.Limits.Address = []guard.Limit{
		{Failures: 10, Window: time.Minute, Action: guard.Challenge},
		{Failures: 200, Window: 24 * time.Hour, Action: guard.Block, Monitor: true},
	}
	want.Limits.Network = nil
	want.Alerts.To = []config.Secret{"smtp://h/?from=x@y&to=a@b,c@d", "discord://t@i"}
	want.KnownClients.DeviceCookie = false
	if !reflect.DeepEqual(l.Config, want) {
		t.Errorf("got  %+v\nwant %+v", l.Config, want)
	}
}

func TestEveryValueKnowsItsOrigin(t *testing.T) {
	t.Parallel()
	l := load(t, "# one\nlisten: ':1'\ncaptcha_mode:\n  cool_down:\n    1h\n  threshold: 40\nlimits:\n  account:\n    - 5/1h block\n",
		[]string{"AUTHGUARD_CAPTCHA_MODE_THRESHOLD=50"})
	want := map[string]string{
		"listen": "t.yaml:2", "captcha_mode.cool_down": "t.yaml:4", "captcha_mode.threshold": "AUTHGUARD_CAPTCHA_MODE_THRESHOLD", "limits.account": "t.yaml:8",
	}
	for _, s := range l.Effective() {
		origin, set := want[s.Path]
		if !set {
			origin = "default"
		}
		if s.Origin != origin {
			t.Errorf("%s: origin %s, want %s", s.Path, s.Origin, origin)
		}
	}
}

func TestUnknownVariablesAreAnError(t *testing.T) {
	t.Parallel()
	wrong(t, "", []string{"AUTHGUARD_LISTN=:1", "AUTHGUARD_ZZZZZZ=1", "AUTHGUARD_CAPTCHA_MODE_COOLDOWN=1h", "AUTHGUARD_CONFG=x", "AUTHGUARD_="},
		"AUTHGUARD_: unknown variable",
		"AUTHGUARD_CAPTCHA_MODE_COOLDOWN: unknown variable; did you mean AUTHGUARD_CAPTCHA_MODE_COOL_DOWN?",
		"AUTHGUARD_CONFG: unknown variable; did you mean AUTHGUARD_CONFIG?",
		"AUTHGUARD_LISTN: unknown variable; did you mean AUTHGUARD_LISTEN?",
		"AUTHGUARD_ZZZZZZ: unknown variable",
	)
}

func TestVariablesThatKubernetesAddsForTheServiceAreIgnored(t *testing.T) {
	t.Parallel()
	load(t, "", []string{
		"AUTHGUARD_SERVICE_HOST=10.0.0.1", "AUTHGUARD_SERVICE_PORT=80", "AUTHGUARD_SERVICE_PORT_HTTP=80",
		"AUTHGUARD_PORT=tcp://10.0.0.1:80", "AUTHGUARD_PORT_80_TCP=tcp://10.0.0.1:80", "AUTHGUARD_PORT_80_TCP_ADDR=10.0.0.1",
		"AUTHGUARD_ADMIN_SERVICE_HOST=10.0.0.2", "AUTHGUARD_ADMIN_PORT=tcp://10.0.0.2:80",
	})
	wrong(t, "", []string{"AUTHGUARD_PORT=8080"}, "AUTHGUARD_PORT: unknown variable")
}

func TestProblemsOfFileAndVariablesComeTogether(t *testing.T) {
	t.Parallel()
	wrong(t, "listen: 1\n",
		[]string{"AUTHGUARD_LIMITS_ACCOUNT=5/24h challenge, 0/1h block", "AUTHGUARD_CAPTCHA_MODE_BASELINE=x", "AUTHGUARD_DATA=\xff", "AUTHGUARD_CAPTCHA_MODE_THRESHOLD=5x, 600 to 550"},
		`t.yaml:1: listen: must be a host and a port such as 127.0.0.1:8080, [::1]:8080 or :8080, not "1"`,
		`AUTHGUARD_CAPTCHA_MODE_BASELINE: captcha_mode.baseline: must be a number, not "x"`,
		"AUTHGUARD_CAPTCHA_MODE_THRESHOLD: captcha_mode.threshold: must be from a smaller to a larger number, not 600 to 550",
		"AUTHGUARD_DATA: data: must be UTF-8 text without control characters",
		"AUTHGUARD_LIMITS_ACCOUNT: limits.account[1].failures: must be from 1 to 4000, not 0",
	)
}

func TestAValueOutOfRangeIsAnErrorInTheFileAndInTheVariable(t *testing.T) {
	t.Parallel()
	wrong(t, "passwords: {cost: 99, max_queued: 1}\n", []string{"AUTHGUARD_PASSWORDS_COST=98"},
		"t.yaml:1: passwords.cost: must be at most 16", "AUTHGUARD_PASSWORDS_COST: passwords.cost: must be at most 16")
	wrong(t, "passwords: {cost: 99}\n", []string{"AUTHGUARD_PASSWORDS_COST=12"}, "t.yaml:1: passwords.cost: must be at most 16")
}

func TestAConflictSaysNothingAboutWhatCouldNotBeRead(t *testing.T) {
	t.Parallel()
	wrong(t, "accounts:\n  source: qery\n  canonical_query: SELECT 1\n", []string{"AUTHGUARD_ACCOUNTS_HTPASSWD=x"},
		`t.yaml:2: accounts.source: must be one of table, htpasswd, query, ldap, not "qery"`,
		"t.yaml:3: accounts.database: must be the database's URL, because accounts.canonical_query needs it")
}

func TestAConflictPointsAtWhatWasSet(t *testing.T) {
	t.Parallel()
	wrong(t, "", []string{"AUTHGUARD_MAIL_FROM=a@example.org"}, "AUTHGUARD_MAIL_FROM: mail.server: must be the mail server's URL, because mail.from is set")
}

func TestProblemsAreTyped(t *testing.T) {
	t.Parallel()
	_, err := config.Parse("t.yaml", []byte("data: x\nlimits:\n  account:\n  - 0/1h block\n"), nil)
	want := []config.Problem{{Path: "limits.account[0].failures", Origin: config.Origin{Line: 4, Source: "t.yaml"}, Text: "must be from 1 to 4000, not 0"}}
	if got := config.Problems(err); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestANamedFileMustBeThere(t *testing.T) {
	t.Parallel()
	_, err := config.Load("testdata/nowhere.yaml", []string{"AUTHGUARD_X=1"})
	want := "testdata/nowhere.yaml: cannot be read: no such file or directory\nAUTHGUARD_X: unknown variable"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if _, err := config.Load("testdata", nil); err == nil {
		t.Error("a folder was read as a file")
	}
}

func TestWhatIsNoSettingsFileIsRefused(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"too many keys":       "{" + strings.Repeat("a: 1, ", 100_000) + "}",
		"old Mac":             "data: x\rlisten: y",
		"too large":           strings.Repeat("#\n", config.MaxFile/2+1),
		"nested brackets":     "trusted_proxies: " + strings.Repeat("[", 100_000),
		"nested braces":       strings.Repeat("{a: ", 100_000),
		"nested dashes":       strings.Repeat("- ", 100_000),
		"nested questions":    strings.Repeat("? ", 100_000),
		"blank lines in text": "data: |\n  x" + strings.Repeat("\n", 100_000),
		"deep indentation":    indented(400),
	} {
		if _, err := config.Parse("t.yaml", []byte(data), nil); len(config.Problems(err)) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAThousandProblemsAreSummedUp(t *testing.T) {
	t.Parallel()
	_, err := config.Parse("t.yaml", []byte(strings.Repeat("x: 1\n", 1000)), nil)
	all := config.Problems(err)
	if len(all) != 101 || all[100].Error() != "t.yaml: and 900 more" {
		t.Errorf("%d problems, the last %v", len(all), all[len(all)-1])
	}
}

func indented(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func load(t *testing.T, file string, environ []string) *config.Loaded {
	t.Helper()
	l, err := config.Parse("t.yaml", []byte(file), environ)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func wrong(t *testing.T, file string, environ []string, want ...string) {
	t.Helper()
	_, err := config.Parse("t.yaml", []byte(file), environ)
	var got []string
	for _, p := range config.Problems(err) {
		got = append(got, p.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEveryLimitKnowsItsOrigin(t *testing.T) {
	t.Parallel()
	loaded, err := config.Parse("t.yaml", []byte("limits:\n  account:\n    - 5/24h challenge\n    - 90/24h block\n  spray: 12 accounts\n"+
		"captcha_mode:\n  threshold: 7\nrealms:\n  - name: shop\n    hosts: [shop.example.org]\n    limits:\n      network: 9/1m challenge\n"),
		[]string{"AUTHGUARD_LIMITS_PAIR=5/24h challenge"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		realm, limitSet string
		i               int
		want            string
	}{
		{"default", "account", 0, "t.yaml:3"}, {"default", "account", 1, "t.yaml:4"}, {"default", "address", 0, "default"},
		{"default", "spray", 0, "t.yaml:5"}, {"default", "mode", 0, "t.yaml:7"}, {"default", "pair", 0, "AUTHGUARD_LIMITS_PAIR"},
		{"default", "pair-delay", 0, "default"}, {"default", "network", 0, "default"},
		{"shop", "network", 0, "t.yaml:12"}, {"shop", "account", 1, "t.yaml:4"}, {"shop", "known-client", 0, "default"},
	} {
		if got := loaded.LimitOrigin(c.realm, c.limitSet, c.i).String(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	limits, err := config.ParseLimits("account", "5/1d, 100/24h block monitor")
	if text := config.FormatLimits(limits); err != nil || text != "5/24h challenge, 100/24h block monitor" {
		t.Errorf("%s, %v", text, err)
	}
}
