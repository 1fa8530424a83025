package redisstore_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"authguard/internal/redisstore"
)

const (
	ownKeys     = "5f0c2b6e9d1a7734-c41fe02a"
	rotatedKeys = "5f0c2b6e9d1a7734-aaaaaaaa-c41fe02a"
	otherKeys   = "0000000000000000-c41fe02a"
)

// What nodes of another version, or with other keys, have left in Redis is refused in one
// sentence, again and again, and stays as it was.
func nodesThatCountApartAreRefused(t *testing.T, on redisOf) {
	client := on.open(t)
	s := on.node(t, redisstore.Options{Keys: ownKeys})
	must(t, s.Probe(t.Context()))
	signed := client.Get(t.Context(), redisstore.SignKey(on.prefix)).Val()
	want(t, "signature", signed, strconv.Itoa(redisstore.Layout)+" "+ownKeys)
	for theirs, says := range map[string]string{
		signed: "",
		strconv.Itoa(redisstore.Layout) + " " + rotatedKeys:    "",
		strconv.Itoa(redisstore.Layout) + " ":                  "",
		ownKeys:                                                "another version of authguard", // 1ef5819 and 27faf97
		strconv.Itoa(redisstore.Layout+1) + " " + ownKeys:      "key layout " + strconv.Itoa(redisstore.Layout+1),
		strconv.Itoa(redisstore.Layout+1) + " " + otherKeys:    "another version of authguard",
		strconv.Itoa(redisstore.Layout) + " " + otherKeys:      "the keys files of the nodes differ",
		strconv.Itoa(redisstore.Layout+1) + " more things now": "another version of authguard",
	} {
		must(t, client.Set(t.Context(), redisstore.SignKey(on.prefix), theirs, 0).Err())
		for range 2 {
			err := s.Probe(t.Context())
			if says == "" && err != nil || says != "" && (!errors.Is(err, redisstore.ErrApart) ||
				!strings.Contains(err.Error(), says)) {
				t.Errorf("%q: %v", theirs, err)
			}
		}
		want(t, "signature afterwards", client.Get(t.Context(), redisstore.SignKey(on.prefix)).Val(), theirs)
	}
}

// Every node notices each loss once. A node that begins afterwards notices the last one if it knows what an earlier
// process has seen.
func emptiedRedisIsNoticed(t *testing.T, on redisOf) {
	client := on.open(t)
	var heard [4]int
	node := func(n int, seen string) *redisstore.Store {
		return on.node(t, redisstore.Options{Seen: seen, OnEmptied: func() { heard[n]++ }})
	}
	nodes, seen := []*redisstore.Store{node(0, ""), node(1, "")}, ""
	for losses := range 4 {
		if losses > 0 {
			seen = nodes[0].Seen() + "\n"
			on.expire(t, client)
		}
		for range 3 {
			for _, s := range nodes {
				must(t, s.Probe(t.Context()))
			}
		}
		want(t, "losses", heard, [4]int{losses, losses})
	}
	must(t, node(2, "").Probe(t.Context()))
	for _, before := range []string{seen, nodes[0].Seen()} {
		must(t, node(3, before).Probe(t.Context()))
	}
	want(t, "losses at the end", heard, [4]int{3, 3, 0, 1})
}
