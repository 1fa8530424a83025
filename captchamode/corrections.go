package captchamode

import (
	"encoding/binary"
	"slices"
)

// Corrected typos are no attack (R25): if an account and IP pair signs in shortly after its failures, these are taken
// back.

// A CorrectedTypo is a pair that signed in, with the second by the site's clock.
type CorrectedTypo struct {
	Pair uint64
	At   int64
}

const (
	// maxCorrections is how many failures of one pair can be taken back: more than its delay admits in a minute.
	maxCorrections = 8
	// maxCorrected is how many pairs a report holds. Each stays in it for correctedWithin seconds, so a lost report does
	// no harm.
	maxCorrected    = 64
	correctedWithin = 5
)

// corrections stores the last minute's failures by pair. The size is fixed, and a colliding pair replaces the older
// one. A forgotten failure is not taken back, which is the strict side. Attackers cannot target a pair, because pairs
// are keyed digests.
type corrections [1 << 12]debt

type debt struct {
	pair    uint64
	seconds [maxCorrections]uint32 // in Unix time; 0: none
	daily   [maxCorrections]bool   // it counted for Daily, too
}

func (o *corrections) of(pair uint64) *debt { return &o[pair%uint64(len(o))] }

func (o *corrections) note(pair uint64, unix int64, daily bool) {
	one := o.of(pair)
	if one.pair != pair {
		*one = debt{pair: pair}
	}
	oldest := 0
	for i := range one.seconds {
		if one.seconds[i] < one.seconds[oldest] {
			oldest = i
		}
	}
	if unix-int64(one.seconds[oldest]) > windowSeconds { // else there are maxCorrections: this one is not taken back
		one.seconds[oldest], one.daily[oldest] = uint32(unix), daily
	}
}

// add takes back from w the pair's failures up to m.At.
func (o *corrections) add(w *window, m CorrectedTypo) {
	one := o.of(m.Pair)
	if one.pair != m.Pair {
		return
	}
	for i, second := range one.seconds {
		unix := int64(second)
		if second != 0 && unix <= m.At && unix <= w.now {
			if one.seconds[i] = 0; w.now-unix <= windowSeconds {
				if w.takeBackOf(Failure, unix); one.daily[i] {
					w.takeBack(daily) // of this minute: the failure's may be learned already
				}
			}
		}
	}
}

func pairOf(pair *[16]byte) uint64 { return binary.LittleEndian.Uint64(pair[:]) }

// tell adds a pair to the report, and removes the old ones.
func tell(all []CorrectedTypo, one CorrectedTypo) []CorrectedTypo {
	all = slices.DeleteFunc(all, func(m CorrectedTypo) bool { return one.At-m.At > correctedWithin })
	if len(all) < maxCorrected {
		all = append(all, one)
	}
	return all
}
