package trusted

import (
	"errors"
	"slices"
	"time"
)

// ErrNoKey means that an account or client was the zero Key.
var ErrNoKey = errors.New("trusted: the zero key is invalid")

// ErrFull means that a login changed nothing: the account has the maximum number of known clients, and one of them is
// new.
var ErrFull = errors.New("trusted: no room for another known client within the hour")

// LongStanding is how long a known client must be in use before others are evicted first.
const LongStanding = 24 * time.Hour

// NewFor is how long a known client is new. Until then, a full account gets no other. Otherwise logins from many
// addresses could evict all others (a botnet at an app that answers wrong passwords like correct ones).
const NewFor = time.Hour

// MaxSpent is the maximum number of spent clients per account.
const MaxSpent = 32

// An Entry is one client of an account. Times are in Unix milliseconds.
type Entry struct {
	Client Key
	Status Status // Known or Spent
	First  int64  // first login, or first since it was spent
	Last   int64  // last login; of a spent client, when it was spent
}

// A Record contains all clients of one account and the rules for changing them. It has no clock or lock, so all
// stores share it. The zero Record is empty. It is not safe for concurrent changes.
type Record struct {
	Entries []Entry
	// Reset is the time of the last reset in Unix milliseconds, or slightly later after an eviction; 0: never. Device
	// cookies issued at or before it are invalid.
	Reset int64
}

// WithDefaults replaces zero fields with the defaults.
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

// Validate returns all problems with the limits.
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

// Status returns the client's status, including expired ones. It does not allocate.
func (r *Record) Status(client Key) Status {
	if i := r.find(client); i >= 0 {
		return r.Entries[i].Status
	}
	return Unknown
}

// Remember makes a client known. At limits.MaxClients it evicts another one ([Record.leastUsed]), or returns ErrFull
// if one is new. A login before the last reset changes nothing.
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

// Spend marks a client as Spent. Beyond MaxSpent, it drops the oldest spent clients and invalidates all device
// cookies as old as they are. Otherwise a dropped device's cookie would be valid again.
func (r *Record) Spend(place Key, now time.Time, limits Limits) {
	r.put(place, Spent, now, limits)
	for r.count(Spent) > MaxSpent {
		i := r.oldest(Spent, place, func(*Entry) bool { return true })
		r.Reset = max(r.Reset, r.Entries[i].Last)
		r.drop(i)
	}
}

// Forget removes a client; with the zero client, it removes all and sets Reset.
func (r *Record) Forget(place Key, now time.Time) {
	if place == (Key{}) {
		r.Entries, r.Reset = nil, max(r.Reset, now.UnixMilli())
		return
	}
	if i := r.find(place); i >= 0 {
		r.drop(i)
	}
}

// Live returns the record without expired clients. It shares entries with r and must not be changed.
func (r *Record) Live(now time.Time, limits Limits) Record {
	if !slices.ContainsFunc(r.Entries, func(e Entry) bool { return e.expired(now, limits) }) {
		return *r
	}
	live := r.Clone()
	live.Expire(now, limits)
	return live
}

// Expire removes clients that were not used for limits.TTL.
func (r *Record) Expire(now time.Time, limits Limits) {
	r.Entries = slices.DeleteFunc(r.Entries, func(e Entry) bool { return e.expired(now, limits) })
}

// Clone returns a deep copy.
func (r *Record) Clone() Record {
	return Record{Entries: slices.Clone(r.Entries), Reset: r.Reset}
}

// Floor returns up to when device cookies must be invalid if a store evicts the record: the latest of Reset and all
// spent clients.
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
		e.First = at // as new as any other client that takes room
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

// leastUsed returns the known client to evict: the least recently used one, and none of long standing while there are
// others.
func (r *Record) leastUsed(keep Key) int {
	brief := r.oldest(Known, keep, func(e *Entry) bool { return e.Last-e.First < LongStanding.Milliseconds() })
	if brief >= 0 {
		return brief
	}
	return r.oldest(Known, keep, func(*Entry) bool { return true })
}

// hasNew reports whether a known client is new.
func (r *Record) hasNew(now time.Time) bool {
	return slices.ContainsFunc(r.Entries, func(e Entry) bool {
		age := now.UnixMilli() - e.First // negative if the clock was set back
		return e.Status == Known && max(age, -age) < NewFor.Milliseconds()
	})
}

// oldest returns the least recently used client with this status; -1 if there is none. It skips keep: if the clock
// was set back, the newest one would otherwise be evicted.
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
