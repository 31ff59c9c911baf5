package query

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/structs"
)

type listed struct {
	ID   string
	Size int
	structs.Indexes
}

func listedRows(ids ...string) []*listed {
	var rows []*listed
	for i, id := range ids {
		rows = append(rows, &listed{
			ID:      id,
			Size:    i,
			Indexes: structs.Indexes{CreateIndex: uint64(i)},
		})
	}
	return rows
}

// ordered yields rows in the requested order.
func ordered(rows []*listed, q *structs.QueryOptions) iter.Seq[*listed] {
	rows = slices.Clone(rows)
	if q.Reverse {
		slices.Reverse(rows)
	}
	return slices.Values(rows)
}

// aListing counts the stubs it makes.
func aListing(made *int) List[listed, listed] {
	return List[listed, listed]{
		Key: func(r *listed) []string { return []string{r.ID} },
		Stub: func(r, stub *listed) {
			*made++
			*stub = *r
		},
	}
}

func pageIDs(page []*listed) string {
	var ids []string
	for _, r := range page {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

func TestList_PagesByKey(t *testing.T) {
	rows := listedRows("a", "b", "c", "d", "e")
	for _, c := range []struct {
		q    structs.QueryOptions
		want string
		next string
	}{
		{structs.QueryOptions{}, "a b c d e", ""},
		{structs.QueryOptions{PerPage: 2}, "a b", "c"},
		{structs.QueryOptions{PerPage: 2, NextToken: Token("c")}, "c d", "e"},
		{structs.QueryOptions{PerPage: 2, NextToken: Token("bb")}, "c d", "e"}, // its row was deleted
		{structs.QueryOptions{PerPage: 5}, "a b c d e", ""},
		{structs.QueryOptions{Reverse: true}, "e d c b a", ""},
		{structs.QueryOptions{Reverse: true, PerPage: 2}, "e d", "c"},
		{structs.QueryOptions{Reverse: true, PerPage: 2, NextToken: Token("c")}, "c b", "a"},
		{structs.QueryOptions{Filter: `Size != 0 and Size != 1`}, "c d e", ""},
		{structs.QueryOptions{Filter: `Size != 0 and Size != 1`, PerPage: 1}, "c", "d"},
		{structs.QueryOptions{Filter: `ID == "b" or CreateIndex == 3`}, "b d", ""},
	} {
		var meta structs.QueryMeta
		made := 0
		page, err := aListing(&made).Page(ordered(rows, &c.q), &c.q, &meta)
		next := ""
		if c.next != "" {
			next = Token(c.next)
		}
		if err != nil || pageIDs(page) != c.want || meta.NextToken != next {
			t.Errorf("%+v: got %q, %q, %v; want %q, %q", c.q, pageIDs(page), meta.NextToken, err, c.want, next)
		}
		if c.q.PerPage == 2 && made > 3 {
			t.Errorf("%+v: %d stubs were made for a page of 2", c.q, made)
		}
	}
}

func TestList_RejectsBadOptions(t *testing.T) {
	for _, q := range []structs.QueryOptions{
		{PerPage: -1},
		{NextToken: "%%%"},
		{Filter: `ID ==`},
		{Filter: `Nonsense == "x"`},
		{Filter: `Size == "x"`},
	} {
		made := 0
		_, err := aListing(&made).Page(slices.Values(listedRows("a")), &q, &structs.QueryMeta{})
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%+v: got %v, want invalid", q, err)
		}
	}
}

func TestList_PagesHoldEachRowOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]{1,4}`), 0, 30, rapid.ID[string]).Draw(t, "ids")
		slices.Sort(ids)
		q := structs.QueryOptions{
			PerPage: int32(rapid.IntRange(1, 7).Draw(t, "per page")),
			Reverse: rapid.Bool().Draw(t, "reverse"),
		}
		var seen []string
		for range len(ids) + 1 {
			var meta structs.QueryMeta
			made := 0
			page, err := aListing(&made).Page(ordered(listedRows(ids...), &q), &q, &meta)
			if err != nil || len(page) > int(q.PerPage) {
				t.Fatalf("%d rows, %v", len(page), err)
			}
			for _, r := range page {
				seen = append(seen, r.ID)
			}
			q.NextToken = meta.NextToken
			if q.NextToken == "" {
				break
			}
		}
		if q.Reverse {
			slices.Reverse(seen)
		}
		if !slices.Equal(seen, ids) {
			t.Fatalf("got rows %v, want %v", seen, ids)
		}
	})
}

func FuzzFilterAndToken(f *testing.F) {
	f.Add(`ID == "a"`, "YQ")
	f.Add(`ID matches "("`, "")
	f.Add(`not (Size in ID)`, "AA")
	f.Fuzz(func(t *testing.T, expression, token string) {
		made := 0
		q := structs.QueryOptions{Filter: expression, NextToken: token}
		_, err := aListing(&made).Page(slices.Values(listedRows("a", "b")), &q, &structs.QueryMeta{})
		if err != nil && !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%q, %q: %v", expression, token, err)
		}
	})
}
