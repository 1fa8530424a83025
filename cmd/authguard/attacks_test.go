package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"authguard/internal/attacks"
	"authguard/internal/testing/redistest"
)

// Every shape of attack is run against three nodes, each of which sees a third of it: one
// attack is kept of each, on every node the same, with as many attempts as there were.
func TestEveryShapeOfAttackIsRecognisedOnceOverThreeNodes(t *testing.T) {
	long(t)
	t.Parallel()
	nodes := newNodes(t, 3, standalone(t), quiet+noDelay+"challenge: {kind: pow, pow_cost: 100}\napi: {tokens: ["+token("d")+"]}\nrealms:\n"+
		"  - {name: botnet, hosts: [b.test], tokens: ["+token("b")+"], captcha_mode: {threshold: 60}}\n"+
		"  - {name: stuffing, hosts: [s.test], tokens: ["+token("s")+"], captcha_mode: {threshold: 60}}\n")
	attack := func(token string, n int, account, address, password func(i int) string) {
		counts := tally(n, 12, func(i int) int {
			node, begun := nodes[i%3], struct{ Ticket string }{}
			status := node.ask(t, token, "/v1/attempts", map[string]string{"account": account(i), "address": address(i), "password_tag": password(i)}, &begun)
			if begun.Ticket != "" {
				node.ask(t, token, "/v1/attempts/settle", map[string]string{"ticket": begun.Ticket, "outcome": "failed"}, nil)
			}
			return status
		})
		if counts[http.StatusOK] != n {
			t.Errorf("%v", counts)
		}
	}
	always := func(s string) func(int) string { return func(int) string { return s } }
	nth := func(format string, of int) func(int) string {
		return func(i int) string { return fmt.Sprintf(format, i%of) }
	}
	attack(token("d"), 60, always("victim"), nth("203.0.113.%d", 7), nth("guess %d", 60))           // 20 on each
	attack(token("d"), 120, nth("name%d", 30), always("192.0.2.9"), nth("other %d", 120))           // 40 on each
	attack(token("b"), 150, nth("user%d", 50), nth("10.1.0.%d", 150), nth("word %d", 40))           // one from each
	attack(token("s"), 150, nth("mail%d@b.test", 150), nth("172.16.%d.1", 12), nth("leak %d", 150)) // a leaked list

	type kept struct {
		ID, Kind, Subject            string
		Attempts, Accounts, Repeated int64
		Shapes                       []string
		Peak                         struct{ Attempts int64 }
	}
	all := func(node *server, realm string) (found []kept) {
		var answer struct{ Attacks []kept }
		args := []string{"attack", "list", "--json"}
		if realm != "" {
			args = append(args, "--realm", realm)
		}
		if err := json.Unmarshal([]byte(node.do(t, args...)), &answer); err != nil {
			t.Fatal(err)
		}
		return answer.Attacks
	}
	sprayed := 0
	redistest.Until(t, "the nodes to have told each other of a sprayed password", func() bool {
		first := sprayed
		attack(token("d"), 15, func(i int) string { return fmt.Sprint("staff", first+i) },
			func(i int) string { return fmt.Sprintf("198.51.100.%d", (first+i)%45) }, always("Spring2026!"))
		sprayed += 15
		return slices.ContainsFunc(all(nodes[0], ""), func(a kept) bool { return a.Kind == attacks.Spray && a.Attempts >= 20 })
	})
	for _, want := range []struct {
		realm, kind, subject string
		attempts             int64
		shapes               []string
	}{
		{"", attacks.Account, "victim", 60, []string{attacks.OneAccount}},
		{"", attacks.Address, "192.0.2.9", 120, []string{attacks.OneAddress}},
		{"", attacks.Spray, "", 20, []string{attacks.Spraying}},
		{"botnet", attacks.Site, "", 150, []string{attacks.Botnet}},
		{"stuffing", attacks.Site, "", 150, []string{attacks.Stuffing}},
	} {
		for n, node := range nodes {
			var got []kept
			redistest.Until(t, fmt.Sprintf("node %d to know all of %+v", n, want), func() bool {
				got = slices.DeleteFunc(all(node, want.realm), func(a kept) bool { return a.Kind != want.kind })
				return len(got) > 0 && (got[0].Attempts >= want.attempts)
			})
			a := got[0]
			if len(got) != 1 || a.Subject != want.subject || want.kind != attacks.Spray && a.Attempts != want.attempts || !slices.Equal(a.Shapes, want.shapes) || a.Peak.Attempts < a.Attempts/2 {
				t.Errorf("node %d has %+v, want %+v", n, got, want)
			}
			var shown kept
			show := []string{"attack", "show", a.ID, "--json"}
			if want.realm != "" {
				show = append(show, "--realm", want.realm)
			}
			redistest.Until(t, "attack show and attack list to have the same", func() bool { // the spray may still grow
				shown, got = kept{}, all(node, want.realm)
				at := slices.IndexFunc(got, func(one kept) bool { return one.ID == a.ID })
				return json.Unmarshal([]byte(node.do(t, show...)), &shown) == nil && at >= 0 && reflect.DeepEqual(shown, got[at])
			})
		}
	}
}
