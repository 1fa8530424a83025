package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"authguard/internal/database/databasetest"
	"authguard/internal/testing/clocktest"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// receiver counts what a channel sends.
type receiver struct {
	mu     sync.Mutex
	fail   error
	tries  int
	bodies []string
	ids    map[string]int
}

func (r *receiver) send(_ context.Context, m *Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tries++; r.fail != nil {
		return r.fail
	}
	if r.ids == nil {
		r.ids = map[string]int{}
	}
	r.bodies = append(r.bodies, m.Body)
	r.ids[m.ID]++
	return nil
}

// join is a Merge.
func join(waiting, more Message) Message {
	waiting.Body += "+" + more.Body
	if more.Due.Before(waiting.Due) {
		waiting.Due = more.Due
	}
	return waiting
}

// box is a channel of separate messages.
func box(db *sql.DB, clock *clocktest.Clock, r *receiver, change ...func(*Config)) *Channel {
	c := Config{
		Store: Store{DB: db, Now: clock.Now, Log: slog.New(slog.DiscardHandler)}, Name: "test/a", Send: r.send,
		Limits: Limits{Waiting: 100, PerSubject: 50}, FirstRetry: time.Minute, LongestRetry: time.Hour,
	}
	for _, change := range change {
		change(&c)
	}
	return New(c)
}

func merging(c *Config) { c.Merge = join }

// rename makes the database unavailable, or available again.
func rename(t *testing.T, db *sql.DB, from, to string) {
	t.Helper()
	if _, err := db.Exec("ALTER TABLE " + from + " RENAME TO " + to); err != nil {
		t.Error(err)
	}
}

func text(clock *clocktest.Clock, body string) Message {
	return Message{Body: body, Expires: clock.Now().Add(24 * time.Hour)}
}

func TestOneNodeSendsEachMessage(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		for name, change := range map[string]func(*Config){"separate": func(*Config) {}, "merged": merging} {
			clock, r := clocktest.At(noon), new(receiver)
			var nodes []*Channel
			for range 4 {
				nodes = append(nodes, box(db, clock, r, change, func(c *Config) { c.Name = "test/" + name }))
			}
			for round := range 5 {
				var all sync.WaitGroup
				for i, c := range nodes {
					c.Add(text(clock, fmt.Sprintf("%d.%d", round, i)))
					all.Go(func() { c.Step(t.Context()) })
				}
				all.Wait()
				clock.Advance(time.Minute)
			}
			nodes[0].Step(t.Context())
			got := strings.Split(strings.Join(r.bodies, "+"), "+")
			if slices.Sort(got); len(got) != 20 || len(slices.Compact(got)) != 20 {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
}

func TestNodesMergeIntoOneMessageAtTheSameTime(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, r := clocktest.At(noon), new(receiver)
		var nodes []*Channel
		for range 4 {
			nodes = append(nodes, box(db, clock, r, merging))
		}
		for round := range 10 {
			var all sync.WaitGroup
			for i, c := range nodes {
				m := text(clock, fmt.Sprintf("%d.%d", round, i))
				m.Due = noon.Add(time.Minute)
				c.Add(m)
				all.Go(func() { c.save(t.Context()) })
			}
			all.Wait()
		}
		clock.Advance(time.Minute)
		for _, c := range nodes {
			c.Step(t.Context())
		}
		got := strings.Split(strings.Join(r.bodies, "+"), "+")
		if slices.Sort(got); len(got) != 40 || len(slices.Compact(got)) != 40 || len(r.bodies) > 4 {
			t.Errorf("%d messages: %q", len(r.bodies), got)
		}
	})
}

func TestAMessageOfADeadNodeIsSentAfterTheLease(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, r := clocktest.At(noon), new(receiver)
		dead := box(db, clock, r)
		dead.Add(text(clock, "a"))
		dead.save(t.Context())
		m, ok := dead.claim(t.Context())
		if !ok {
			t.Fatal("not claimed")
		}
		other := box(db, clock, r)
		if other.Step(t.Context()); r.tries != 0 {
			t.Error("two nodes send it")
		}
		other.Add(text(clock, "b"))
		if other.Step(t.Context()); !slices.Equal(r.bodies, []string{"b"}) {
			t.Errorf("another message waits for the lease: %q", r.bodies)
		}
		alone := box(db, clock, new(receiver), func(c *Config) {
			c.Alone, c.Send = true, func(context.Context, *Message) error { return errors.New("no") }
		})
		if alone.Step(t.Context()); alone.saved[0].Attempts != 2 {
			t.Errorf("a lone process waits for a lease: %+v", alone.saved)
		}
		clock.Advance(time.Hour)
		if other.Step(t.Context()); r.ids[m.ID] != 1 {
			t.Errorf("%+v", r)
		}
	})
}

func TestAFailureIsReportedAgainOnlyAfterASuccess(t *testing.T) {
	t.Parallel()
	clock, r, failed := clocktest.At(noon), &receiver{fail: errors.New("down")}, 0
	c := box(databasetest.SQLite(t), clock, r, func(c *Config) { c.Failed = func(error) { failed++ } })
	add := func(body string) {
		c.Add(text(clock, body))
		c.Step(t.Context())
		clock.Advance(2 * time.Hour)
	}
	add("a")
	add("b")
	if failed != 1 {
		t.Errorf("Failed %d times", failed)
	}
	r.fail = nil
	add("c")
	r.fail = errors.New("down")
	if add("d"); failed != 2 {
		t.Errorf("Failed %d times after a success", failed)
	}
}

// Failed is called hourly at most, whichever node reports.
func TestNodesShareReportsOfAFailure(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, r := clocktest.At(noon), &receiver{fail: errors.New("down")}
		failed, recovered := 0, 0
		edges := func(c *Config) { c.Failed, c.Recovered = func(error) { failed++ }, func() { recovered++ } }
		a, b := box(db, clock, r, merging, edges), box(db, clock, r, merging, edges)
		a.Add(text(clock, "a"))
		a.Step(t.Context())
		r.fail = nil
		clock.Advance(time.Minute)
		b.Step(t.Context())
		r.fail = errors.New("down")
		b.Add(text(clock, "b"))
		if b.Step(t.Context()); failed != 1 || recovered != 1 {
			t.Errorf("within an hour: Failed %d times, Recovered %d", failed, recovered)
		}
		clock.Advance(time.Hour)
		if a.Step(t.Context()); failed != 2 {
			t.Errorf("an hour later: Failed %d times", failed)
		}
	})
}

// A receiver that is down costs no message: attempts become rare, and outlive a restart with the same ID.
func TestAFailedMessageIsRetriedUntilItExpires(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, r := clocktest.At(noon), &receiver{fail: errors.New("down")}
		failed, recovered := 0, 0
		edges := func(c *Config) {
			c.FailedAfter, c.Failed, c.Recovered = 2, func(error) { failed++ }, func() { recovered++ }
		}
		c := box(db, clock, r, edges)
		for _, body := range []string{"a", "b"} {
			c.Add(text(clock, body))
		}
		for range 60 {
			c.Step(t.Context())
			clock.Advance(10 * time.Second)
		}
		if r.tries != 8 || failed != 1 || recovered != 0 { // at once, after 1, 3 and 7 minutes or a little less
			t.Errorf("%d tries, Failed %d times, Recovered %d", r.tries, failed, recovered)
		}
		c = box(db, clock, r, edges)
		r.fail = nil
		if c.Step(t.Context()); len(r.ids) != 2 || recovered != 1 {
			t.Errorf("after a restart %v, Recovered %d times", r.ids, recovered)
		}
		r.fail = fmt.Errorf("%w: x", ErrAddress)
		c.Add(text(clock, "c"))
		for range 24 {
			c.Step(t.Context())
			clock.Advance(time.Hour)
		}
		if failed != 1 {
			t.Error("a recipient's address is reported as a failure of the channel")
		}
		r.fail = nil
		if c.Step(t.Context()); len(r.ids) != 2 {
			t.Error("an expired message was sent")
		}
		if n, err := Purge(t.Context(), db, clock.Now()); n != 3 || err != nil {
			t.Errorf("%d purged, %v", n, err)
		}
	})
}

// The database is back at the end of the process, before the next attempt to use it.
func TestTheLastActionIsToSaveWhatIsInMemory(t *testing.T) {
	t.Parallel()
	db, clock := databasetest.SQLite(t), clocktest.At(noon)
	c := box(db, clock, new(receiver))
	rename(t, db, "outbox", "away")
	c.Add(text(clock, "a"))
	c.Step(t.Context())
	rename(t, db, "away", "outbox")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if c.Run(ended); len(c.Unsaved()) != 0 {
		t.Errorf("lost: %+v", c.Unsaved())
	}
}

func TestAChannelWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	db, clock := databasetest.SQLite(t), clocktest.At(noon)
	c := box(db, clock, new(receiver))
	c.Add(text(clock, "a"))
	c.save(t.Context())
	rename(t, db, "outbox", "away")
	c.Add(text(clock, "b"))
	if c.Step(t.Context()); c.pause() <= 0 {
		t.Error("it tries again at once")
	}
}

func TestAMessageExpiresInMemory(t *testing.T) {
	t.Parallel()
	clock, r := clocktest.At(noon), &receiver{fail: errors.New("down")}
	c := box(nil, clock, r)
	c.Add(text(clock, "a"))
	c.Step(t.Context())
	clock.Advance(24 * time.Hour)
	if c.Step(t.Context()); r.tries != 1 || len(c.Unsaved()) != 0 {
		t.Errorf("%d tries, %+v", r.tries, c.Unsaved())
	}
	r.fail = nil
	c.Add(text(clock, "b"))
	c.Step(t.Context())
	clock.Advance(3 * time.Hour)
	if c.Step(t.Context()); len(c.Messages()) != 0 {
		t.Errorf("a sent message stays: %+v", c.Messages())
	}
}

func TestAChannelIsBounded(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, r := clocktest.At(noon), new(receiver)
		c := box(db, clock, r, func(c *Config) {
			c.Limits = Limits{Waiting: 4, PerSubject: 2, Window: time.Hour}
			c.Wanted = func(_ context.Context, m Message) (bool, error) { return m.Body != "unwanted", nil }
		})
		add := func(subject string, times int, body string) {
			for range times {
				m := text(clock, body)
				m.Subject = subject
				c.Add(m)
			}
			c.save(t.Context())
		}
		rows := func() (n int) {
			if err := db.QueryRow(`SELECT COUNT(*) FROM outbox`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		add("a", 3, "x")
		add("b", 1, "unwanted")
		if n := rows(); n != 2 {
			t.Errorf("%d rows of a subject, want 2", n)
		}
		c.Step(t.Context())
		if add("a", 1, "x"); rows() != 2 {
			t.Error("sent messages within the window do not count")
		}
		clock.Advance(time.Hour)
		for i := range 10 {
			add(fmt.Sprint(i), 1, "x")
		}
		if n := rows(); n != 2+4 {
			t.Errorf("%d rows, want 2 sent and 4 waiting", n)
		}
		for range 2 * maxUnsaved {
			if !c.Add(Message{Subject: "flood", Expires: clock.Now().Add(time.Hour)}) {
				t.Fatal("one subject fills the memory")
			}
		}
		c.save(t.Context())
		full := 0
		for i := range 2 * maxUnsaved {
			if m := text(clock, "x"); !c.Add(Message{Subject: fmt.Sprint(i), Body: m.Body, Expires: m.Expires}) {
				full++
			}
		}
		if full != maxUnsaved {
			t.Errorf("%d of %d refused", full, 2*maxUnsaved)
		}
	})
}

// The database is down when the outcome is to be saved.
func TestASentMessageIsNotSentAgain(t *testing.T) {
	t.Parallel()
	db, clock, sent := databasetest.SQLite(t), clocktest.At(noon), 0
	for _, change := range []func(*Config){func(*Config) {}, merging} {
		sent = 0
		c := box(db, clock, new(receiver), change, func(c *Config) {
			c.Send = func(context.Context, *Message) error {
				if sent++; sent == 1 {
					rename(t, db, "outbox", "away")
				}
				return nil
			}
		})
		c.Add(text(clock, "a"))
		c.Step(t.Context())
		rename(t, db, "away", "outbox")
		for range 2 {
			clock.Advance(time.Minute)
			c.Step(t.Context())
		}
		if sent != 1 {
			t.Errorf("sent %d times", sent)
		}
	}
}

// While the database is down, messages that arrive during an attempt to save count for the bound.
func TestMemoryIsBoundedWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	db, clock := databasetest.SQLite(t), clocktest.At(noon)
	var c *Channel
	n := 0
	flood := func(context.Context, Message) (bool, error) {
		for range maxUnsaved {
			n++
			c.Add(Message{Subject: fmt.Sprint(n), Expires: clock.Now().Add(time.Hour)})
		}
		return true, nil
	}
	c = box(db, clock, new(receiver), func(c *Config) { c.Wanted = flood })
	c.Step(t.Context())
	rename(t, db, "outbox", "away")
	c.Add(text(clock, "a"))
	for range 5 {
		c.Step(t.Context())
		clock.Advance(lookEvery)
	}
	if all := len(c.Unsaved()); all > maxUnsaved+1 {
		t.Errorf("%d messages in memory", all)
	}
}

// An attacker may choose the name whose look-up fails.
func TestAFailedLookUpHoldsUpNoOtherMessage(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, r := clocktest.At(noon), new(receiver)
		c := box(db, clock, r, func(c *Config) {
			c.Wanted = func(_ context.Context, m Message) (bool, error) {
				if m.Body == "a" {
					return false, errors.New("no")
				}
				return true, nil
			}
		})
		c.Add(text(clock, "a"))
		c.Add(text(clock, "b"))
		if c.Step(t.Context()); !slices.Contains(r.bodies, "b") || len(c.Unsaved()) != 0 {
			t.Errorf("%q sent, %+v in memory", r.bodies, c.Unsaved())
		}
	})
}

// A message changes only until its first attempt, and the next one waits for it.
func TestMergedMessagesAreSentInOrder(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, r := clocktest.At(noon), new(receiver)
		c := box(db, clock, r, merging)
		add := func(body string, wait time.Duration) {
			m := text(clock, body)
			m.Due = clock.Now().Add(wait)
			c.Add(m)
			c.Step(t.Context())
		}
		add("a", time.Minute)
		add("b", time.Minute)
		if r.tries != 0 || len(c.Messages()) != 1 || !c.Next().Equal(noon.Add(time.Minute)) {
			t.Fatalf("%+v", c.Messages())
		}
		r.fail = errors.New("down")
		clock.Advance(time.Minute)
		c.Step(t.Context())
		add("c", 0)
		add("d", 0)
		if all := c.Messages(); r.tries != 1 || len(all) != 2 || all[0].Attempts != 1 || all[1].Body != "c+d" {
			t.Fatalf("%d tries, %+v", r.tries, all)
		}
		r.fail = nil
		c.Retry()
		if c.Step(t.Context()); !slices.Equal(r.bodies, []string{"a+b", "c+d"}) {
			t.Errorf("%q", r.bodies)
		}
	})
}

// Starts and corrected addresses make messages due, but other nodes' messages still count.
func TestARetryDoesNotExceedTheRateLimit(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, r := clocktest.At(noon), new(receiver)
		hourly := func(c *Config) {
			c.Hold = func(m Message, sent []time.Time) (until time.Time, body string) {
				if len(sent) > 0 {
					until = sent[len(sent)-1].Add(time.Hour)
				}
				return until, m.Body
			}
		}
		first := box(db, clock, r, merging, hourly)
		for _, body := range []string{"a", "b"} {
			first.Add(text(clock, body))
			first.Step(t.Context())
		}
		second := box(db, clock, r, merging, hourly)
		second.Step(t.Context())
		second.Retry()
		second.Step(t.Context())
		if !slices.Equal(r.bodies, []string{"a"}) || !second.Next().Equal(noon.Add(time.Hour)) {
			t.Errorf("%q, next at %v", r.bodies, second.Next())
		}
		clock.Advance(time.Hour)
		first.Step(t.Context())
		if second.Step(t.Context()); !slices.Equal(r.bodies, []string{"a", "b"}) {
			t.Errorf("an hour later: %q", r.bodies)
		}
	})
}

func TestAnotherChannelTakesOverTheUnsentMessages(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, r := clocktest.At(noon), new(receiver)
		for _, name := range []string{"test/b", "test/c", "other/d"} {
			c := box(db, clock, r, func(c *Config) { c.Name = name })
			if name == "test/b" {
				c.Add(text(clock, "sent"))
				c.Step(t.Context())
			}
			c.Add(text(clock, name))
			c.save(t.Context())
		}
		heir := box(db, clock, r)
		if err := heir.Adopt(t.Context(), "test/", []string{"test/c"}); err != nil {
			t.Fatal(err)
		}
		var rows int
		if err := db.QueryRow(`SELECT COUNT(*) FROM outbox WHERE channel = $1`, heir.Name).Scan(&rows); rows != 1 {
			t.Errorf("%d rows, %v", rows, err)
		}
		if heir.Step(t.Context()); !slices.Equal(r.bodies, []string{"sent", "test/b"}) {
			t.Errorf("%q", r.bodies)
		}
	})
}

// The message may be about the database. When it is back, it knows what was sent meanwhile.
func TestMergedMessagesAreSentWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	clock, r := clocktest.At(noon), new(receiver)
	var log strings.Builder
	var held []int
	db := databasetest.SQLite(t)
	logged := func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) }
	c := box(db, clock, r, merging, logged, func(c *Config) {
		c.Hold = func(m Message, sent []time.Time) (time.Time, string) {
			held = append(held, len(sent))
			return time.Time{}, m.Body
		}
	})
	single := box(db, clock, new(receiver), func(c *Config) { c.Name = "test/b" })
	add := func(body string) {
		c.Add(text(clock, body))
		single.Add(text(clock, body))
		clock.Advance(time.Minute)
		c.Step(t.Context())
		single.Step(t.Context())
	}
	add("a")
	rename(t, db, "outbox", "away")
	add("b")
	if r.fail = errors.New("down"); len(r.bodies) != 2 || len(single.Unsaved()) != 1 {
		t.Fatalf("%q", r.bodies)
	}
	add("c")
	rename(t, db, "away", "outbox")
	r.fail = nil
	add("d")
	if !slices.Equal(r.bodies, []string{"a", "b", "c", "d"}) || slices.Max(held) != 3 || len(single.Unsaved()) != 0 {
		t.Errorf("%q, %v sent before, %v", r.bodies, held, single.Unsaved())
	}
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d lines about the database:\n%s", n, &log)
	}
}
