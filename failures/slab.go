package failures

// A slab stores blocks of 8, 16, 32 … charges for keys whose slot is too small. It contains no pointers for the
// garbage collector to follow, and reuses freed blocks.
type slab struct {
	classes [classes]arena
}

// An arena is all blocks of one size. The first word of a free block is the number of the next free one. Block 0 is
// never used, so 0 ends the list.
type arena struct {
	words []uint32
	next  uint32 // the first block that was never used
	free  uint32
}

const (
	inline       = 3 // charges in the slot itself: class 0
	classes      = 11
	firstArena   = 4 // blocks in an arena when it is first used
	wordsInBytes = 4
)

func capacity(class uint32) int {
	if class == 0 {
		return inline
	}
	return 4 << class
}

func classFor(moments int) (class uint32) {
	for capacity(class) < moments {
		class++
	}
	return class
}

func (s *slab) block(class, number uint32) []uint32 {
	size := uint32(capacity(class))
	return s.classes[class-1].words[number*size : (number+1)*size]
}

// take returns a free block, or false if that needs more memory than reserve grants.
func (s *slab) take(class uint32, reserve func(bytes int64) bool) (number uint32, ok bool) {
	a, size := &s.classes[class-1], uint32(capacity(class))
	if a.free != 0 {
		number, a.free = a.free, a.words[a.free*size]
		return number, true
	}
	if a.next == 0 {
		a.next = 1
	}
	if (a.next+1)*size > uint32(len(a.words)) && !a.grow(size, reserve) {
		return 0, false
	}
	number = a.next
	a.next++
	return number, true
}

func (a *arena) grow(size uint32, reserve func(bytes int64) bool) bool {
	blocks := max(firstArena, len(a.words)/int(size)*3/2)
	if !reserve(int64(blocks*int(size)-len(a.words)) * wordsInBytes) {
		return false
	}
	words := make([]uint32, blocks*int(size))
	copy(words, a.words)
	a.words = words
	return true
}

func (s *slab) give(class, number uint32) {
	if class == 0 {
		return
	}
	a, size := &s.classes[class-1], uint32(capacity(class))
	a.words[number*size] = a.free
	a.free = number
}
