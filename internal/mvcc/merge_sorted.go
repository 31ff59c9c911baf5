package mvcc

import "iter"

// MergeSorted merges lists that have the order of compare or, in reverse, its opposite. begin returns a
// function for each list, which returns its next element, and nil after the last one.
func MergeSorted[T any](
	begin func() []func() *T, reverse bool, compare func(a, b *T) int,
) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		lists := begin()
		heads := make([]*T, len(lists))
		for i, next := range lists {
			heads[i] = next()
		}

		for {
			first := -1
			for i, h := range heads {
				if h == nil {
					continue
				}

				if first < 0 ||
					compare(h, heads[first]) < 0 != reverse {
					first = i
				}
			}

			if first < 0 || !yield(heads[first]) {
				return
			}

			heads[first] = lists[first]()
		}
	}
}
