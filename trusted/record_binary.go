package trusted

import (
	"encoding/binary"
	"errors"
)

// A Record in bytes, for stores that keep it in one piece:
//
//	reset (8) | place (16) status (1) first (8) last (8) | …
//
// Numbers are big-endian, times in Unix milliseconds. Saved is not in it.
const (
	recordHead = 8
	recordEach = 16 + 1 + 8 + 8
)

// ErrRecord says that bytes are no Record.
var ErrRecord = errors.New("trusted: the bytes are no record")

// AppendBinary appends the record in bytes.
func (r *Record) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint64(b, uint64(r.Reset))
	for i := range r.Entries {
		e := &r.Entries[i]
		b = append(append(b, e.Place[:]...), byte(e.Status))
		b = binary.BigEndian.AppendUint64(b, uint64(e.First))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Last))
	}
	return b, nil
}

// UnmarshalBinary replaces the record by what AppendBinary wrote; no bytes are
// the zero Record. The error is ErrRecord.
func (r *Record) UnmarshalBinary(b []byte) error {
	*r = Record{}
	if len(b) == 0 {
		return nil
	}
	if len(b) < recordHead || (len(b)-recordHead)%recordEach != 0 {
		return ErrRecord
	}
	r.Reset = int64(binary.BigEndian.Uint64(b))
	for b = b[recordHead:]; len(b) > 0; b = b[recordEach:] {
		e := Entry{Place: Key(b), Status: Status(b[16])}
		e.First, e.Last = int64(binary.BigEndian.Uint64(b[17:])), int64(binary.BigEndian.Uint64(b[25:]))
		if e.Status != Privileged && e.Status != Spent {
			return ErrRecord
		}
		r.Entries = append(r.Entries, e)
	}
	return nil
}
