package pages

import (
	"html/template"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// LoginPages draws sign-in pages. An attack is refused very often, and each
// refusal is such a page: executing the template takes 80 µs, several times
// what the rest of a refusal does. So it is executed once for each kind of
// page, with marks where attempts differ, and kept as the text between the
// marks; filling that in takes 1 µs. The zero LoginPages is ready to use, and
// safe for concurrent use.
type LoginPages struct {
	look      atomic.Pointer[Look] // of what is kept
	skeletons sync.Map             // a LoginView with marks → its page, taken apart at them
}

// Render draws the sign-in page. Pages that lead somewhere, belong to a session
// or say something special are few and drawn whole: what is kept is a closed
// set, which no stranger can make grow. A new look begins it anew.
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

// A slot is a part of the sign-in page that differs between attempts. It
// stands in an attribute with quotes or in plain text, so one way of escaping
// is right for all.
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
	slots
)

// mark stands in front of a slot's letter while a skeleton is drawn. Nothing that
// a stranger typed is on the page then, and the templates have no such word.
const mark = "slot-goes-here-"

func (s slot) mark() string { return mark + string(rune('a'+s)) }

// withMarks is the view with a mark in every slot that it fills.
func (v LoginView) withMarks() LoginView {
	v.marked = true
	c, m := &v.Challenge, &v.Message
	for s, text := range [...]*string{slotUsername: &v.Username, slotID: &c.ID, slotImage: &c.Image, slotAudio: &c.Audio, slotPoW: &c.PoWJSON, slotBound: &c.Bound} {
		if *text != "" {
			*text = slot(s).mark()
		}
	}
	if m.RetryAfter > longWait { // which has words of its own
		m.RetryAfter = longWait + 1
	} else {
		m.RetryAfter = 0
	}
	if !m.RetryAt.IsZero() {
		m.RetryAt = time.Unix(0, 0)
	}
	return v
}

// fill puts a view into a skeleton: a page taken apart at its marks, so that all
// parts but the first begin with a slot's letter.
func fill(skeleton []string, v LoginView) []byte {
	with := [slots]string{
		slotUsername: v.Username, slotID: v.Challenge.ID, slotImage: v.Challenge.Image, slotAudio: v.Challenge.Audio, slotPoW: v.Challenge.PoWJSON, slotBound: v.Challenge.Bound,
	}
	if v.Message.Waits() {
		w := v.Wait()
		with[slotSeconds], with[slotWords], with[slotISO], with[slotClock] = w.Seconds, w.Words, w.ISO, w.Clock
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
