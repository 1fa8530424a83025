package pages

import (
	"bytes"
	"time"
)

// liveParts are the parts of the page that update themselves, one element each, with the least time between two updates
// of a part. None of them contains a secret: the stream is compressed, and attackers choose names in it (BREACH).
var liveParts = [...]struct {
	name  string
	every time.Duration
}{
	{"live-clock", 0}, {"live-status", 0}, {"live-warnings", 0}, {"live-plot", time.Minute},
	{"live-account", tablesEvery}, {"live-address", tablesEvery}, {"live-network", tablesEvery},
	{"live-reason", tablesEvery}, {"live-switches", 0},
}

const tablesEvery = 10 * time.Second

// Live draws the changes that one open page does not show yet. The zero value has sent nothing. It is not safe for
// concurrent use.
type Live struct {
	sent  [len(liveParts)][]byte
	drawn [len(liveParts)]time.Time
}

// Draw returns the parts that have changed. A change of CAPTCHA mode is drawn at once.
func (l *Live) Draw(v NowView) (changed [][]byte, err error) {
	switched := false
	for _, s := range v.Overview.Switches {
		switched = switched || s.At.After(l.drawn[0])
	}
	for i, part := range liveParts {
		if since := v.Now.Sub(l.drawn[i]); since.Abs() < part.every && !switched {
			continue
		}
		text, err := render(part.name, v)
		if err != nil {
			return nil, err
		}
		l.drawn[i] = v.Now
		if !bytes.Equal(text, l.sent[i]) {
			l.sent[i] = text
			changed = append(changed, text)
		}
	}
	return changed, nil
}
