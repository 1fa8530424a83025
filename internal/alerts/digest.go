package alerts

import (
	"cmp"
	"slices"
	"time"
)

// maxKept is how many alerts wait for one channel with all their text.
const maxKept = 200

// A digest is what one channel still has to tell. It is not safe for
// concurrent use.
type digest struct {
	kept    []alert      // oldest first
	counted map[Kind]int // those there was no room for
	since   time.Time    // the first of those
}

// add keeps the alert or, without room, counts one: an ordinary one if there
// is any, so that a flood of those cannot hide that the attack ended.
func (d *digest) add(a alert) {
	d.kept = append(d.kept, a)
	if len(d.kept) <= maxKept {
		return
	}
	i := len(d.kept) - 1
	for j := i; j >= 0; j-- {
		if !d.kept[j].kind.important() {
			i = j
			break
		}
	}
	d.count(d.kept[i])
	d.kept = slices.Delete(d.kept, i, i+1)
}

func (d *digest) count(a alert) {
	if d.counted == nil {
		d.counted = make(map[Kind]int)
		d.since = a.at
	}
	d.counted[a.kind]++
}

// merge adds what another digest has and this one has not.
func (d *digest) merge(other digest) {
	have := make(map[uint64]bool)
	for _, a := range d.kept {
		have[a.id] = true
	}
	for _, a := range other.kept {
		if !have[a.id] {
			d.add(a)
		}
	}
	if d.counted == nil {
		d.since = other.since
	}
	for kind, n := range other.counted {
		if d.counted == nil {
			d.counted = make(map[Kind]int)
		}
		d.counted[kind] += n
	}
	slices.SortStableFunc(d.kept, func(a, b alert) int { return cmp.Compare(a.id, b.id) })
}

// snapshot copies the digest, so that it can be sent while it grows.
func (d *digest) snapshot() digest {
	s := digest{kept: slices.Clone(d.kept), since: d.since}
	for kind, n := range d.counted {
		if s.counted == nil {
			s.counted = make(map[Kind]int)
		}
		s.counted[kind] = n
	}
	return s
}

// delivered takes out what a snapshot had.
func (d *digest) delivered(s digest) {
	sent := make(map[uint64]bool, len(s.kept))
	for _, a := range s.kept {
		sent[a.id] = true
	}
	d.kept = slices.DeleteFunc(d.kept, func(a alert) bool { return sent[a.id] })
	for kind, n := range s.counted {
		if d.counted[kind] -= n; d.counted[kind] <= 0 {
			delete(d.counted, kind)
		}
	}
	if len(d.counted) == 0 {
		d.counted = nil
	}
}

func (d *digest) len() int {
	n := len(d.kept)
	for _, more := range d.counted {
		n += more
	}
	return n
}

func (d *digest) important() bool {
	return slices.ContainsFunc(d.kept, func(a alert) bool { return a.kind.important() })
}

// due is when the digest should go out for the alerts' sake.
func (d *digest) due(window time.Duration) time.Time {
	if len(d.kept) == 0 {
		return d.since.Add(window)
	}
	if slices.ContainsFunc(d.kept, func(a alert) bool { return a.kind.atOnce() }) {
		return time.Time{}
	}
	return d.kept[0].at.Add(window)
}
