package pages

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Whoever is refused gets a sign-in page, and an attack is refused very often.
// So the page is not drawn each time: it is drawn once for everything of a
// view that does not differ between attempts, with marks where the rest goes,
// and kept as a skeleton of the text between the marks.

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

// mark stands for a slot while a skeleton is drawn. Nothing that a stranger
// typed is on the page then, and the templates have no such word.
func (s slot) mark() string { return fmt.Sprintf("slot-%c-goes-here", 'a'+s) }

// A skeleton is text, slot, text, slot and so on, ending in text.
type skeleton struct {
	texts [][]byte
	slots []slot
}

// skeletonKey is what one skeleton is good for.
type skeletonKey struct {
	site              Site
	admin             bool
	action            string
	named             bool
	message           Message // without its times
	waitsLong, timed  bool
	challenge         ChallengeKind
	imaged, withAudio bool
}

// maxSkeletons bounds what is kept; there are a few dozen messages.
const maxSkeletons = 64

var skeletons struct {
	kept  sync.Map // skeletonKey → *skeleton
	count atomic.Int32
}

// renderLogin writes the page from its skeleton. Pages that lead somewhere or
// belong to a session are drawn whole: they are few.
func renderLogin(w io.Writer, v LoginView) error {
	if v.Next != "" || v.SignedInAs != "" || v.CSRF != "" {
		return render(w, "login", v)
	}
	key := v.skeletonKey()
	kept, ok := skeletons.kept.Load(key)
	if !ok {
		if skeletons.count.Load() >= maxSkeletons {
			return render(w, "login", v)
		}
		drawn, err := drawSkeleton(v)
		if err != nil {
			return err
		}
		if _, was := skeletons.kept.LoadOrStore(key, drawn); !was {
			skeletons.count.Add(1)
		}
		kept = drawn
	}
	if err := kept.(*skeleton).fill(w, v.fillings()); err != nil {
		return fmt.Errorf("pages: write login: %w", err)
	}
	return nil
}

func (v LoginView) skeletonKey() skeletonKey {
	k := skeletonKey{site: v.Site, admin: v.Admin, action: v.Action, named: v.Username != "", message: v.Message}
	k.waitsLong, k.timed = v.Message.RetryAfter > longWait, !v.Message.RetryAt.IsZero()
	k.message.RetryAfter, k.message.RetryAt = 0, time.Time{}
	if c := v.Challenge; c != nil {
		k.challenge, k.imaged, k.withAudio = c.Kind, c.Image != "", c.Audio != ""
	}
	return k
}

// fillings is what goes into each slot of this view.
func (v LoginView) fillings() (f [slots]string) {
	f[slotUsername] = v.Username
	if c := v.Challenge; c != nil {
		f[slotID], f[slotImage], f[slotAudio], f[slotPoW] = c.ID, c.Image, c.Audio, c.PoWJSON
	}
	if v.Message.Waits() {
		f[slotSeconds], f[slotWords], f[slotISO], f[slotClock] = v.RetrySeconds(), v.RetryWords(), v.RetryISO(), v.RetryClock()
	}
	return f
}

// drawSkeleton draws the page with a mark in every slot.
func drawSkeleton(v LoginView) (*skeleton, error) {
	v.marked = true
	if v.Username != "" {
		v.Username = slotUsername.mark()
	}
	if v.Challenge != nil {
		c := *v.Challenge
		c.ID, c.PoWJSON = slotID.mark(), slotPoW.mark()
		if c.Image != "" {
			c.Image = slotImage.mark()
		}
		if c.Audio != "" {
			c.Audio = slotAudio.mark()
		}
		v.Challenge = &c
	}
	var page bytes.Buffer
	if err := render(&page, "login", v); err != nil {
		return nil, err
	}
	return cut(page.Bytes()), nil
}

// cut takes a page apart at its marks.
func cut(page []byte) *skeleton {
	s := &skeleton{}
	for {
		next, at := slots, len(page)
		for one := range slots {
			if i := bytes.Index(page, []byte(one.mark())); i >= 0 && i < at {
				next, at = one, i
			}
		}
		s.texts = append(s.texts, page[:at])
		if next == slots {
			return s
		}
		s.slots = append(s.slots, next)
		page = page[at+len(next.mark()):]
	}
}

func (s *skeleton) fill(w io.Writer, with [slots]string) error {
	for i, text := range s.texts {
		if _, err := w.Write(text); err != nil {
			return err
		}
		if i == len(s.slots) {
			break
		}
		if _, err := io.WriteString(w, escape(with[s.slots[i]])); err != nil {
			return err
		}
	}
	return nil
}

// escape is for text and for attributes with quotes. What it leaves alone is
// most of what comes.
func escape(s string) string {
	if !strings.ContainsAny(s, "<>&\"'\x00") {
		return s
	}
	return template.HTMLEscapeString(s)
}
