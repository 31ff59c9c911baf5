package endpoints

import (
	"slices"
	"strings"

	"berth/endpoints/query"
	"berth/structs"
)

// pageByName returns a page of rows that are known by their names: those with the prefix of the request, in
// the order of their names.
func pageByName[Row any](
	rows []*Row, name func(*Row) string, req *structs.QueryRequest, resp query.ReadResponse,
) ([]*Row, error) {
	l := query.List[Row, Row]{
		Key:  func(r *Row) []string { return []string{name(r)} },
		Stub: query.Whole[Row],
		Keep: func(r *Row) bool { return strings.HasPrefix(name(r), req.Prefix) },
	}
	sorted := query.Sorted(slices.Values(rows), func(a, b *Row) int {
		return strings.Compare(name(a), name(b))
	}, req)
	return l.Page(sorted, req, resp)
}
