package query

import (
	"slices"
	"strings"

	"berth/structs"
)

// PageByName returns a page of rows that are known by their names: those with the prefix of the request, in
// the order of their names.
func PageByName[Row any](
	rows []*Row, name func(*Row) string, req *structs.QueryRequest, resp ReadResponse,
) ([]*Row, error) {
	l := List[Row, Row]{
		Key:  func(r *Row) []string { return []string{name(r)} },
		Stub: Whole[Row],
		Keep: func(r *Row) bool { return strings.HasPrefix(name(r), req.Prefix) },
	}
	sorted := Sorted(slices.Values(rows), func(a, b *Row) int {
		return strings.Compare(name(a), name(b))
	}, req)
	return l.Page(sorted, req, resp)
}
