package mfa_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"authguard/internal/database/databasetest"
	"authguard/internal/mfa"
	"authguard/internal/testing/passkeytest"
)

var here = mfa.Site{Host: "localhost", Origins: []string{"http://localhost:8081"}}

// adds gives ann a passkey.
func (d *desk) adds(k *passkeytest.Key) {
	d.t.Helper()
	q, err := d.AskNew(d.t.Context(), here, d.ann)
	d.must(err)
	d.must(d.Add(d.t.Context(), here, d.ann, "phone", q.State, k.Made(q.Options)))
}

func (d *desk) asks(account string) mfa.Question {
	d.t.Helper()
	q, err := d.AskProof(d.t.Context(), here, account)
	d.must(err)
	return q
}

func TestAPasskeyAnswersWhatWasAskedOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d, k := newDesk(t, db), passkeytest.New(t, here.Origins[0])
		d.adds(k)
		other := d.node("the server's secret")
		for _, asked := range []string{"", d.ann.ID} { // as a whole login, and as the second factor
			q := d.asks(asked)
			k.Count++
			answer := k.Signs(q.Options)
			p, err := other.Verify(t.Context(), here, q.State, answer)
			if asked == "" && (p.ID != d.ann.ID || p.Name != "ann" || err != nil) || asked != "" && !errors.Is(err, mfa.ErrPasskey) {
				t.Fatalf("%+v, %v", p, err)
			}
			if err := other.CheckPasskey(t.Context(), here, d.ann, asked, q.State, answer); err != nil {
				t.Fatalf("asked of %q: %v", asked, err)
			}
			if err := d.CheckPasskey(t.Context(), here, d.ann, asked, q.State, answer); !errors.Is(err, mfa.ErrPasskey) {
				t.Errorf("the same answer a second time, at another node: %v", err)
			}
		}
		if kept, err := d.Of(t.Context(), d.ann.ID); err != nil || len(kept.Passkeys) != 1 || !kept.Passkeys[0].Used.Equal(noon) || kept.Passkeys[0].Name != "phone" {
			t.Errorf("%+v, %v", kept, err)
		}
	})
}

// A passkey of a phone's, which is in many places, counts nothing: what was answered is
// used up all the same.
func TestAPasskeyThatCountsNothingAnswersOnce(t *testing.T) {
	t.Parallel()
	d, k := newDesk(t, databasetest.SQLite(t)), passkeytest.New(t, here.Origins[0])
	d.adds(k)
	for range 2 {
		q := d.asks("")
		answer := k.Signs(q.Options)
		d.must(d.CheckPasskey(t.Context(), here, d.ann, "", q.State, answer))
		if err := d.CheckPasskey(t.Context(), here, d.ann, "", q.State, answer); !errors.Is(err, mfa.ErrPasskey) {
			t.Error(err)
		}
	}
}

func TestACopyOfAPasskeyEndsIt(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d, k := newDesk(t, db), passkeytest.New(t, here.Origins[0])
		d.adds(k)
		use := func(count uint32) error {
			k.Count = count
			q := d.asks("")
			return d.CheckPasskey(t.Context(), here, d.ann, "", q.State, k.Signs(q.Options))
		}
		d.must(use(7))
		if err := use(7); !errors.Is(err, mfa.ErrCloned) {
			t.Errorf("the count stood still: %v", err)
		}
		if err := use(8); !errors.Is(err, mfa.ErrPasskey) {
			t.Errorf("a passkey that was copied lets in: %v", err)
		}
		if kept, err := d.Of(t.Context(), d.ann.ID); err != nil || !kept.Passkeys[0].Cloned.Equal(noon) {
			t.Errorf("%+v, %v", kept, err)
		}
	})
}

func TestAPasskeyAnswersNothingElse(t *testing.T) {
	t.Parallel()
	d, k := newDesk(t, databasetest.SQLite(t)), passkeytest.New(t, here.Origins[0])
	d.adds(k)
	for what, wrong := range map[string]func(*passkeytest.Key, *mfa.Question, *mfa.Site, *string){
		"another origin": func(k *passkeytest.Key, _ *mfa.Question, _ *mfa.Site, _ *string) {
			k.Origin = "http://localhost.example:8081"
		},
		"a person unverified": func(k *passkeytest.Key, _ *mfa.Question, _ *mfa.Site, _ *string) { k.Flags = passkeytest.Present },
		"another key": func(k *passkeytest.Key, _ *mfa.Question, _ *mfa.Site, _ *string) {
			k.Private = passkeytest.New(t, here.Origins[0]).Private
		},
		"another passkey":        func(k *passkeytest.Key, _ *mfa.Question, _ *mfa.Site, _ *string) { k.ID = []byte("made up") },
		"another account":        func(k *passkeytest.Key, _ *mfa.Question, _ *mfa.Site, _ *string) { k.User = "eve" },
		"asked of somebody else": func(_ *passkeytest.Key, _ *mfa.Question, _ *mfa.Site, asked *string) { *asked = "eve" },
		"another name of ours":   func(_ *passkeytest.Key, _ *mfa.Question, at *mfa.Site, _ *string) { at.Host = "admin.example.org" },
		"too late": func(*passkeytest.Key, *mfa.Question, *mfa.Site, *string) {
			d.clock.Advance(5*time.Minute + time.Second)
		},
		"nothing that was asked": func(_ *passkeytest.Key, q *mfa.Question, _ *mfa.Site, _ *string) { q.State = "x" },
		"asked for a new one": func(_ *passkeytest.Key, q *mfa.Question, _ *mfa.Site, _ *string) {
			other, err := d.AskNew(t.Context(), here, d.ann)
			d.must(err)
			q.State = other.State
		},
	} {
		copied, q, at, asked := *k, d.asks(""), here, ""
		copied.Count = 9
		before := q
		wrong(&copied, &q, &at, &asked)
		if err := d.CheckPasskey(t.Context(), at, d.ann, asked, q.State, copied.Signs(before.Options)); !errors.Is(err, mfa.ErrPasskey) {
			t.Errorf("%s: %v", what, err)
		}
	}
	q, err := d.AskNew(t.Context(), here, d.ann)
	d.must(err)
	if err := d.Add(t.Context(), here, mfa.Owner{ID: "eve", Name: "eve"}, "", q.State, passkeytest.New(t, here.Origins[0]).Made(q.Options)); !errors.Is(err, mfa.ErrPasskey) {
		t.Errorf("what was asked for ann was added to eve: %v", err)
	}
}

// Whoever knows the ID of somebody's passkey neither removes nor renames it.
func TestAPasskeyIsChangedByItsOwnerOnly(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d, k := newDesk(t, db), passkeytest.New(t, here.Origins[0])
		d.adds(k)
		id := passkeytest.Text(k.ID)
		for _, err := range []error{
			d.RemovePasskey(t.Context(), "somebody", id), d.RenamePasskey(t.Context(), "somebody", id, "mine"),
			d.RemovePasskey(t.Context(), d.ann.ID, "x"), d.RenamePasskey(t.Context(), d.ann.ID, "x", "mine"),
		} {
			if !errors.Is(err, mfa.ErrUnknown) {
				t.Error(err)
			}
		}
		d.must(d.RenamePasskey(t.Context(), d.ann.ID, id, " \u202ework "+strings.Repeat("é", 60)))
		if kept, err := d.Of(t.Context(), d.ann.ID); err != nil || len(kept.Passkeys) != 1 || len(kept.Passkeys[0].Name) > 60 || !utf8.ValidString(kept.Passkeys[0].Name) {
			t.Errorf("%+v, %v", kept, err)
		}
		d.must(d.RemovePasskey(t.Context(), d.ann.ID, id))
	})
}

func TestAnAccountHasTwentyPasskeysAtMost(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		asked, err := d.AskNew(t.Context(), here, d.ann) // before there are so many
		d.must(err)
		for i := range mfa.MostPasskeys {
			_, err := db.Exec(`INSERT INTO passkeys (id, account, host, data, created_at) VALUES ($1, $2, 'localhost', '{}', 1)`, fmt.Sprint(i), d.ann.ID)
			d.must(err)
		}
		if _, err := d.AskNew(t.Context(), here, d.ann); !errors.Is(err, mfa.ErrMost) {
			t.Errorf("asked for one more: %v", err)
		}
		if err := d.Add(t.Context(), here, d.ann, "one more", asked.State, passkeytest.New(t, here.Origins[0]).Made(asked.Options)); !errors.Is(err, mfa.ErrPasskey) {
			t.Errorf("one more that was asked for before: %v", err)
		}
	})
}

// A request of a session that has ended meanwhile adds no passkey.
func TestAnAccountThatHasChangedGetsNoPasskey(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		q, err := d.AskNew(t.Context(), here, d.ann)
		d.must(err)
		d.must(exec(db, `UPDATE accounts SET version = version + 1`))
		if err := d.Add(t.Context(), here, d.ann, "", q.State, passkeytest.New(t, here.Origins[0]).Made(q.Options)); !errors.Is(err, mfa.ErrPasskey) {
			t.Error(err)
		}
	})
}

func TestPasskeysNeedANameAndTLS(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]mfa.Site{
		"https://Login.example.org":      {Host: "login.example.org", Origins: []string{"https://login.example.org"}},
		"https://login.example.org:443":  {Host: "login.example.org", Origins: []string{"https://login.example.org"}},
		"https://login.example.org:8443": {Host: "login.example.org", Origins: []string{"https://login.example.org:8443"}},
		"http://localhost:8080":          {Host: "localhost", Origins: []string{"http://localhost:8080"}},
		"http://login.example.org":       {},
		"https://192.0.2.1":              {},
		"https://[2001:db8::1]":          {},
		"":                               {},
	} {
		at, ok := mfa.SiteAt(origin)
		if ok != (want.Host != "") || ok && (at.Host != want.Host || at.Origins[0] != want.Origins[0]) {
			t.Errorf("%s: %+v, %t", origin, at, ok)
		}
	}
}
