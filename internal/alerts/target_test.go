package alerts

import (
	"errors"
	"fmt"
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
		"matrix://user:secret@matrix.example.org/?rooms=!room:example.org",
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
		"slack+https://hunter22/", "generic+https://example.org/hunter22?contenttype=x&disabletls=hunter22",
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
	target, err := parse("generic+https://hooks.example.org/path-secret/T0K%2FEN?key=query-secret")
	if err != nil {
		t.Fatal(err)
	}
	got := target.redact(errors.New("Post \"https://hooks.example.org/path-secret/T0K%2FEN?key=query-secret\": at\npath-secret, T0K%2FEN, query-secret: lookup hooks.example.org: no such host"))
	for _, secret := range []string{"path-secret", "T0K%2FEN", "query-secret", "\n"} {
		if strings.Contains(got, secret) {
			t.Errorf("%q in %q", secret, got)
		}
	}
	if !strings.Contains(got, "lookup hooks.example.org: no such host") {
		t.Errorf("%q does not say what is wrong", got)
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

func TestAMailServerThatHangsUpAfterTakingTheMailHasTakenIt(t *testing.T) {
	t.Parallel()
	if !deliveredAllTheSame(fmt.Errorf("failed to send to some recipients: error closing session: EOF")) {
		t.Error("it would get the same mail again")
	}
	if deliveredAllTheSame(fmt.Errorf("error sending message to recipient \"x\": no\nerror closing session: EOF")) {
		t.Error("a refused mail counts as sent")
	}
}
