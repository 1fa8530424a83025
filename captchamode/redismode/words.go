package redismode

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"authguard/captchamode"
)

// keys are the names of a site's keys; see lua.go.
type keys struct{ counts, agreed, even, odd string }

func keysOf(prefix string) keys {
	tag := prefix + "{" + prefix + "mode}"
	return keys{tag + "counts", tag + "agreed", tag + "even", tag + "odd"}
}

func (k keys) all() []any { return []any{k.counts, k.agreed, k.even, k.odd} }

// known is what this node has read or written last.
type known struct {
	version string // as it is in Redis; "" for none
	mark    string // of the minutes
	site    *captchamode.Site
}

// stays is how long what was agreed stays after the last flush of any node,
// beyond the cool-down: a night's stop of the whole site forgets nothing.
const stays = 24 * time.Hour

const oneMinute = 60 // seconds

// arguments are those of the flush script, for what is unsaid.
func (s *Shared) arguments() []any {
	now := ""
	if s.told != nil {
		now = strconv.FormatInt(s.told().UnixMilli(), 10)
	}
	n := &s.unsaid.news
	args := []any{
		now, s.options.Node, s.unsaid.number, min(n.Share, math.MaxUint16), s.known.version, s.known.mark,
		n.Back[captchamode.Failure], n.Back[captchamode.Unsolved], n.Back[captchamode.Shed], tallies(n.Tallies),
	}
	at := s.mode.Second()
	for _, second := range n.Seconds {
		if age := max(0, at-second.Unix); age <= oneMinute {
			c := second.Added
			args = append(args, age, c[captchamode.Failure], c[captchamode.Unsolved], c[captchamode.Shed])
		}
	}
	return args
}

func tallies(all []captchamode.Tally) []byte {
	packed := make([]byte, 0, 4*len(all))
	for _, t := range all {
		packed = binary.BigEndian.AppendUint16(packed, t.Bucket)
		packed = binary.BigEndian.AppendUint16(packed, t.Counted)
	}
	return packed
}

func unpacked(packed string) (all []captchamode.Tally) {
	for b := []byte(packed); len(b) >= 4; b = b[4:] {
		all = append(all, captchamode.Tally{Bucket: binary.BigEndian.Uint16(b), Counted: binary.BigEndian.Uint16(b[2:])})
	}
	return all
}

// An answer is what the flush script says.
type answer struct {
	nodes     int
	forgotten bool
	refused   []captchamode.Tally
	heard     captchamode.Heard
}

var errAnswer = errors.New("not an answer of this script")

// read reads an answer and notes what is new in it.
func (k *known) read(reply any) (*answer, error) {
	list, _ := reply.([]any)
	if len(list) != 17 {
		return nil, errAnswer
	}
	var n [12]int64
	for i := range n {
		v, ok := list[i].(int64)
		if !ok {
			return nil, errAnswer
		}
		n[i] = v
	}
	var text [5]string
	for i := range text {
		text[i], _ = list[len(n)+i].(string)
	}
	k.take(text[0], text[1], text[2], text[3])
	counts := func(from int) captchamode.Counts {
		return captchamode.Counts{
			captchamode.Failure: int(n[from]), captchamode.Unsolved: int(n[from+1]), captchamode.Shed: int(n[from+2]),
		}
	}
	return &answer{
		nodes: int(n[1]), forgotten: n[2] == 1, refused: unpacked(text[4]),
		heard: captchamode.Heard{
			Now: time.UnixMilli(n[0]).UTC(), Nodes: int(n[1]), Pressure: counts(3), Running: counts(6), Last: counts(9), Site: k.site,
		},
	}, nil
}

// take notes a version. What cannot be read is as good as lost, and will be
// written anew.
func (k *known) take(version, agreed, mark, plot string) {
	if version == k.version && mark == k.mark {
		return
	}
	var next captchamode.Site
	if k.site != nil {
		next = *k.site
	}
	if version != k.version {
		minutes := next.Minutes
		if next = (captchamode.Site{}); json.Unmarshal([]byte(agreed), &next) != nil {
			next = captchamode.Site{} // as of no epoch, which is none
		}
		next.Minutes = minutes
	}
	if mark != k.mark {
		next.Minutes = nil
		_ = json.Unmarshal([]byte(plot), &next.Minutes) // a plot that is lost begins anew
	}
	k.version, k.mark, k.site = version, mark, &next
	if version == "" {
		k.site = nil
	}
}

// replacedBy are the arguments of the agree script.
func (k *known) replacedBy(next *captchamode.Site, coolDown time.Duration) (args []any, version string, err error) {
	text, err := json.Marshal(next)
	if err != nil {
		return nil, "", err
	}
	mark, plot := markOf(next), []byte(nil)
	if mark == k.mark {
		mark = ""
	} else if plot, err = json.Marshal(next.Minutes); err != nil {
		return nil, "", err
	}
	version = versionOf(next)
	return []any{k.version, version, text, mark, plot, (coolDown + stays).Milliseconds()}, version, nil
}

// note notes what was written.
func (k *known) note(next *captchamode.Site) {
	k.version, k.mark, k.site = versionOf(next), markOf(next), next
}

func versionOf(s *captchamode.Site) string { return fmt.Sprintf("%s.%d.%s", s.Epoch, s.Seq, s.Node) }

func markOf(s *captchamode.Site) string { return strconv.FormatInt(s.Running().Unix(), 10) }
