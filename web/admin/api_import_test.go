package admin_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"authguard/internal/operation"
)

const aHash = "$2a$04$abcdefghijklmnopqrstuuC7rGJ3WZ0V5n0pGdN8o2m4x6y8z0A2O"

// An importAnswer is what an import says of itself.
type importAnswer struct {
	progress []int64 // "done", line by line
	Done     int64
	Total    int64
	Imported *int
	Error    string
	Problems []struct {
		Line int
		Text string
	}
}

func (o *office) importFile(t *testing.T, format string, file io.Reader, size int) (a importAnswer) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", fmt.Sprintf("http://authguard/api/users/import?format=%s&size=%d", format, size), file)
	if err != nil {
		t.Fatal(err)
	}
	response, err := o.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%d", response.StatusCode)
	}
	for d := json.NewDecoder(response.Body); d.More(); {
		a.Done, a.Total = 0, 0
		if err := d.Decode(&a); err != nil {
			t.Fatal(err)
		}
		if a.Total > 0 {
			a.progress = append(a.progress, a.Done)
		}
	}
	return a
}

func TestALongImportTellsHowFarItIs(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	var file bytes.Buffer
	const people = 5000
	for i := range people {
		fmt.Fprintf(&file, "user%d:%s\n", i, aHash)
	}
	size := file.Len()
	a := o.importFile(t, "htpasswd", &file, size)
	if a.Imported == nil || *a.Imported != people {
		t.Fatalf("%+v", a)
	}
	if len(a.progress) < 4 || a.progress[len(a.progress)-1] != int64(size) {
		t.Errorf("progress %v of %d", a.progress, size)
	}
	if what, _, _ := o.recorded(t); what != "user-import" {
		t.Errorf("on record: %s", what)
	}
}

func TestOneBadLineImportsNothing(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	file := "ann:" + aHash + "\nbob:$apr1$x$y\n\ncid\nann:" + aHash + "\n"
	a := o.importFile(t, "htpasswd", strings.NewReader(file), len(file))
	if a.Imported != nil || len(a.Problems) != 3 {
		t.Fatalf("%+v", a)
	}
	for i, line := range []int{2, 4, 5} {
		if a.Problems[i].Line != line || strings.Contains(a.Problems[i].Text, "$apr1$x") || strings.Contains(a.Problems[i].Text, "passwords:") {
			t.Errorf("problem %d: %+v", i, a.Problems[i])
		}
	}
	var all struct{ Users []any }
	o.mustAsk(t, "GET", "/api/users", "", &all)
	if len(all.Users) != 0 {
		t.Errorf("%d were imported", len(all.Users))
	}
}

func TestAnImportThatBreaksOffImportsNothing(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	breaking := io.MultiReader(strings.NewReader("ann:"+aHash+"\n"), errReader{})
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://authguard/api/users/import?format=htpasswd&size=1000", breaking)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := o.http.Do(r); err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	var all struct{ Users []any }
	o.mustAsk(t, "GET", "/api/users", "", &all)
	if len(all.Users) != 0 {
		t.Errorf("%d were imported", len(all.Users))
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestPlainPasswordsAreImportedFromCSV(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	file := "username,email,password\nann,ann@example.org,long enough\n"
	if a := o.importFile(t, "csv", strings.NewReader(file), len(file)); a.Imported == nil || *a.Imported != 1 {
		t.Fatalf("%+v", a)
	}
	login, found, err := o.accounts.FindForLogin(t.Context(), "ann@example.org")
	if err != nil || !found || login.Account != "ann" || strings.Contains(login.Password.Hash, "long") {
		t.Errorf("%+v %v %v", login, found, err)
	}
}

// Commands, and gateways in front of the admin console, send the next request on the same connection.
func TestARejectedImportLeavesTheConnectionUsable(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for what, reason := range map[string]string{
		"before the file is read": strings.Repeat("x", operation.MaxReason+1), "at its first line": "why",
	} {
		conn, err := net.Dial("unix", o.socket)
		if err != nil {
			t.Fatal(err)
		}
		answers := bufio.NewReader(conn)
		for _, of := range [][2]string{{"POST", "/api/users/import?format=csv&reason=" + reason}, {"GET", "/api/lists"}} {
			r, err := http.NewRequest(of[0], "http://authguard"+of[1], strings.NewReader("no header\n"+strings.Repeat("x", 200_000)))
			if err == nil {
				err = r.Write(conn)
			}
			if err != nil {
				t.Fatalf("%s, %s: %v", what, of[1], err)
			}
			answer, err := http.ReadResponse(answers, r)
			if err != nil {
				t.Fatalf("%s, %s: %v", what, of[1], err)
			}
			if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.Close {
				t.Errorf("%s, %s: %v, close: %v", what, of[1], err, answer.Close)
			}
			answer.Body.Close()
		}
		conn.Close()
	}
}
