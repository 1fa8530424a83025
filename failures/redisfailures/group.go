package redisfailures

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"authguard/failures"
)

// A group is the subjects of one place, in one call.
type group struct {
	place   failures.Key
	members []int // of the call's subjects
}

// maxSubjects is the most that one call may name.
const maxSubjects = 8

// groups are the places of a call, in the order in which they come.
func groups(subjects []failures.Subject) (all []group) {
next:
	for i := range subjects {
		for g := range all {
			if all[g].place == subjects[i].Place {
				all[g].members = append(all[g].members, i)
				continue next
			}
		}
		all = append(all, group{place: subjects[i].Place, members: []int{i}})
	}
	return all
}

func (s *Store) keys(subjects []failures.Subject, g group) []string {
	keys := make([]string, len(g.members))
	for i, m := range g.members {
		keys[i] = s.key(&subjects[m])
	}
	return keys
}

const keyLength = 22 // of 16 bytes in base64

// key is a subject's name in Redis.
func (s *Store) key(one *failures.Subject) string {
	b := make([]byte, 0, len(s.prefix)+2*keyLength+2)
	b = append(append(b, s.prefix...), '{')
	b = append(base64.RawURLEncoding.AppendEncode(b, one.Place[:]), '}')
	if one.Key != one.Place {
		b = base64.RawURLEncoding.AppendEncode(b, one.Key[:])
	}
	return string(b)
}

// An answer is what a charging script says.
type answer struct {
	status byte
	clock  int64
	at     int64
	rest   string
	sure   uint
}

const (
	answerHead = 1 + 8 + 8
	answerEach = 2 + 2 + 2 + 4
)

func parseAnswer(reply any, err error) (a answer, e error) {
	if err != nil {
		return a, err
	}
	text, ok := reply.(string)
	if !ok || len(text) < answerHead {
		return a, fmt.Errorf("redisfailures: a script answered %T", reply)
	}
	a.status = text[0]
	a.clock = int64(binary.BigEndian.Uint64([]byte(text[1:9])))
	a.at = int64(binary.BigEndian.Uint64([]byte(text[9:17])))
	a.rest = text[answerHead:]
	return a, nil
}

// standings reads how the subjects stood. sure is the set of those, by their
// place among the members, of which every charge is decided.
func (a *answer) standings(members []int, out []failures.Standing) (sure uint, err error) {
	if len(a.rest) != len(members)*answerEach {
		return 0, fmt.Errorf("redisfailures: a script answered %d bytes for %d subjects", len(a.rest), len(members))
	}
	for i, m := range members {
		b := []byte(a.rest[i*answerEach:])
		if binary.BigEndian.Uint16(b[2:])&surely != 0 {
			sure |= 1 << i
		}
		out[m] = failures.Standing{
			Over:   failures.Mask(binary.BigEndian.Uint16(b)),
			Failed: failures.Mask(binary.BigEndian.Uint16(b[2:])) &^ surely,
			Count:  int(binary.BigEndian.Uint16(b[4:])),
			FreeIn: time.Duration(binary.BigEndian.Uint32(b[6:])) * time.Millisecond,
		}
	}
	return sure, nil
}
