package query

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"berth/structs"
)

// Sorted yields rows in an order or, if the request has Reverse, in its opposite. It reads all rows before it
// yields one.
func Sorted[Row any](
	rows iter.Seq[*Row],
	compare func(a, b *Row) int,
	req ReadRequest,
) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		yieldSorted(slices.Collect(rows), compare, req.Query().Reverse, yield)
	}
}

// SortedGroups yields rows that come group by group, each group as Sorted does. It reads one group at a time.
func SortedGroups[Row any](
	rows iter.Seq[*Row],
	same func(a, b *Row) bool,
	compare func(a, b *Row) int,
	req ReadRequest,
) iter.Seq[*Row] {
	reverse := req.Query().Reverse
	return func(yield func(*Row) bool) {
		var group []*Row
		for row := range rows {
			if len(group) > 0 && !same(group[0], row) {
				if !yieldSorted(group, compare, reverse, yield) {
					return
				}
				group = group[:0]
			}
			group = append(group, row)
		}
		yieldSorted(group, compare, reverse, yield)
	}
}

// yieldSorted sorts rows in place and yields them. It reports false if yield wants no more.
func yieldSorted[Row any](
	rows []Row,
	compare func(a, b Row) int,
	reverse bool,
	yield func(Row) bool,
) bool {
	slices.SortFunc(rows, compare)
	if reverse {
		slices.Reverse(rows)
	}
	for _, row := range rows {
		if !yield(row) {
			return false
		}
	}
	return true
}

// sortBy sorts the rows by an index, and the rows of one entry by their keys. The index is the first part of
// the keys from then on.
func (p *part) sortBy(q *structs.QueryOptions) error {
	if q.Sort != structs.SortCreate && q.Sort != structs.SortModify {
		return structs.Invalidf("sort is %q; expected %s or %s",
			q.Sort, structs.SortCreate, structs.SortModify)
	}

	if p.begin != nil {
		_, err := strconv.ParseUint(p.begin[0], 10, 64)
		if err != nil {
			return structs.Invalidf(
				"the page token %q is not one that a sorted list gave", q.NextToken)
		}
	}

	index := func(row any) uint64 {
		created, modified := row.(interface {
			Stamps() (created, modified uint64)
		}).Stamps()
		if q.Sort == structs.SortModify {
			return modified
		}
		return created
	}

	key := p.key
	p.key = func(row any) []string {
		return append([]string{fmt.Sprintf("%020d", index(row))}, key(row)...)
	}
	compare := func(a, b any) int {
		order := cmp.Compare(index(a), index(b))
		if order != 0 {
			return order
		}
		return slices.Compare(key(a), key(b))
	}

	rows := p.rows
	p.rows = func(yield func(any) bool) {
		yieldSorted(slices.Collect(rows), compare, q.Reverse, yield)
	}
	return nil
}
