package workqueue

import "container/heap"

// ordered is what holds its things so that the first is at hand, and any can be taken out: they are told where
// they are.
type ordered[T any] struct {
	all   []T
	less  func(a, b T) bool
	moved func(one T, at int)
}

func (o *ordered[T]) Len() int           { return len(o.all) }
func (o *ordered[T]) Less(i, j int) bool { return o.less(o.all[i], o.all[j]) }

func (o *ordered[T]) Swap(i, j int) {
	o.all[i], o.all[j] = o.all[j], o.all[i]
	o.moved(o.all[i], i)
	o.moved(o.all[j], j)
}

// Push is heap.Interface's; add is for use.
func (o *ordered[T]) Push(one any) {
	o.all = append(o.all, one.(T))
	o.moved(one.(T), len(o.all)-1)
}

// Pop is heap.Interface's; drop is for use.
func (o *ordered[T]) Pop() any {
	last := len(o.all) - 1
	one := o.all[last]
	clear(o.all[last:])
	o.all = o.all[:last]
	return one
}

func (o *ordered[T]) add(one T)   { heap.Push(o, one) }
func (o *ordered[T]) drop(at int) { heap.Remove(o, at) }
func (o *ordered[T]) fix(at int)  { heap.Fix(o, at) }
