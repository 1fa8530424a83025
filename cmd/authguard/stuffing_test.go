package main

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"authguard/internal/testing/redistest"
)

var codeLine = regexp.MustCompile(`(?m)^    ([A-Z2-7]{4}(?:-[A-Z2-7]{4}){3})\r?$`)

// Leaked pairs, each tried once from an address of its own, in a fixed order; 20 of them are
// right. The failure rate throttles, so the right password alone is not enough, and no CAPTCHA mode helps. The owners
// get codes by email, one of them signs in with hers, and a known client notices nothing.
func TestR32StuffingStopsAtTheStepUp(t *testing.T) {
	t.Parallel()
	const victims = 20
	pairs := 300
	if os.Getenv("FULL_SIZE") != "" {
		pairs = 2000
	}
	users := []string{"carol"}
	for i := range victims {
		users = append(users, fmt.Sprintf("victim%d@example.org", i))
	}
	for name, start := range map[string]func(t *testing.T, yaml string) []*server{
		"one node":    func(t *testing.T, yaml string) []*server { return []*server{newServer(t, yaml, users...)} },
		"three nodes": func(t *testing.T, yaml string) []*server { return newNodes(t, 3, standalone(t), yaml, users...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := openPostbox(t, false)
			nodes := start(t, fmt.Sprintf("origin: http://login.example.org\npasswords: {cost: 10, queue_timeout: 1m}\n"+
				"captcha_mode: {threshold: 5000, throttle_at: 0.002}\nmail: {server: 'smtp://%s', from: guard@example.org}\n",
				box.Addr()))
			known := from("127.160.0.1")
			if a := known.login(t, nodes[0], "carol", rightPassword); a.status != http.StatusOK {
				t.Fatalf("carol: %d %s", a.status, a.body)
			}
			try := func(i int) int {
				account, password := fmt.Sprintf("elsewhere%d@example.org", i), fmt.Sprint("leaked", i)
				if each := pairs / victims; i%each == each-1 {
					account, password = users[1+i/each], rightPassword
				}
				return from(loopback(161+i/250, i%250)).login(t, nodes[i%len(nodes)], account, password).status
			}
			for i := range 12 {
				try(i)
			}
			redistest.Until(t, "every node to throttle", func() bool {
				for _, s := range nodes {
					if s.gauge(t, "authguard_throttling") != 1 {
						return false
					}
				}
				return true
			})
			got := tally(pairs-12, 4, func(i int) int { return try(12 + i) })
			t.Logf("%d pairs, %d right: %v", pairs, victims, got)
			if in := got[http.StatusOK]; in > 1 {
				t.Errorf("%d of %d right pairs are in: %v", in, victims, got)
			}
			codes := map[string]string{}
			for len(codes) < victims {
				letter := <-box.letters
				to, code := regexp.MustCompile(`(?m)^To: <?([^>\s]+)`).FindStringSubmatch(letter), codeLine.FindStringSubmatch(letter)
				if to == nil || code == nil || codes[to[1]] != "" {
					t.Fatalf("%d emails, then:\n%s", len(codes), letter)
				}
				codes[to[1]] = code[1]
			}
			owner := from("127.180.0.1")
			if a := owner.login(t, nodes[0], users[1], rightPassword); a.status != http.StatusUnauthorized ||
				!strings.Contains(a.body, "verification code") {
				t.Errorf("an owner without a code: %d %s", a.status, a.body)
			}
			if a := from("127.180.0.2").login(t, nodes[len(nodes)-1], users[1], rightPassword, "code", codes[users[1]]); a.status != http.StatusOK {
				t.Errorf("with the code: %d %s", a.status, a.body)
			}
			for _, s := range nodes {
				if a := known.login(t, s, "carol", rightPassword); a.status != http.StatusOK {
					t.Errorf("a known client: %d %s", a.status, a.body)
				}
			}
		})
	}
}
