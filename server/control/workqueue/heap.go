package workqueue

import "container/heap"

// indexedHeap is a heap whose items know their index, so that each can be removed. It implements
// heap.Interface; the methods below that are for use.
type indexedHeap[T any] struct {
	items    []T
	less     func(a, b T) bool
	setIndex func(item T, index int) // -1 when the item leaves
}

func (h *indexedHeap[T]) Len() int           { return len(h.items) }
func (h *indexedHeap[T]) Less(i, j int) bool { return h.less(h.items[i], h.items[j]) }

func (h *indexedHeap[T]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.setIndex(h.items[i], i)
	h.setIndex(h.items[j], j)
}

func (h *indexedHeap[T]) Push(item any) {
	h.items = append(h.items, item.(T))
	h.setIndex(item.(T), len(h.items)-1)
}

func (h *indexedHeap[T]) Pop() any {
	last := len(h.items) - 1
	item := h.items[last]
	clear(h.items[last:])
	h.items = h.items[:last]
	h.setIndex(item, -1)
	return item
}

func (h *indexedHeap[T]) add(item T)       { heap.Push(h, item) }
func (h *indexedHeap[T]) remove(index int) { heap.Remove(h, index) }

// first returns the least item, the zero value if there is none.
func (h *indexedHeap[T]) first() (item T) {
	if len(h.items) > 0 {
		item = h.items[0]
	}
	return item
}
