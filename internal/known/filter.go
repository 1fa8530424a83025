package known

import (
	"encoding/binary"
	"sync/atomic"

	"authguard/trusted"
)

// A filter is a Bloom filter of the accounts that have a row: what it does not have, no query
// finds. It takes 16 MiB; with ten million accounts it asks for one in 250 others. Accounts are
// keyed digests, so that their own bits are as good as any hash.
type filter []uint64

func newFilter() filter { return make(filter, 1<<21) }

// bits calls each of the account's four bits until one says no.
func (f filter) bits(account *trusted.Key, each func(word *uint64, bit uint64) bool) bool {
	for i := 0; i < len(account); i += 4 {
		n := binary.LittleEndian.Uint32(account[i:])
		if !each(&f[n>>6%uint32(len(f))], 1<<(n&63)) {
			return false
		}
	}
	return true
}

func (f filter) add(account *trusted.Key) {
	f.bits(account, func(word *uint64, bit uint64) bool { atomic.OrUint64(word, bit); return true })
}

func (f filter) has(account *trusted.Key) bool {
	return f.bits(account, func(word *uint64, bit uint64) bool { return atomic.LoadUint64(word)&bit != 0 })
}
