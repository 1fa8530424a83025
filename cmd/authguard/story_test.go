package main

import (
	"fmt"
	"html"
	"io"
	"mime/quotedprintable"
	"net/http"
	"net/mail"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"authguard/internal/attacks"
	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/internal/testing/redistest"
	"authguard/internal/times"
)

// An inbox has the text of the alert emails.
type inbox struct {
	mu   sync.Mutex
	text string
}

// openInbox returns an inbox, and the URL of its mail server.
func openInbox(t *testing.T) (i *inbox, url string) {
	t.Helper()
	i, box := new(inbox), openPostbox(t, false)
	go func() {
		for {
			select {
			case letter := <-box.letters:
				i.takes(t, letter)
			case <-t.Context().Done():
				return
			}
		}
	}()
	return i, "smtp://" + box.Addr().String() + "/?from=authguard@example.org&to=ops@example.org"
}

func (i *inbox) takes(t *testing.T, letter string) {
	message, err := mail.ReadMessage(strings.NewReader(letter))
	if err != nil {
		t.Error(err)
		return
	}
	body, err := io.ReadAll(quotedprintable.NewReader(message.Body))
	if to := message.Header.Get("To"); err != nil || to != "<ops@example.org>" {
		t.Errorf("to %s: %v", to, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.text += strings.ReplaceAll(string(body), "\r\n", "\n") + "\n\n"
}

func (i *inbox) all() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.text
}

// about returns the alerts with a title that mention an attack, one paragraph each.
func (i *inbox) about(title, id string) (all []string) {
	for part := range strings.SplitSeq(i.all(), "\n\n") {
		if strings.HasPrefix(strings.TrimSpace(part), title) && strings.Contains(part, "authguard attack show "+id) {
			all = append(all, part)
		}
	}
	return all
}

// page is a page of the admin console without tags.
func (s *stage) page(path string) string {
	s.t.Helper()
	answer, err := s.browser.Get(s.console + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d", path, answer.StatusCode)
	}
	words := html.UnescapeString(tags.ReplaceAllString(string(text), " "))
	return strings.Join(strings.Fields(words), " ")
}

var tags = regexp.MustCompile(`<[^>]*>`)

// momentOf is what each place says of the newest attack at one time.
type momentOf struct {
	situation control.Situation
	report    control.AttackReport
	overview  string // the page
	page      string // of the attack
	audit     string // its rows
}

// look reads all places until none changes meanwhile.
func (s *stage) look(state string, ready func(momentOf) bool) (m momentOf) {
	s.t.Helper()
	redistest.Until(s.t, "the state "+state, func() bool {
		var before, after struct{ Situation control.Situation }
		s.ask("/api/overview", &before)
		m = momentOf{situation: before.Situation, overview: s.page("/")}
		if of := m.situation.Of; of != nil {
			m.report = control.AttackReport{}
			s.ask("/api/attacks/"+of.ID, &m.report)
			m.page, m.audit = s.page("/attacks/"+of.ID), s.auditOf(of.ID)
		}
		s.ask("/api/overview", &after)
		return ready(m) && reflect.DeepEqual(before, after) && m.situation.State == state
	})
	return m
}

func (s *stage) auditOf(id string) string {
	var rows control.AuditPage
	s.ask("/api/audit?kind=attack&limit=100", &rows)
	var about []string
	for _, row := range rows.Rows {
		if text := fmt.Sprintf("%+v", row); strings.Contains(text, "attack "+id+" ") {
			about = append(about, text)
		}
	}
	return strings.Join(about, "\n")
}

// agrees compares all places: state, start, end, counts and accounts.
func (m momentOf) agrees(t *testing.T, at string) {
	t.Helper()
	s, r := m.situation, m.report
	has := func(where, text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %s: no %q in\n%s", at, where, part, text)
			}
		}
	}
	if r.ID != s.Of.ID || !r.Began.Equal(s.Of.Began) || !r.Last.Equal(s.Going.Last) || r.Going != s.Going.Yes ||
		r.Failed != s.Stopped.Checked || r.Challenged != s.Stopped.Challenged || r.Solved != s.Stopped.Solved ||
		r.Waited != s.Stopped.Delayed || r.Refused != s.Stopped.Blocked || r.Lost != s.Entered.Compromised ||
		r.Open != s.Entered.Open || r.Strange != s.Entered.NewClients {
		t.Errorf("%s: the overview says %+v, the attack %+v", at, s, r.Attack)
	}
	entered := "No suspicious sign-in"
	if r.Lost > 0 {
		entered = fmt.Sprintf("%s may be compromised, %d not secured", events.Count(r.Lost, "account"), r.Open)
	}
	has("overview", m.overview, "Still going on? "+map[bool]string{true: "Yes:", false: "No:"}[s.Going.Yes],
		fmt.Sprintf("%d challenged, %d solved", r.Challenged, r.Solved), fmt.Sprintf("%d wrong passwords checked", r.Failed),
		entered)
	has("page", m.page, map[bool]string{true: "Running since", false: "From"}[r.Going],
		fmt.Sprintf("%d attempts failed, from ", r.Attempts), fmt.Sprintf("Wrong passwords %d ", r.Failed),
		fmt.Sprintf("Challenged %d Delayed %d Blocked %d", r.Challenged, r.Waited, r.Refused))
	for _, v := range r.Victims {
		has("page", m.page, v.Account)
	}
	if began := times.Text(r.Began.UTC()); r.Running() {
		has("audit log", m.audit, "("+r.Kind+") since "+began)
	} else {
		has("audit log", m.audit, fmt.Sprintf("(%s) from %s to %s; addresses %d, accounts %d, compromised %d", r.Kind, began,
			times.Text(r.Last.UTC()), r.Addresses, r.Accounts, r.Lost))
	}
}

// agree waits for the email of an attack with a title: it has the same start, and the numbers of the time when it was
// sent, which the record follows in the background.
func (s *stage) agree(mail *inbox, title string, r control.AttackReport) {
	t := s.t
	t.Helper()
	redistest.Until(t, "the email "+title, func() bool { return len(mail.about(title, r.ID)) > 0 })
	all := mail.about(title, r.ID)
	parts := mailed.FindStringSubmatch(strings.Join(strings.Fields(all[0]), " "))
	since := "attempts since " + times.Text(r.Began.UTC())
	if len(all) != 1 || parts == nil || !strings.Contains(all[0], since) {
		t.Errorf("no %q, or not once:\n%s", since, all)
		return
	}
	var n [7]int64
	for i := range n {
		n[i], _ = strconv.ParseInt(parts[1+i], 10, 64)
	}
	redistest.Until(t, "the record of the email", func() bool {
		s.ask("/api/attacks/"+r.ID, &r)
		return r.Attempts >= n[0]
	})
	for i, most := range []int64{r.Attempts, r.Failed, r.Challenged, r.Solved, r.Waited, r.Refused, int64(r.Lost)} {
		if n[i] > most {
			t.Errorf("%s: %d, the attack has %d", parts[0], n[i], most)
		}
	}
	if n[0] != n[1]+n[2]+n[4]+n[5] {
		t.Errorf("%s: the parts are no %d attempts", parts[0], n[0])
	}
}

var mailed = regexp.MustCompile(`(\d+) failed or stopped attempts since .* Wrong passwords checked: (\d+)\. ` +
	`Challenged: (\d+), solved: (\d+)\. Delayed: (\d+)\. Blocked: (\d+)\. .* Possibly compromised accounts: (\d+)\.`)

// pictures photographs the overview, the page of the attack and the login page, if PICTURES names a folder.
func (s *stage) pictures(moment string, m momentOf) {
	s.t.Helper()
	if os.Getenv("PICTURES") == "" {
		return
	}
	if s.tab == nil {
		s.tab = openTab(s.t)
		s.tab.goTo(demoLink.FindString(s.out.String()))
	}
	redistest.Until(s.t, "the lists to be read again after the clock has jumped", func() bool {
		var now control.Overview
		s.ask("/api/overview", &now)
		return len(now.Warnings) == 0
	})
	s.tab.goTo(s.console + "/")
	s.tab.until("the page to be live", `document.querySelector("[data-freshness]").innerText.startsWith("Live, as of")`)
	s.tab.picture("story-" + moment + "-overview")
	if of := m.situation.Of; of != nil {
		s.tab.goTo(s.console + "/attacks/" + of.ID)
		s.tab.picture("story-" + moment + "-attack")
	}
	if m.report.Kind == attacks.Site && m.report.Going {
		s.tab.goTo(loginPage.FindString(s.out.String()))
		s.tab.picture("story-" + moment + "-login")
	}
}

var loginPage = regexp.MustCompile(`http://127\.0\.0\.1:\d+/login`)

// lost returns the possibly compromised accounts, sorted.
func lost(victims []attacks.Victim) (names []string) {
	for _, v := range victims {
		if v.Lost {
			names = append(names, v.Account)
		}
	}
	slices.Sort(names)
	return names
}

// At six moments of the story, the overview's four answers, the page of the attack, the emails, the API and the audit
// log agree. The possibly compromised accounts are those that the attackers entered: no user who signed in before.
func TestTheStoryIsTheSameEverywhere(t *testing.T) {
	long(t)
	t.Parallel()
	mail, server := openInbox(t)
	stops := []time.Duration{20 * time.Second, 65 * time.Second, 88 * time.Second, 120 * time.Second}
	reached, next := make(chan *stage), make(chan struct{})
	s := play(t, "alerts: {group_wait: 0s, private_networks: [127.0.0.0/8], to: ['"+server+"#name=ops']}\n",
		func(s *stage, at time.Duration) {
			if len(stops) == 0 || at < stops[0] {
				return
			}
			stops = stops[1:]
			select {
			case reached <- s:
				<-next
			case <-t.Context().Done():
			}
		})
	before := func(check func()) {
		t.Helper()
		<-reached
		defer func() { next <- struct{}{} }()
		check()
	}
	before(func() {
		m := s.look(control.NoAttack, func(momentOf) bool { return true })
		if m.situation.Of != nil || m.situation.Entered.OpenInAll != 0 || !strings.Contains(m.overview, "No attack") ||
			mail.all() != "" {
			t.Errorf("quiet: %+v, mail %q", m, mail.all())
		}
		s.pictures("1-quiet", m)
	})
	before(func() {
		m := s.look(control.UnderAttack, recorded)
		m.agrees(t, "guesser")
		if m.report.Kind != attacks.Account || m.report.Subject != "bob" || len(m.report.Victims) > 0 { // bob signed in before the first guess
			t.Errorf("guesser: %+v", m.report)
		}
		s.agree(mail, "Brute force against an account", m.report)
		s.pictures("2-guesser", m)
	})
	before(func() {
		m := s.look(control.UnderAttack, func(m momentOf) bool { return recorded(m) && m.report.Kind == attacks.Spray })
		m.agrees(t, "spray") // it found a password; the guesser, with more attempts, found none
		s.agree(mail, "Password spraying detected", m.report)
		s.pictures("3-spray", m)
	})
	before(func() {
		m := s.look(control.UnderAttack, func(m momentOf) bool {
			return recorded(m) && m.report.Kind == attacks.Site && len(mail.about("CAPTCHA mode is on", m.report.ID)) == 1
		})
		m.agrees(t, "attack")
		for _, title := range []string{"Login attack started", "CAPTCHA mode is on"} {
			s.agree(mail, title, m.report)
		}
		s.pictures("4-botnet", m)
	})
	redistest.Until(t, "the end of the story", func() bool { return t.Failed() || s.out.has("Ctrl-C stops the server") })
	s.stops(mail)
}

// stops compares all places after the last attempt, and after the cool-down.
func (s *stage) stops(mail *inbox) {
	t := s.t
	// All but the 44 logins of users and those of the attackers.
	attempts := int64(len(storyAttempts()) - 44 - len(enteredAccounts()))
	whole := func(m momentOf) bool { // the record follows in the background
		s.clock.Advance(2 * time.Second)
		return recorded(m) && m.report.Attempts >= attempts && slices.Equal(lost(m.report.Victims), sorted(enteredAccounts()))
	}
	m := s.look(control.AttackOver, whole)
	m.agrees(t, "stopped")
	s.pictures("5-stopped", m)
	if m.report.Attempts != attempts {
		t.Errorf("%d attempts when it stopped, want %d", m.report.Attempts, attempts)
	}
	m = s.look(control.AccountsOpen, func(m momentOf) bool {
		return whole(m) && !m.report.Running() && strings.Contains(m.audit, "ended") &&
			len(mail.about("Login attack ended", m.report.ID)) == 1
	})
	m.agrees(t, "after")
	s.pictures("6-after", m)
	if r := m.report; r.Attempts != attempts || r.Last.After(s.began.Add(128*time.Second)) || r.Ended.Sub(r.Last) < time.Minute {
		t.Errorf("%d attempts when it stopped; then %+v", attempts, r.Attack)
	}
	r, text := m.report, mail.about("Login attack ended", m.report.ID)[0]
	for _, want := range []string{
		fmt.Sprintf("from %s to %s (last attempt). The cool-down ended at %s.", times.Text(r.Began.UTC()),
			times.Text(r.Last.UTC()), times.Text(r.Ended.UTC())),
		fmt.Sprintf("Failed or stopped attempts: %d.", r.Attempts),
		fmt.Sprintf("Wrong passwords checked: %d. Challenged: %d, solved: %d. Delayed: %d. Blocked: %d.", r.Failed,
			r.Challenged, r.Solved, r.Waited, r.Refused),
		fmt.Sprintf("Sources: %s. Attacked: %s.", events.About(r.Addresses, "IP address"),
			events.About(r.Accounts, "account")),
		fmt.Sprintf("Possibly compromised accounts: %d. Other accounts with a login from an unknown client: %d.", r.Lost, r.Strange),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the mail of the end: no %q in\n%s", want, text)
		}
	}
	for _, name := range enteredAccounts() {
		if !strings.Contains(text, "Check "+fmt.Sprintf("%q", name)) {
			t.Errorf("the mail of the end: no %s in\n%s", name, text)
		}
	}
}

func recorded(m momentOf) bool { return m.audit != "" }

func sorted(names []string) []string { slices.Sort(names); return names }
