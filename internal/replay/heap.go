package replay

import "container/heap"

// Heap is a priority queue. It is not safe for concurrent use.
type Heap[T any] struct{ items items[T] }

// NewHeap returns an empty Heap.
func NewHeap[T any](less func(a, b *T) bool) *Heap[T] { return &Heap[T]{items[T]{less: less}} }

// Len returns the number of elements.
func (h *Heap[T]) Len() int { return len(h.items.all) }

// First returns the first element, which must exist. After changing it, call Fix.
func (h *Heap[T]) First() *T { return &h.items.all[0] }

// Fix moves a changed first element to its place.
func (h *Heap[T]) Fix() { heap.Fix(&h.items, 0) }

// Push adds an element.
func (h *Heap[T]) Push(v T) { heap.Push(&h.items, v) }

// Pop removes and returns the first element, which must exist.
func (h *Heap[T]) Pop() T { return heap.Pop(&h.items).(T) }

type items[T any] struct {
	less func(a, b *T) bool
	all  []T
}

func (i *items[T]) Len() int           { return len(i.all) }
func (i *items[T]) Less(a, b int) bool { return i.less(&i.all[a], &i.all[b]) }
func (i *items[T]) Swap(a, b int)      { i.all[a], i.all[b] = i.all[b], i.all[a] }
func (i *items[T]) Push(v any)         { i.all = append(i.all, v.(T)) }
func (i *items[T]) Pop() any {
	last := i.all[len(i.all)-1]
	i.all = i.all[:len(i.all)-1]
	return last
}
