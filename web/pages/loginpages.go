package pages

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
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

// Render writes the sign-in page. Pages that lead somewhere, belong to a
// session or say something special are few and drawn whole: what is kept is a
// closed set, which no stranger can make grow.
func (p *LoginPages) Render(w io.Writer, v LoginView) error {
	if v.Next != "" || v.SignedInAs != "" || v.CSRF != "" || v.Message.Detail != "" {
		return render(w, "login", v)
	}
	key := v.withMarks()
	kept, ok := p.skeletons.Load(key)
	if !ok {
		var page bytes.Buffer
		if err := render(&page, "login", key); err != nil {
			return err
		}
		kept = cut(page.Bytes())
		p.skeletons.Store(key, kept)
	}
	if _, err := w.Write(kept.(skeleton).fill(v)); err != nil {
		return fmt.Errorf("pages: write login: %w", err)
	}
	return nil
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
	texts [][]byte
	slots []slot
}

// cut takes a page apart at its marks.
func cut(page []byte) (s skeleton) {
	for {
		next, at := slots, len(page)
		for one, mark := range marks {
			if i := bytes.Index(page, []byte(mark)); i >= 0 && i < at {
				next, at = slot(one), i
			}
		}
		s.texts = append(s.texts, page[:at])
		if next == slots {
			return s
		}
		s.slots = append(s.slots, next)
		page = page[at+len(marks[next]):]
	}
}

func (s skeleton) fill(v LoginView) []byte {
	with := [slots]string{
		slotUsername: v.Username, slotID: v.Challenge.ID, slotImage: v.Challenge.Image, slotAudio: v.Challenge.Audio, slotPoW: v.Challenge.PoWJSON,
	}
	if v.Message.Waits() {
		with[slotSeconds], with[slotWords], with[slotISO], with[slotClock] = v.RetrySeconds(), v.RetryWords(), v.RetryISO(), v.RetryClock()
	}
	page := make([]byte, 0, 8<<10)
	for i, one := range s.slots {
		page = append(append(page, s.texts[i]...), template.HTMLEscapeString(with[one])...)
	}
	return append(page, s.texts[len(s.slots)]...)
}
