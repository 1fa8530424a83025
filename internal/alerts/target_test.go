package alerts

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestCheckTakesTheAddressesOfTheDocumentation(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"smtp://user:hunter22@mail.example.org:587/?from=authguard@example.org&to=ops@example.org&requirestarttls=yes",
		"slack://hook:AAAAAAAAA-BBBBBBBBB-123456789123456789123456@webhook",
		"generic+https://hooks.example.org/authguard?template=json",
		"ntfy://ntfy.sh/some-topic",
		"slack+https://mattermost.example.org/hooks/abc",
		"discord://token@123456",
		"telegram://123456:AAAAAAAAAAAAAAAAAAAAAAAA@telegram?chats=-100123,@ops",
		"teams+https://prod-1.westeurope.logic.azure.com:443/workflows/abc/triggers/manual/paths/invoke?sig=x",
		"webhook+https://hooks.example.org/authguard#secret=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=&kinds=captcha-mode-on,attack-ended",
	} {
		if err := Check(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestCheckPrintsNothingOfAnAddressThatItRefuses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"", "hunter22", "://hunter22", "hunter22://x", "hunter22:x", "https://hunter22.example.org/hunter22", "smtp://user:hunter22@%zz/",
		"smtp://user:hunter22@mail.example.org/?to=hunter22@example.org",
		"smtp://user:hunter22@mail.example.org/?from=a@b.c&to=a@b.c&timeout=hunter22",
		"smtp://user:hunter22@mail.example.org/?from=a@b.c&to=a@b.c&auth=hunter22",
		"slack://hunter22@webhook", "telegram://hunter22@telegram?chats=x", "discord://hunter22", "ifttt://hunter22/",
		"matrix://hunter22@x/", "webhook+https://x.example.org/hunter22", "webhook+https://x.example.org/#secret=hunter22",
		"webhook+https://x.example.org/#secret=whsec_aHVudGVyMjI=", "ntfy://ntfy.sh/a/hunter22", "slack://x@y#hunter22", "teams://hunter22@x/y/z",
		"smtp://u:p@mail.example.org/?from=a@b.c&to=a@b.c#secret=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=", "generic+https://example.org/hunter22?contenttype=x&disabletls=hunter22",
	} {
		err := Check(address)
		if err == nil {
			t.Errorf("%q was taken", address)
		} else if strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestRedactHidesEveryPartOfAnAddress(t *testing.T) {
	t.Parallel()
	to, err := parse("generic+https://hooks.example.org/path-secret/T0K%2FEN?key=query-secret")
	if err != nil {
		t.Fatal(err)
	}
	got := to.redact(errors.New("Post \"https://hooks.example.org/path-secret/T0K%2FEN?key=query-secret\": at\npath-secret, T0K%2FEN, query-secret: lookup hooks.example.org: no such host"))
	for _, secret := range []string{"path-secret", "T0K%2FEN", "query-secret", "\n"} {
		if strings.Contains(got, secret) {
			t.Errorf("%q in %q", secret, got)
		}
	}
	if !strings.Contains(got, "lookup hooks.example.org: no such host") {
		t.Errorf("%q does not say what is wrong", got)
	}
}

func TestOurOwnWordsAreNotMaskedWithThoseOfTheAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"generic+https://example.org/hook?contenttype=x": "a generic web hook takes template=json",
		"ntfy://ntfy.sh/takes/priority":                  "must be ntfy://ntfy.sh/TOPIC, optionally with ?priority=",
		"webhook+https://example.org/bytes/random":       "24 to 64 random bytes in base64",
	} {
		if err := Check(address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestEachRecipientOfAMailIsAChannelOfItsOwn(t *testing.T) {
	t.Parallel()
	got := expand("smtp://u:p@mail.example.org/?from=a%40example.org&to=b%40example.org,c%40example.org")
	want := []string{
		"smtp://u:p@mail.example.org/?from=a%40example.org&to=b%40example.org",
		"smtp://u:p@mail.example.org/?from=a%40example.org&to=c%40example.org",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
}

func TestChannelsHaveUniqueNamesWithoutSecrets(t *testing.T) {
	t.Parallel()
	all, err := targets([]string{
		"smtp://user:hunter22@mail.example.org/?from=a@example.org&to=b@example.org,c@example.org",
		"smtp://user:hunter22@mail.example.org/?from=a@example.org&to=d@example.org#name=ops%20mail",
		"webhook+https://hooks.example.org/hunter22#secret=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=&name=ops",
		"generic+https://hooks.example.org/hunter22#name=ops",
		"discord://hunter22@123456",
		"ntfy://:hunter22@ntfy.sh/hunter22",
	})
	var names []string
	for _, one := range all {
		names = append(names, one.label)
	}
	want := []string{"smtp mail.example.org", "smtp mail.example.org (2)", "ops mail", "ops", "ops (2)", "discord", "ntfy ntfy.sh"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
	for _, name := range []string{"", "a%0Ab", "%3Cb%3E", "ops%20(2)", strings.Repeat("x", 41), "%ff"} {
		if err := Check("ntfy://ntfy.sh/topic#name=" + name); err == nil {
			t.Errorf("the name %q was taken", name)
		}
	}
}
