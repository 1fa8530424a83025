package redisfailures

import (
	"encoding/base64"
	"encoding/binary"

	"authguard/failures"
	"authguard/trusted"
	"authguard/trusted/redisplaces"
)

// What is kept of a place is a book: the charges of the subject that is the
// place itself (an account, a network), and before them those of a few
// subjects kept with it (its pairs, its addresses). Most subjects are charged
// once or twice and never again, so this halves the keys. One that outgrows
// its section, or finds the book full, has a key of its own from then on.
//
//	bytes of all sections (2) | section … | charge (4) …
//	section: first half of the subject's digest (8) | charges in it (1) | charge (4) …
//
// All numbers are little endian. A charge is the low 32 bits of its
// milliseconds since the Unix epoch; the oldest comes first.
const (
	bookHead    = 2
	sectionHead = tagBytes + 1
	tagBytes    = 8
	// sectionsMost is how many bytes all sections may take: four subjects
	// charged once, or one charged 13 times. It keeps an account and its pair
	// under 200 bytes at ten failures.
	sectionsMost = 64
)

// tag is how a subject is found in its place's book.
func tag(of *failures.Subject) string { return string(of.Key[:tagBytes]) }

// isBook reports whether the subject is the place that it is kept at.
func isBook(of *failures.Subject) bool { return of.Key == of.Shard }

// section finds a subject's charges in its place's book.
func section(book, tag string) string {
	if len(book) < bookHead {
		return ""
	}
	sections := book[bookHead:mainAt(book)]
	for len(sections) > sectionHead {
		end := min(sectionHead+4*int(sections[tagBytes]), len(sections))
		if sections[:tagBytes] == tag {
			return sections[sectionHead:end]
		}
		sections = sections[end:]
	}
	return ""
}

// mainAt is where the charges of the place itself begin.
func mainAt(book string) int {
	return min(bookHead+int(binary.LittleEndian.Uint16([]byte(book[:bookHead]))), len(book))
}

// main are the charges of the place itself.
func mainOf(book string) string {
	if len(book) < bookHead {
		return ""
	}
	return book[mainAt(book):]
}

// appendBook appends the name of a place's book.
func (s *Store) appendBook(to []byte, place failures.Key) []byte {
	return redisplaces.AppendTag(append(to, s.prefix...), trusted.Key(place))
}

// appendOwn appends the name of the key of a subject that has one of its own.
func (s *Store) appendOwn(to []byte, of *failures.Subject) []byte {
	return base64.RawURLEncoding.AppendEncode(s.appendBook(to, of.Shard), of.Key[:])
}
