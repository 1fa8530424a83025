package control_test

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dustin/go-humanize"

	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/attacks"
	"authguard/internal/audit"
	"authguard/internal/background"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
	"authguard/internal/events"
	"authguard/internal/outbox"
	"authguard/internal/times"
	web "authguard/web/admin"
	"authguard/web/pages"
)

// A story is an attack on a site with several nodes, and the messages that its administrators get.
type story struct {
	*desk
	t     *testing.T
	nodes []*attacks.Recorder
	stop  background.Group // sends the messages

	mu       sync.Mutex
	messages []string
}

func newStory(t *testing.T, db *sql.DB, nodes int) *story {
	t.Helper()
	s := &story{t: t, desk: newDesk(t, db)}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.messages = append(s.messages, string(body))
	}))
	t.Cleanup(receiver.Close)
	for range nodes {
		told, err := alerts.New(alerts.Config{To: []string{"generic+" + receiver.URL}, PerHour: 20,
			Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
			outbox.Store{DB: db, Now: s.w.Clock.Now, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		log := audit.New(db, audit.Config{Logger: quiet})
		s.nodes = append(s.nodes, attacks.New(attacks.Config{DB: db, Secret: []byte("secret"), Now: s.w.Clock.Now,
			Log:   slog.New(slog.DiscardHandler),
			Began: func(b attacks.Beginning) { log.Attack(b.Attack); log.Tick(b.Began); told.AttackBegan(b) },
			Ended: func(e attacks.Ending) { log.Attack(e.Attack); log.Tick(e.Attack.Ended); told.AttackEnded(e) }}))
		s.stop.Add(background.Run(log.Run), background.Run(told.Run))
	}
	if err := s.stop.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// try has one of the nodes see an attempt. Every tenth takes a second.
func (s *story) try(i int, account, address string, change ...func(*guard.Event)) {
	e := guard.Event{At: s.w.Clock.Now(), Account: account, Address: netip.MustParseAddr(address), Action: guard.Proceed,
		Settled: true, Outcome: guard.Failed, Integration: "login"}
	for _, c := range change {
		c(&e)
	}
	s.nodes[i%len(s.nodes)].Handle([]guard.Event{e})
	if i%10 == 9 {
		s.w.Clock.Advance(time.Second)
	}
}

func (s *story) flush() {
	s.t.Helper()
	for range 2 {
		for _, r := range s.nodes {
			if err := r.Flush(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

func entered(e *guard.Event) { e.Outcome, e.NewClient = guard.Succeeded, true }

// play has a guesser, password spraying and a botnet attack the site, and enter 7 accounts. Two users sign in from new
// clients. It returns the start, the end and the attempts.
func (s *story) play() (began, ended time.Time, attempts int64) {
	began = s.w.Clock.Now().Truncate(time.Minute).Add(time.Minute)
	s.w.Clock.Advance(began.Sub(s.w.Clock.Now()))
	botnet := func(first int) {
		for i := first; i < first+200; i++ {
			s.try(i, fmt.Sprint("user", i), fmt.Sprintf("10.1.%d.%d", i/200, i%200))
		}
	}
	botnet(0)
	s.nodes[0].HandleSwitch(events.ModeSwitch{At: s.w.Clock.Now(), Attacked: true, Cause: events.CauseFailureRate,
		FailureRate: 200, Threshold: 60})
	s.flush()
	botnet(200)
	for i := range 60 {
		s.try(i, "victim", "192.0.2.9")
	}
	for i := range 40 {
		s.try(i, fmt.Sprint("staff", i), fmt.Sprintf("203.0.113.%d", i), func(e *guard.Event) { e.Sprayed, e.Guess = true, 1<<24|7 })
	}
	for i := range 7 {
		s.try(i, fmt.Sprint("entered", i), fmt.Sprintf("198.51.100.%d", i))
		s.try(i, fmt.Sprint("entered", i), fmt.Sprintf("198.51.100.%d", 100+i), entered)
	}
	for i := range 2 {
		s.try(i, fmt.Sprint("traveller", i), fmt.Sprintf("172.16.%d.1", i), entered)
	}
	s.flush()
	s.w.Clock.Advance(12 * time.Minute)
	ended = s.w.Clock.Now()
	s.nodes[len(s.nodes)-1].HandleSwitch(events.ModeSwitch{At: ended, Cause: "cool-down"})
	s.flush()
	s.w.Clock.Advance(time.Minute)
	s.flush()
	if err := s.stop.Stop(); err != nil {
		s.t.Error(err)
	}
	return began, ended, 400 + 60 + 40 + 7
}

// ask is a GET of the API, which authguard attack show --json prints.
func (s *story) ask(path string, answer any) {
	s.t.Helper()
	api := &web.API{Control: s.Control, Audit: s.audit, Log: quiet}
	recorder := httptest.NewRecorder()
	api.SocketServer().Handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	if err := json.Unmarshal(recorder.Body.Bytes(), answer); recorder.Code != http.StatusOK || err != nil {
		s.t.Fatalf("%s: %d %s", path, recorder.Code, recorder.Body)
	}
}

// An attack has the same ID, start, end, counts and accounts on its page, in the alert of its start, in the message of
// its end, in the API and in the audit log, over one node and over three.
func TestAnAttackIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newStory(t, db, map[bool]int{true: 3, false: 1}[strings.HasSuffix(t.Name(), "postgres")])
		began, ended, attempts := s.play()

		var list control.Attacks
		var api control.AttackReport
		s.ask("/api/attacks", &list)
		if list.Total != 1 {
			t.Fatalf("%d attacks, want one: %+v", list.Total, list.Attacks)
		}
		s.ask("/api/attacks/"+list.Attacks[0].ID, &api)
		var accounts []string
		for _, v := range api.Victims {
			accounts = append(accounts, fmt.Sprintf("%s %t", v.Account, v.Lost))
		}
		want := []string{"entered0 true", "entered1 true", "entered2 true", "entered3 true", "entered4 true", "entered5 true",
			"entered6 true", "traveller0 false", "traveller1 false"}
		if slices.Sort(accounts); !slices.Equal(accounts, want) {
			t.Errorf("accounts %q", accounts)
		}
		if api.Attempts != attempts || !api.Began.Equal(began) || !api.Ended.Equal(ended) || api.Lost != 7 || api.Strange != 2 {
			t.Errorf("%+v, want %d attempts from %v to %v", api.Attack, attempts, began, ended)
		}
		if one := list.Attacks[0]; one.Attempts != api.Attempts || one.Addresses != api.Addresses || one.Lost != api.Lost {
			t.Errorf("the list has %+v, the attack %+v", one, api.Attack)
		}
		s.comparePage(api)
		s.compareMessages(api)
		s.compareAudit(api)
	})
}

func (s *story) contains(what, text string, parts ...string) {
	s.t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			s.t.Errorf("%s: no %q in\n%s", what, part, text)
		}
	}
}

func (s *story) comparePage(a control.AttackReport) {
	s.t.Helper()
	around := pages.Admin{Now: a.Ended.UTC().Add(time.Hour)}
	page, err := pages.RenderAttack(pages.AttackView{Admin: around, Report: a})
	if err != nil {
		s.t.Fatal(err)
	}
	s.contains("the page", string(page), a.ID, times.Second(a.Began), times.Second(a.Last), times.Second(a.Ended),
		fmt.Sprintf("%s attempts failed, from %s", humanize.Comma(a.Attempts), events.About(a.Addresses, "IP address")),
		"against "+events.About(a.Accounts, "user name"))
	for _, v := range a.Victims {
		s.contains("the page", string(page), v.Account)
	}
}

func (s *story) compareMessages(a control.AttackReport) {
	s.t.Helper()
	started, ended := "", ""
	for _, m := range s.messages {
		for part := range strings.SplitSeq(m, "\n\n") {
			if strings.HasPrefix(part, "Login attack started") {
				started += part
			}
			if strings.HasPrefix(part, "Login attack ended") {
				ended += part
			}
		}
	}
	if strings.Count(started, "\n- ") != 1 || strings.Count(ended, "\n- ") != 1 {
		s.t.Errorf("not one alert of the start and one of the end: %q", s.messages)
	}
	s.contains("the alert of the start", started, "authguard attack show "+a.ID, "since "+times.Text(a.Began.UTC()),
		"failure rate 200 a minute")
	s.contains("the message of the end", ended, "authguard attack show "+a.ID,
		fmt.Sprintf("Duration: %s, from %s to %s (last attempt). The cool-down ended at %s.", times.FormatDuration(a.Duration().Round(time.Second)),
			times.Text(a.Began.UTC()), times.Text(a.Last.UTC()), times.Text(a.Ended.UTC())), fmt.Sprintf("attempts: %d.", a.Attempts),
		fmt.Sprintf("Wrong passwords checked: %d. Challenged: %d, solved: %d. Delayed: %d. Blocked: %d.", a.Failed, a.Challenged, a.Solved, a.Waited, a.Refused),
		fmt.Sprintf("Sources: %s. Attacked: %s.", events.About(a.Addresses, "IP address"), events.About(a.Accounts, "account")),
		fmt.Sprintf("Possibly compromised accounts: %d. Other accounts with a login from an unknown client: %d.", a.Lost, a.Strange))
	for _, v := range a.Victims {
		s.contains("the message of the end", ended, "Check \""+v.Account+"\"")
	}
}

func (s *story) compareAudit(a control.AttackReport) {
	s.t.Helper()
	rows, err := s.audit.Recent(s.t.Context(), audit.Filter{Kind: audit.KindAttack})
	if err != nil || len(rows) != 2 {
		s.t.Fatalf("%+v, %v", rows, err)
	}
	slices.SortFunc(rows, func(a, b audit.Row) int { return cmp.Compare(b.Decision, a.Decision) })
	began := times.Text(a.Began.UTC())
	s.contains("the audit log", rows[0].Decision+": "+rows[0].Detail, "started: attack "+a.ID+" (site) since "+began+"; ")
	s.contains("the audit log", rows[1].Decision+": "+rows[1].Detail, fmt.Sprintf("ended: attack %s (site) from %s to %s; addresses %d, accounts %d, "+
		"compromised %d", a.ID, began, times.Text(a.Last.UTC()), a.Addresses, a.Accounts, a.Lost))
	if rows[1].Count != a.Attempts || !rows[1].At.Equal(a.Ended) || !rows[0].At.Equal(a.Began) {
		s.t.Errorf("%+v, want %d attempts from %v to %v", rows, a.Attempts, a.Began, a.Ended)
	}
}
