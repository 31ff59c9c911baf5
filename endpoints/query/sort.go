package query

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"berth/structs"
)

// Window sorts rows that come in another order, and keeps of them as many as a page needs.
type Window[Row any] struct {
	Compare func(a, b *Row) int
	Keep    func(*Row) bool
	most    int // 0 is all
	rows    []*Row
}

// WindowOf is a Window for a page, of rows in an order or, backwards, in its opposite.
func WindowOf[Row any](q *structs.QueryOptions, compare func(a, b *Row) int) *Window[Row] {
	w := &Window[Row]{Compare: compare}
	if q.Reverse {
		w.Compare = func(a, b *Row) int { return compare(b, a) }
	}
	if q.PerPage > 0 && q.Filter == "" && !q.Stream {
		w.most = int(q.PerPage) + 1 // and the first of the next page
	}
	return w
}

// sorted are the rows in order; where rows of one group come together, group by group.
func (w *Window[Row]) Sorted(rows iter.Seq[*Row], together func(a, b *Row) bool) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		own := *w
		var last *Row
		for r := range rows {
			if last != nil && together != nil && !together(last, r) && !own.take(yield) {
				return
			}
			last = r
			own.add(r)
		}
		own.take(yield)
	}
}

func (w *Window[Row]) add(r *Row) {
	if !w.Keep(r) {
		return
	}
	if w.rows = append(w.rows, r); w.most > 0 && len(w.rows) >= 4*w.most {
		w.cut()
	}
}

func (w *Window[Row]) cut() {
	slices.SortFunc(w.rows, w.Compare)
	if w.most > 0 {
		w.rows = w.rows[:min(len(w.rows), w.most)]
	}
}

// take gives what is in the Window away.
func (w *Window[Row]) take(yield func(*Row) bool) bool {
	w.cut()
	for _, r := range w.rows {
		if !yield(r) {
			return false
		}
	}
	w.rows = w.rows[:0]
	return true
}

// sortBy sorts the rows of a list by what the options say, and among equals by their keys; both are in its tokens.
func (l *List[Row, Stub]) sortBy(rows iter.Seq[*Row], q *structs.QueryOptions, begin []string) (iter.Seq[*Row], error) {
	index := func(r *Row) uint64 { return any(r).(interface{ Stamped() *structs.Indexes }).Stamped().CreateIndex }
	switch q.Sort {
	case structs.SortCreate:
	case structs.SortModify:
		index = func(r *Row) uint64 { return any(r).(interface{ Stamped() *structs.Indexes }).Stamped().ModifyIndex }
	default:
		return nil, structs.Errorf(structs.KindInvalid, "sort is %q; expected %s or %s", q.Sort, structs.SortCreate, structs.SortModify)
	}
	own := l.Key
	l.Key = func(r *Row) []string { return append([]string{fmt.Sprintf("%020d", index(r))}, own(r)...) }
	w := WindowOf(q, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(index(a), index(b)), slices.Compare(own(a), own(b)))
	})
	keep := l.Keep
	w.Keep = func(r *Row) bool { return keep == nil || keep(r) }
	if begin == nil {
		return w.Sorted(rows, nil), nil
	}
	from, err := strconv.ParseUint(begin[0], 10, 64)
	if err != nil {
		return nil, structs.Errorf(structs.KindInvalid, "the page token %q is not one that a sorted list gave", q.NextToken)
	}
	w.Keep = func(r *Row) bool {
		order := cmp.Compare(index(r), from)
		if q.Reverse {
			order = -order
		}
		return order >= 0 && (keep == nil || keep(r)) && (order > 0 || !before(own(r), begin[1:], q.Reverse))
	}
	return w.Sorted(rows, nil), nil
}
