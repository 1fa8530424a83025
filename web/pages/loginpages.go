package pages

import (
	"html/template"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// LoginPages draws sign-in pages. An attack causes many of them, and executing the template takes 80 µs, several times
// the rest of a blocked attempt. So LoginPages executes it once for each kind of page, with marks where attempts
// differ; filling in the marks takes 1 µs. The zero LoginPages is ready to use and safe for concurrent use.
type LoginPages struct {
	look      atomic.Pointer[Look] // of the cached skeletons
	skeletons sync.Map             // a LoginView with marks → its page, split at the marks
}

// Render draws the sign-in page. It caches only a closed set of pages, which an attacker cannot grow. The others (with
// Next, a session, a Detail or PasskeysAt) are rare and drawn whole. A new look clears the cache.
func (p *LoginPages) Render(v LoginView) ([]byte, error) {
	if v.Next != "" || v.SignedInAs != "" || v.Message.Detail != "" || v.PasskeysAt != "" {
		return render("login", v)
	}
	if p.look.Load() != v.Look && p.look.Swap(v.Look) != v.Look {
		p.skeletons.Clear()
	}
	key := v.withMarks()
	kept, ok := p.skeletons.Load(key)
	if !ok {
		page, err := render("login", key)
		if err != nil {
			return nil, err
		}
		kept = strings.Split(string(page), mark)
		p.skeletons.Store(key, kept)
	}
	return fill(kept.([]string), v), nil
}

// A slot is a part of the sign-in page that differs between attempts. Each is in a quoted attribute or in plain text,
// so the same escaping is right for all.
type slot uint8

const (
	slotUsername slot = iota
	slotID
	slotImage
	slotAudio
	slotPoW
	slotBound
	slotSeconds
	slotWords
	slotISO
	slotClock
	slotClient
	slots
)

// mark precedes a slot's letter in a skeleton, which has neither user input nor this word.
const mark = "slot-goes-here-"

func (s slot) mark() string { return mark + string(rune('a'+s)) }

// withMarks returns the view with a mark in every slot that it fills.
func (v LoginView) withMarks() LoginView {
	v.marked = true
	c, m := &v.Challenge, &v.Message
	for s, text := range [...]*string{slotUsername: &v.Username, slotID: &c.ID, slotImage: &c.Image, slotAudio: &c.Audio,
		slotPoW: &c.PoWJSON, slotBound: &c.Bound} {
		if *text != "" {
			*text = slot(s).mark()
		}
	}
	if m.RetryAfter > longWait { // a long wait has a sentence of its own
		m.RetryAfter = longWait + 1
	} else {
		m.RetryAfter = 0
	}
	m.Client = ""
	if !m.RetryAt.IsZero() {
		m.RetryAt = time.Unix(0, 0)
	}
	return v
}

// fill puts a view into a skeleton, whose parts after the first begin with a slot's letter.
func fill(skeleton []string, v LoginView) []byte {
	with := [slots]string{
		slotUsername: v.Username, slotID: v.Challenge.ID, slotImage: v.Challenge.Image, slotAudio: v.Challenge.Audio,
		slotPoW: v.Challenge.PoWJSON, slotBound: v.Challenge.Bound,
	}
	if v.Message.Waits() || v.Message.Closed() {
		w := v.Wait()
		with[slotSeconds], with[slotWords], with[slotISO], with[slotClock] = w.Seconds, w.Words, w.ISO, w.Clock
		with[slotClient] = w.Client
	}
	for i, text := range with {
		with[i] = template.HTMLEscapeString(text)
	}
	size := len(skeleton[0])
	for _, part := range skeleton[1:] {
		size += len(with[part[0]-'a']) + len(part) - 1
	}
	page := append(make([]byte, 0, size), skeleton[0]...)
	for _, part := range skeleton[1:] {
		page = append(append(page, with[part[0]-'a']...), part[1:]...)
	}
	return page
}
