package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"authguard/internal/testing/redistest"
)

// TestATokenIsMadeAndRevokedWhileItRuns, for one realm, told once, on record.
func TestATokenIsMadeAndRevokedWhileItRuns(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"realms: [{name: gold, hosts: [gold.example.org]}]\n")
	begin := func(token string) int {
		return s.ask(t, token, "/v1/attempts", map[string]string{"account": "alice", "address": "192.0.2.1"}, nil)
	}
	add := func(args ...string) string {
		return strings.TrimSpace(s.must(append([]string{"token", "create"}, args...)...))
	}
	shop, gold := add("shop"), add("shop", "--realm", "gold")
	if shop == gold || !strings.HasPrefix(shop, "authguard_") || len(shop) != 36 {
		t.Fatalf("the tokens are %q and %q", shop, gold)
	}
	if a, b, c := begin(shop), begin(gold), begin(shop[:35]); a != 200 || b != 200 || c != 401 {
		t.Errorf("the tokens are answered %d and %d, and a part of one %d", a, b, c)
	}
	var listed struct {
		Tokens []struct{ Realm, Name, By, Token string }
	}
	list := s.must("token", "list", "--json")
	if err := json.Unmarshal([]byte(list), &listed); err != nil || len(listed.Tokens) != 2 || listed.Tokens[1].Realm != "gold" || strings.Contains(list, "authguard_") {
		t.Errorf("listed: %s %v", list, err)
	}
	manages := add("manages", "--scopes", "read,lists,accounts,mode,unlock,alerts,policy,admin")
	api := func(token string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.admin+"/api/overview", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		return from("127.0.0.1").do(t, r).status
	}
	if a, b, c, d := begin(manages), api(manages), api(shop), api(gold); a != 401 || b != 200 || c != 401 || d != 401 {
		t.Errorf("the administration's token is answered %d at the public door and %d at its own, and the decision API's there %d and %d", a, b, c, d)
	}
	s.fails("already has a token of this name", "token", "create", "shop")
	s.fails("1 to 64 letters", "token", "create", "my shop")
	s.fails("unknown realm", "token", "create", "x", "--realm", "silver")
	if out := s.must("token", "revoke", "shop"); !strings.Contains(out, "is revoked") {
		t.Error(out)
	}
	s.fails("no such token", "token", "revoke", "shop")
	if a, b := begin(shop), begin(gold); a != 401 || b != 200 {
		t.Errorf("after one was revoked they are answered %d and %d", a, b)
	}
	s.stop()
	if strings.Contains(s.log.String(), shop[10:]) {
		t.Error("the log has the token")
	}
	s.start()
	if a, b := begin(shop), begin(gold); a != 401 || b != 200 {
		t.Errorf("after a restart they are answered %d and %d", a, b)
	}
}

// asEveryNodeHears is part of TestNodesActAsOne, whose nodes it borrows.
func asEveryNodeHears(t *testing.T, nodes []*server) {
	t.Helper()
	token := strings.TrimSpace(nodes[0].must("token", "create", "shop"))
	hears := func(what string, want int) {
		t.Helper()
		began := time.Now()
		redistest.Until(t, what, func() bool {
			for _, s := range nodes { // nothing is counted, so nothing waits
				if s.ask(t, token, "/v1/attempts/settle", map[string]string{"ticket": "none", "outcome": "failed"}, nil) != want {
					return false
				}
			}
			return true
		})
		t.Logf("%s: %v", what, time.Since(began))
	}
	hears("every node to take the token", http.StatusBadRequest)
	nodes[1].must("token", "revoke", "shop")
	hears("every node to refuse it", http.StatusUnauthorized)
}
