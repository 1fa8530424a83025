package redisstore

import "encoding/base64"

// Every key that authguard has in Redis, each after the realm's prefix ("ag:"
// unless configured):
//
//	{S}          charges of the subject S that is a shard: an account, a network
//	{S}K         charges of a subject kept with it: a pair, an address
//	{S}p         the places of account S
//	{S}v         the accounts that log in from address S (Addresses), as its places
//	asked        the subjects at which attempts wait (ask.lua): a sorted set
//	{S}d, {S}Kd  which young charges of a subject have failed (decided.go): a hash
//	{S}w         the tags of the last passwords of account S, for a day: 24 bits of each
//	c:ID         a challenge that was used up
//	s:ID         a ticket of the decision API that was settled
//	lifeN        a random text for as long as Redis keeps what it knows (site.go)
//	keys         the nodes' signature: the layout's number, and the fingerprint of their keys
//	{PREFIXmode}counted  what each node has counted for CAPTCHA mode: a hash
//	{PREFIXmode}agreed   what the nodes have agreed on about it: a hash
//	{PREFIXspray}seen    the latest wrong passwords of all strangers (spray.lua): a string
//	{PREFIXspray}found   which passwords are sprayed: a hash
//
// S is the first 12 bytes of the shard's digest, K the first 9 of the
// subject's, ID all 16, in base64: multiples of three need no padding. Digests
// are keyed, so nobody can aim at a collision, and nothing that anybody typed is
// in a name. By chance two of 2³² shards share 12 bytes once in 2³³ sites, and
// two of a million addresses that tried one account 9 bytes once in 2³³
// accounts; they would count together, which is stricter. A shorter name saves
// 8 bytes of some 120 in a key.
//
// What stands in braces is a key's hash tag: all keys of an account lie in one
// slot of a Cluster, as do all of a network, and an attempt touches two slots.
//
// Charges are a string of the newest (charge.lua; 5 bytes more where a login has let
// the delay of a pair with failures begin anew), which lives as long as its
// ladder's longest window and a second. Tags are a string, too. Places
// are a sorted set with two members for each (places.lua), which lives as long as a
// privilege; an account that is known always has one.
const (
	shardBytes   = 12
	subjectBytes = 9
	// DefaultPrefix begins every key.
	DefaultPrefix = "ag:"
)

func (s *Store) shardKey(shard [16]byte) []byte {
	b := make([]byte, 0, len(s.prefix)+32)
	b = append(append(b, s.prefix...), '{')
	return append(base64.RawURLEncoding.AppendEncode(b, shard[:shardBytes]), '}')
}

// subjectKey is the key of a subject's charges.
func (s *Store) subjectKey(shard, subject [16]byte) string {
	b := s.shardKey(shard)
	if subject != shard {
		b = base64.RawURLEncoding.AppendEncode(b, subject[:subjectBytes])
	}
	return string(b)
}

func (s *Store) placesKey(account [16]byte) string {
	return string(append(s.shardKey(account), 'p'))
}

func (s *Store) sharersKey(address [16]byte) string {
	return string(append(s.shardKey(address), 'v'))
}

func (s *Store) tagsKey(account [16]byte) string {
	return string(append(s.shardKey(account), 'w'))
}

// sprayKeys are those of spray.lua.
func (s *Store) sprayKeys() []any {
	tag := s.prefix + "{" + s.prefix + "spray}"
	return []any{tag + "seen", tag + "found"}
}

// idKey is the key of a challenge or a ticket.
func idKey(prefix string, id [16]byte) string {
	return prefix + base64.RawURLEncoding.EncodeToString(id[:])
}
