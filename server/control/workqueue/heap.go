package workqueue

import "container/heap"

// indexedHeap is a heap whose items keep their index, so that each can be removed. It implements
// heap.Interface. The methods below that are for its users.
type indexedHeap[T indexed] struct {
	items []T
	less  func(a, b T) bool
}

// indexed is an item that keeps its index, -1 when it has left.
type indexed interface{ setIndex(index int) }

func (h *indexedHeap[T]) Len() int {
	return len(h.items)
}

func (h *indexedHeap[T]) Less(i, j int) bool {
	return h.less(h.items[i], h.items[j])
}

func (h *indexedHeap[T]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].setIndex(i)
	h.items[j].setIndex(j)
}

func (h *indexedHeap[T]) Push(item any) {
	item.(T).setIndex(len(h.items))
	h.items = append(h.items, item.(T))
}

func (h *indexedHeap[T]) Pop() any {
	last := len(h.items) - 1
	item := h.items[last]

	// The place behind the end would keep the item from being collected.
	clear(h.items[last:])
	h.items = h.items[:last]
	item.setIndex(-1)
	return item
}

func (h *indexedHeap[T]) addItem(item T) {
	heap.Push(h, item)
}

func (h *indexedHeap[T]) remove(index int) {
	heap.Remove(h, index)
}

// first returns the least item, the zero value if there is none.
func (h *indexedHeap[T]) first() (item T) {
	if len(h.items) > 0 {
		item = h.items[0]
	}
	return item
}
