package trusted

import (
	"errors"
	"slices"
	"time"
)

// ErrNoKey says that a change named no account, or no place: the zero Key.
var ErrNoKey = errors.New("trusted: the zero key is invalid")

// ErrFull says that a login changed nothing: its account has as many known clients as
// it may, and one of them was added within the hour.
var ErrFull = errors.New("trusted: no room for another known client within the hour")

// LongStanding is how long a known client is in use before newer ones no longer evict it
// while there are others.
const LongStanding = 24 * time.Hour

// NewFor is how long a known client is new: meanwhile a full account gets no other, or
// logins from many addresses would evict all others (a botnet at an app that answers
// wrong passwords like right ones).
const NewFor = time.Hour

// MaxSpent is how many spent places of one account are kept.
const MaxSpent = 32

// An Entry is one place of an account. Times are milliseconds since the Unix
// epoch.
type Entry struct {
	Client Key
	Status Status // Privileged or Spent
	First  int64  // first login from there, or the first since it was spent
	Last   int64  // last login from there; of a spent place, when it was spent
}

// A Record is everything that is remembered of one account, and the rules of
// changing it: pure, without a clock or a lock, so that every store has the
// same. The zero Record remembers nothing. It is not safe for concurrent
// changes.
type Record struct {
	Entries []Entry
	// Reset is when everything was last forgotten, in milliseconds, or a little later where a
	// bound was reached; 0: never. Device cookies issued at or before it are void.
	Reset int64
}

// WithDefaults fills in what is zero.
func (l Limits) WithDefaults() Limits {
	if l.MaxClients == 0 {
		l.MaxClients = DefaultLimits
	}
	if l.TTL == 0 {
		l.TTL = DefaultTTL
	}
	if l.Sharers == 0 {
		l.Sharers = DefaultSharers
	}
	return l
}

// Validate names what is wrong with the limits.
func (l Limits) Validate() error {
	var problems []error
	if l.MaxClients < 0 {
		problems = append(problems, errors.New("places: must be at least 1"))
	}
	if l.TTL < 0 {
		problems = append(problems, errors.New("ttl: must be more than 0"))
	}
	if l.Sharers < 0 {
		problems = append(problems, errors.New("sharers: must be at least 1"))
	}
	return errors.Join(problems...)
}

// Status returns what a client is if nothing in the record has expired. It does not allocate.
func (r *Record) Status(client Key) Status {
	if i := r.find(client); i >= 0 {
		return r.Entries[i].Status
	}
	return Unknown
}

// Remember makes a place privileged. Where limits.Places are, one of them is evicted
// ([Record.leastUsed]) or, if one was added within the hour, the error is ErrFull. A login
// that ended before all places were forgotten, and is told late, changes nothing.
func (r *Record) Remember(place Key, now time.Time, limits Limits) error {
	if now.UnixMilli() < r.Reset {
		return nil
	}
	r.Expire(now, limits)
	if i := r.find(place); (i < 0 || r.Entries[i].Status != Known) && r.count(Known) >= limits.MaxClients {
		if r.hasNew(now) {
			return ErrFull
		}
		r.drop(r.leastUsed(place))
	}
	r.put(place, Known, now, limits)
	return nil
}

// Spend ends a place's privilege. The oldest spent ones beyond MaxSpent go, and
// take with them every device cookie as old as they are: a device that is no
// longer known to be spent must not be privileged again by its cookie.
func (r *Record) Spend(place Key, now time.Time, limits Limits) {
	r.put(place, Spent, now, limits)
	for r.count(Spent) > MaxSpent {
		i := r.oldest(Spent, place, func(*Entry) bool { return true })
		r.Reset = max(r.Reset, r.Entries[i].Last)
		r.drop(i)
	}
}

// Forget drops one place; with the zero place all of them, and marks the time.
func (r *Record) Forget(place Key, now time.Time) {
	if place == (Key{}) {
		r.Entries, r.Reset = nil, max(r.Reset, now.UnixMilli())
		return
	}
	if i := r.find(place); i >= 0 {
		r.drop(i)
	}
}

// Live is the record without what has expired. It shares its entries with the record and must not
// be changed.
func (r *Record) Live(now time.Time, limits Limits) Record {
	if !slices.ContainsFunc(r.Entries, func(e Entry) bool { return e.expired(now, limits) }) {
		return *r
	}
	live := r.Clone()
	live.Expire(now, limits)
	return live
}

// Expire drops clients that were not used for limits.TTL.
func (r *Record) Expire(now time.Time, limits Limits) {
	r.Entries = slices.DeleteFunc(r.Entries, func(e Entry) bool { return e.expired(now, limits) })
}

// Clone is a copy that shares nothing.
func (r *Record) Clone() Record {
	return Record{Entries: slices.Clone(r.Entries), Reset: r.Reset}
}

// Floor is the latest time at which something of the account was voided: a
// store that must forget the whole record voids device cookies up to then.
func (r *Record) Floor() int64 {
	floor := r.Reset
	for i := range r.Entries {
		if r.Entries[i].Status == Spent {
			floor = max(floor, r.Entries[i].Last)
		}
	}
	return floor
}

func (r *Record) put(place Key, status Status, now time.Time, limits Limits) {
	r.Expire(now, limits)
	at := now.UnixMilli()
	i := r.find(place)
	if i < 0 {
		r.Entries = append(r.Entries, Entry{Client: place, Status: status, First: at, Last: at})
		return
	}
	e := &r.Entries[i]
	if status == Known && e.Status == Spent {
		e.First = at // as new as any other that takes room
	}
	e.Status, e.Last = status, max(e.Last, at)
}

func (r *Record) find(place Key) int {
	return slices.IndexFunc(r.Entries, func(e Entry) bool { return e.Client == place })
}

func (r *Record) drop(i int) { r.Entries = slices.Delete(r.Entries, i, i+1) }

func (r *Record) count(status Status) (n int) {
	for i := range r.Entries {
		if r.Entries[i].Status == status {
			n++
		}
	}
	return n
}

// leastUsed is the privileged place to evict: the least recently used one, and none of
// long standing while there are others.
func (r *Record) leastUsed(keep Key) int {
	brief := r.oldest(Known, keep, func(e *Entry) bool { return e.Last-e.First < LongStanding.Milliseconds() })
	if brief >= 0 {
		return brief
	}
	return r.oldest(Known, keep, func(*Entry) bool { return true })
}

// hasNew reports whether a privileged place was added within the hour.
func (r *Record) hasNew(now time.Time) bool {
	return slices.ContainsFunc(r.Entries, func(e Entry) bool {
		age := now.UnixMilli() - e.First // below 0 if the clock was set back
		return e.Status == Known && max(age, -age) < NewFor.Milliseconds()
	})
}

// oldest is the least recently used of a status, but never keep: with a clock
// that went backwards the newest word would otherwise go first. It is -1 if there is none.
func (r *Record) oldest(status Status, keep Key, among func(*Entry) bool) int {
	found := -1
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.Status == status && e.Client != keep && among(e) && (found < 0 || e.Last < r.Entries[found].Last) {
			found = i
		}
	}
	return found
}

func (e *Entry) expired(now time.Time, limits Limits) bool {
	return now.UnixMilli()-e.Last >= limits.TTL.Milliseconds()
}
