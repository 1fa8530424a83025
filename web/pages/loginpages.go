package pages

import (
	"html/template"
	"strings"
	"sync"
	"time"
)

// LoginPages draws sign-in pages. An attack is refused very often, and each
// refusal is such a page: executing the template takes 80 µs, several times
// what the rest of a refusal does. So it is executed once for each kind of
// page, with marks where attempts differ, and kept as the text between the
// marks; filling that in takes 1 µs. The zero LoginPages is ready to use, and
// safe for concurrent use.
type LoginPages struct {
	skeletons sync.Map // a LoginView with marks → skeleton
}

// Render draws the sign-in page. Pages that lead somewhere, belong to a session
// or say something special are few and drawn whole: what is kept is a closed
// set, which no stranger can make grow.
func (p *LoginPages) Render(v LoginView) ([]byte, error) {
	if v.Next != "" || v.SignedInAs != "" || v.Message.Detail != "" {
		return render("login", v)
	}
	key := v.withMarks()
	kept, ok := p.skeletons.Load(key)
	if !ok {
		page, err := render("login", key)
		if err != nil {
			return nil, err
		}
		kept = cut(page)
		p.skeletons.Store(key, kept)
	}
	return kept.(*skeleton).fill(v), nil
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
	slotSeconds
	slotWords
	slotISO
	slotClock
	slots
)

// marks stand for the slots while a skeleton is drawn. Nothing that a stranger
// typed is on the page then, and the templates have no such words.
var marks = [slots]string{
	"slot-a-goes-here", "slot-b-goes-here", "slot-c-goes-here", "slot-d-goes-here", "slot-e-goes-here",
	"slot-f-goes-here", "slot-g-goes-here", "slot-h-goes-here", "slot-i-goes-here",
}

// withMarks is the view with a mark in every slot that it fills.
func (v LoginView) withMarks() LoginView {
	v.marked = true
	c, m := &v.Challenge, &v.Message
	for s, text := range [...]*string{slotUsername: &v.Username, slotID: &c.ID, slotImage: &c.Image, slotAudio: &c.Audio, slotPoW: &c.PoWJSON} {
		if *text != "" {
			*text = marks[s]
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

// A skeleton is text, slot, text, slot and so on, ending in text.
type skeleton struct {
	texts []string
	slots []slot
	size  int // of all texts
}

// cut takes a page apart at its marks.
func cut(drawn []byte) *skeleton {
	s, page := new(skeleton), string(drawn)
	for {
		next, at := slots, len(page)
		for one, mark := range marks {
			if i := strings.Index(page, mark); i >= 0 && i < at {
				next, at = slot(one), i
			}
		}
		s.texts, s.size = append(s.texts, page[:at]), s.size+at
		if next == slots {
			return s
		}
		s.slots = append(s.slots, next)
		page = page[at+len(marks[next]):]
	}
}

func (s *skeleton) fill(v LoginView) []byte {
	with := [slots]string{
		slotUsername: v.Username, slotID: v.Challenge.ID, slotImage: v.Challenge.Image, slotAudio: v.Challenge.Audio, slotPoW: v.Challenge.PoWJSON,
	}
	if v.Message.Waits() {
		w := v.Wait()
		with[slotSeconds], with[slotWords], with[slotISO], with[slotClock] = w.Seconds, w.Words, w.ISO, w.Clock
	}
	size := s.size
	for i, text := range with {
		with[i] = template.HTMLEscapeString(text)
		size += 2 * len(with[i]) // paths stand on the page twice
	}
	page := make([]byte, 0, size)
	for i, one := range s.slots {
		page = append(append(page, s.texts[i]...), with[one]...)
	}
	return append(page, s.texts[len(s.slots)]...)
}
