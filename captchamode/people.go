package captchamode

import (
	"encoding/binary"
	"slices"
)

// What people make good is no attack (R25): the failures of a pair (an account
// from one place) that logs in shortly after are taken back, and how many
// accounts log in says how many failures are normal.

// A CorrectedTypo says that a pair has logged in, at a second of the site's time.
type CorrectedTypo struct {
	Pair uint64
	At   int64
}

const (
	// maxCorrections is how many failures of one pair can be taken back: more than its
	// delay lets through in a minute.
	maxCorrections = 8
	// maxCorrected is how many mends a report holds, and correctedWithin how many seconds
	// each stays in it, so that a report that gets lost does no harm.
	maxCorrected    = 64
	correctedWithin = 5
)

// corrections remembers which failures of the last minute which pair caused. Its size is
// fixed. The newer of two pairs that fall together stays; what is forgotten is not
// taken back, which is the strict side. Nobody can aim at it, or at another pair:
// pairs are keyed digests.
type corrections [1 << 12]debt

type debt struct {
	pair    uint64
	seconds [maxCorrections]uint32 // in Unix time; 0 is none
}

func (o *corrections) of(pair uint64) *debt { return &o[pair%uint64(len(o))] }

// note notes a failure that was counted in a second.
func (o *corrections) note(pair uint64, unix int64) {
	one := o.of(pair)
	if one.pair != pair {
		*one = debt{pair: pair}
	}
	oldest := &one.seconds[0]
	for i := range one.seconds {
		if one.seconds[i] < *oldest {
			oldest = &one.seconds[i]
		}
	}
	if unix-int64(*oldest) > windowSeconds { // else there are maxCorrections: this one is not taken back
		*oldest = uint32(unix)
	}
}

// add takes back from w what the pair owed at a moment.
func (o *corrections) add(w *window, m CorrectedTypo) {
	one := o.of(m.Pair)
	if one.pair != m.Pair {
		return
	}
	for i, second := range one.seconds {
		unix := int64(second)
		if second != 0 && unix <= m.At && unix <= w.now {
			if one.seconds[i] = 0; w.now-unix <= windowSeconds {
				w.takeBackOf(Failure, unix)
			}
		}
	}
}

// people remembers how often each account has logged in within half an hour, up to mostLogins: a
// user whose sessions are short logs in and fails several times, and an attacker's account says
// little. Its size is fixed; two accounts that fall together are one, which is the strict side:
// fewer logins, a lower threshold.
type people [1 << 16]uint16

const (
	// loginEvery is how often one account's logins say something, in seconds, and mostLogins how
	// many of them do.
	loginEvery = 30 * 60
	mostLogins = 3
)

// counts reports whether the account's login says something in this half-hour.
func (p *people) counts(account *[16]byte, unix int64) bool {
	const halves = 1<<16/mostLogins - 1
	slot, half := &p[binary.LittleEndian.Uint16(account[:])], uint16(unix/loginEvery%halves+1)*mostLogins
	switch {
	case *slot/mostLogins != half/mostLogins:
		*slot = half
	case *slot == half+mostLogins-1:
		return false
	default:
		*slot++
	}
	return true
}

func pairOf(pair *[16]byte) uint64 { return binary.LittleEndian.Uint64(pair[:]) }

// tell adds a mend to what is reported, and forgets the old ones.
func tell(all []CorrectedTypo, one CorrectedTypo) []CorrectedTypo {
	all = slices.DeleteFunc(all, func(m CorrectedTypo) bool { return one.At-m.At > correctedWithin })
	if len(all) < maxCorrected {
		all = append(all, one)
	}
	return all
}
