package pages

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/internal/control"
	"authguard/internal/metrics"
	"authguard/web/static"
)

func TestWhatIsSentLiveIsWhatThePageHasInside(t *testing.T) {
	t.Parallel()
	v := attacked()
	page := text(t, func() ([]byte, error) { return RenderNow(v) })
	parts, err := new(Live).Draw(v)
	if err != nil || len(parts) != len(liveParts) {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for i, part := range parts {
		if !strings.Contains(page, string(part)) {
			t.Errorf("%s is not in the page as it is sent", liveParts[i].name)
		}
	}
}

// The stream is compressed, and attackers choose names in it: a token's length would reveal it (BREACH).
func TestNoSecretIsSentLive(t *testing.T) {
	t.Parallel()
	for name, v := range overviews() {
		v.CSRF = "secret-token"
		parts, err := new(Live).Draw(v)
		if all := bytes.Join(parts, nil); err != nil || bytes.Contains(all, []byte(v.CSRF)) || bytes.Contains(all, []byte("<form")) {
			t.Errorf("%s: a form or its token is sent live (%v)", name, err)
		}
	}
}

func TestThePlotIsSentOnceAMinuteAndTablesEveryTenSeconds(t *testing.T) {
	t.Parallel()
	v, live, sent := besieged(time.Time{}), new(Live), map[string]int{}
	for i := range 120 / 5 {
		v.Now = noon.Add(time.Duration(i) * 5 * time.Second)
		v.Series.Points = append(v.Series.Points[1:], metrics.Point{Start: v.Now, Counts: metrics.Counts{Attempts: i}})
		v.Overview.Addresses[0].Stopped++
		parts, err := live.Draw(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			name, _, _ := strings.Cut(strings.TrimPrefix(string(part[bytes.Index(part, []byte("id=")):]), `id="`), `"`)
			sent[name]++
		}
	}
	if sent["live-plot"] != 2 || sent["live-address"] != 12 || sent["live-clock"] != 24 || sent["live-warnings"] != 1 || sent["live-switches"] > 2 {
		t.Errorf("in two minutes: %v", sent)
	}
}

// shake has five more seconds of the attack in the overview: every row counts, and the order changes.
func (v *NowView) shake(i int) {
	v.Now = noon.Add(time.Duration(i) * 5 * time.Second)
	v.Overview.Now = v.Now
	for second := range 5 {
		p := metrics.Point{Start: v.Now.Add(time.Duration(second) * time.Second), Counts: metrics.Counts{Attempts: 20 + (i*7+second)%11, Shown: 19 + i%5, Failures: i % 3}}
		v.Series.Points = append(v.Series.Points[1:], p)
	}
	v.Series.FailureRate[59].Unsolved += 90 + i%7
	v.Overview.State.FailureRate[0] = 1500 + i*13%97
	for _, rows := range [][]control.Subject{v.Overview.Addresses, v.Overview.Networks, v.Overview.Accounts, v.Overview.Reasons} {
		for j := range rows {
			rows[j].Stopped, rows[j].Failures, rows[j].LastSeen = rows[j].Stopped+(i*j)%9+1, rows[j].Failures+i%2, v.Now
		}
		slices.SortFunc(rows, func(a, b control.Subject) int { return b.Stopped - a.Stopped })
	}
	v.Overview.Attacks[0].Challenged += int64(90 + i%7)
	v.Overview.Attacks[0].Addresses += 80
	v.Overview.Attacks[0].Last = v.Now
	*v = answered(*v)
}

// Measured before: 1.9 MB in 50 s.
func TestAMinuteOfAnAttackIsAtMost40KBLive(t *testing.T) {
	t.Parallel()
	var wire bytes.Buffer
	v, live, plain := besieged(time.Time{}), new(Live), 0
	out := gzip.NewWriter(&wire)
	for i := range 60/5 + 1 { // the first one has the whole page
		v.shake(i)
		parts, err := live.Draw(v)
		if err != nil {
			t.Fatal(err)
		}
		texts := []string{}
		for _, part := range parts {
			texts = append(texts, string(part))
		}
		message, _ := json.Marshal(texts)
		plain += len(message)
		_, _ = out.Write(message)
		_ = out.Flush()
	}
	t.Logf("%d bytes, %d before compression", wire.Len(), plain)
	if wire.Len() > 40<<10 {
		t.Errorf("%d bytes in a minute", wire.Len())
	}
}

// The page is not compressed: it has a CSRF token, and attackers choose names on it.
func TestTheOverviewIsAtMost60KBInAnAttack(t *testing.T) {
	t.Parallel()
	for name, v := range overviews() {
		if name == "table" || name == "week" {
			continue
		}
		sum := len(text(t, func() ([]byte, error) { return RenderNow(v) }))
		page := sum
		for _, file := range []string{"authguard.css", "times.js", "now.js", "icon.svg"} {
			small, ok := static.Compressed(file)
			if !ok {
				t.Fatal(file)
			}
			sum += len(small)
		}
		t.Logf("%s: %d bytes, of these %d HTML", name, sum, page)
		if sum > 60<<10 {
			t.Errorf("%s: %d bytes, of these %d HTML", name, sum, page)
		}
	}
}
