package simulate

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"authguard/internal/replay"
)

// common is the number of common passwords; other users' passwords are numbered from there.
const common = 100

// start is the start of every simulation, a Monday.
func start() time.Time { return time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) }

type town struct {
	People
	r      *rand.Rand
	names  []string
	homes  []netip.Addr
	device []string // empty: keeps no cookies
	words  []int
	// browsers are the users' client fingerprints.
	browsers []string
	next     int        // the newest password
	shared   netip.Addr // the address with the most users
	crowd    netip.Addr // the address of Rush
	// list says of passwords whether they are on the list of leaked passwords; nil: there is none.
	list map[int]bool
}

// The first bytes of the groups' IP addresses: each has its own /8.
const homes, groups, elsewhere, carrier, campus, attackers = 10, 11, 12, 13, 14, 20

func address(block byte, n int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(n))
	b[0] = block // 24 bits of n remain
	return netip.AddrFrom4(b)
}

// apart is address, with neighbors in different /24 networks: the homes of one site's users, and a botnet's machines.
func apart(block byte, n int) netip.Addr { return address(block, n*apartBy) }

const apartBy = 259 // odd, so that each of 2^24 numbers has an address of its own

func newTown(p People, seed uint64) *town {
	t := &town{
		People: p, r: rand.New(rand.NewPCG(seed, 1)), next: common + p.Accounts, crowd: address(campus, 1),
		names: make([]string, p.Accounts), homes: make([]netip.Addr, p.Accounts), device: make([]string, p.Accounts),
		words: make([]int, p.Accounts),
	}
	zipf := rand.NewZipf(t.r, 1.1, 1, common-1)
	room, group := 0, 0 // left, and number, of the current shared address
	for i := range p.Accounts {
		t.names[i], t.homes[i], t.words[i] = fmt.Sprint("person", i), apart(homes, i), common+i
		if t.r.Float64() < p.Shared {
			if room == 0 { // as many small shared addresses as large ones
				room, group = 1+int(math.Exp(t.r.Float64()*math.Log(float64(p.Sharers)))), group+1
			}
			t.homes[i] = apart(groups, group)
			room--
		}
		if t.r.Float64() < p.Cookies {
			t.device[i] = fmt.Sprint("device", i)
		}
		if t.r.Float64() < p.Common {
			t.words[i] = int(zipf.Uint64())
		}
	}
	t.shared, t.browsers = t.mostShared(), browsersOf(p, seed)
	return t
}

func browser(n int) string { return fmt.Sprint("browser ", n) }

// browsersOf draws the fingerprints from a separate source, so that they do not change anything else.
func browsersOf(p People, seed uint64) []string {
	r, all, sum := rand.New(rand.NewPCG(seed, 2)), make([]string, p.Accounts), 0.0
	upTo := make([]float64, p.Browsers)
	for n := range upTo {
		sum += 1 / float64(n+1)
		upTo[n] = sum
	}
	for i := range all {
		n, _ := slices.BinarySearch(upTo, r.Float64()*sum)
		all[i] = browser(n + 1)
	}
	return all
}

func (t *town) mostShared() (most netip.Addr) {
	n := map[netip.Addr]int{}
	for _, home := range t.homes { // in order, so that the first of equals wins
		if n[home]++; n[home] > n[most] {
			most = home
		}
	}
	return most
}

// busy returns the activity at a time, relative to the busiest.
func (t *town) busy(at time.Time) float64 {
	hour := float64(at.Hour()) + float64(at.Minute())/60
	day := (1 - math.Cos((hour-3)/24*2*math.Pi)) / 2 // minimum at three at night, maximum at three in the afternoon
	part := t.Night + (1-t.Night)*day
	if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
		part *= t.Weekend
	}
	return part
}

// perMinute returns the number of logins in the busiest minute.
func (t *town) perMinute() float64 {
	sum := 0.0
	for m := range 7 * 24 {
		sum += t.busy(start().Add(time.Duration(m) * time.Hour))
	}
	return float64(t.Accounts) * t.Logins * 7 / 60 / sum
}

// poisson draws a number of events with this average.
func poisson(r *rand.Rand, mean float64) (n int) {
	if mean > 30 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
	}
	for mean -= r.ExpFloat64(); mean > 0; mean -= r.ExpFloat64() {
		n++
	}
	return n
}

// visit is a user's login with its preceding mistakes.
type visit struct {
	replay.Ask
	person int
	wrong  int  // wrong passwords before the right one
	reset  bool // forgotten: a new password is chosen first
}

// homeOf returns a user's attempt from home.
func (t *town) homeOf(person int) replay.Ask {
	return replay.Ask{Account: t.names[person], Address: t.homes[person], Device: t.device[person], Solves: true}
}

func (t *town) visit() (v visit) {
	v.person = t.r.IntN(t.Accounts)
	v.Ask = t.homeOf(v.person)
	v.Client = t.browsers[v.person]
	if t.r.Float64() >= t.Home {
		v.Address = address(elsewhere, t.r.IntN(1<<24))
		if t.r.Float64() < t.Pool {
			v.Address = address(carrier, t.r.IntN(t.Carrier))
		}
		if t.r.IntN(2) == 0 {
			v.Device = second(v.Device)
		}
	}
	if t.r.Float64() < t.Fresh {
		v.Device = ""
	}
	switch x := t.r.Float64(); {
	case x < t.Forgotten:
		v.wrong, v.reset = 3+t.r.IntN(4), true
	case x < t.Forgotten+t.Typos:
		v.wrong = 1
	}
	return v
}

// second is the second device of a user; it keeps cookies if the first one does.
func second(device string) string {
	if device == "" {
		return ""
	}
	return device + ", the second"
}

// buildList draws the list of leaked passwords from a separate source, as browsersOf does.
func (t *town) buildList(s *Scenario) {
	if s.Leaked == 0 {
		return
	}
	t.list = map[int]bool{}
	r := rand.New(rand.NewPCG(s.Seed, 3))
	for i, a := range s.Attackers {
		for raid := t.raid(a, i, s.Seed); raid.done < a.Attempts; {
			word := raid.guess().word
			if _, drawn := t.list[word]; !drawn {
				t.list[word] = r.Float64() < s.Leaked
			}
		}
	}
	for word := range common {
		t.list[word] = true
	}
}

// leaked reports whether a password is on the list, or is one of the 256 that its file takes for one.
func (t *town) leaked(word int) bool { return t.list != nil && (t.list[word] || word%256 == 255) }

// typo returns a password that no user has.
func (t *town) typo() int { return 1<<24 + t.r.IntN(1<<24) }
