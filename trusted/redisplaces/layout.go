package redisplaces

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"authguard/trusted"
)

// A record in Redis is, all numbers little endian,
//
//	reset (6) | entry …
//	entry: place (16) | status (1) | first (6) | last (6)
//
// with times in milliseconds since the Unix epoch, 48 bits of them.
const (
	headBytes  = 6
	placeBytes = len(trusted.Key{})
	entryBytes = placeBytes + 1 + 6 + 6
)

// StatusLua is Lua that reads what a place is to an account. It wants the
// record in record (the empty string if there is none), the place's 16 bytes
// in place, and in since the milliseconds at which a last login is too old:
// now less the TTL. It leaves a trusted.Status in status.
const StatusLua = `local status=0
if #record>0 then
local i=string.find(record,place,7,true)
while i and (i-7)%29~=0 do i=string.find(record,place,i+1,true) end
if i and struct.unpack('<I6',record,i+23)>since then status=string.byte(record,i+16) end
end
`

var errLayout = errors.New("redisplaces: a key holds something that is no record of places")

// Tag is the part of every key's name that decides the hash slot: the digest
// of an account, in braces.
func Tag(account trusted.Key) string { return string(AppendTag(nil, account)) }

// AppendTag appends the Tag.
func AppendTag(to []byte, account trusted.Key) []byte {
	return append(base64.RawURLEncoding.AppendEncode(append(to, '{'), account[:]), '}')
}

// Name is the name of an account's record. Prefix is the realm's.
func Name(prefix string, account trusted.Key) string {
	return string(AppendName(nil, prefix, account))
}

// AppendName appends the Name.
func AppendName(to []byte, prefix string, account trusted.Key) []byte {
	return append(AppendTag(append(to, prefix...), account), 'p')
}

func encode(r *trusted.Record) string {
	if r.Reset == 0 && len(r.Entries) == 0 {
		return ""
	}
	b := make([]byte, 0, headBytes+len(r.Entries)*entryBytes)
	b = appendMillis(b, r.Reset)
	for i := range r.Entries {
		e := &r.Entries[i]
		b = append(append(b, e.Place[:]...), byte(e.Status))
		b = appendMillis(appendMillis(b, e.First), e.Last)
	}
	return string(b)
}

func decode(text string) (trusted.Record, error) {
	var r trusted.Record
	if text == "" {
		return r, nil
	}
	if len(text) < headBytes || (len(text)-headBytes)%entryBytes != 0 {
		return r, errLayout
	}
	r.Reset = millisOf(text)
	r.Entries = make([]trusted.Entry, 0, len(text)/entryBytes+1)
	for rest := text[headBytes:]; rest != ""; rest = rest[entryBytes:] {
		r.Entries = append(r.Entries, entryOf(rest))
	}
	return r, nil
}

func entryOf(text string) (e trusted.Entry) {
	copy(e.Place[:], text)
	e.Status = trusted.Status(text[placeBytes])
	e.First, e.Last = millisOf(text[placeBytes+1:]), millisOf(text[placeBytes+7:])
	return e
}

func appendMillis(b []byte, ms int64) []byte {
	var eight [8]byte
	binary.LittleEndian.PutUint64(eight[:], uint64(ms))
	return append(b, eight[:6]...)
}

func millisOf(text string) (ms int64) {
	for i := 5; i >= 0; i-- {
		ms = ms<<8 | int64(text[i])
	}
	return ms
}
