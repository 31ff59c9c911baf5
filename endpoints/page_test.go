package endpoints

import (
	"fmt"
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
		rows = append(rows, &listed{ID: id, Size: i, Indexes: structs.Indexes{CreateIndex: uint64(i)}})
	}
	return rows
}

// turned are rows in the order that is asked for.
func turned(rows []*listed, q *structs.QueryOptions) iter.Seq[*listed] {
	rows = slices.Clone(rows)
	if q.Reverse {
		slices.Reverse(rows)
	}
	return slices.Values(rows)
}

// aListing counts the stubs it makes.
func aListing(made *int) listing[listed, listed] {
	return listing[listed, listed]{
		Key:  func(r *listed) []string { return []string{r.ID} },
		Stub: func(r *listed) *listed { *made++; return r },
	}
}

func pageIDs(page []*listed) string {
	var ids []string
	for _, r := range page {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

func TestPages(t *testing.T) {
	rows := listedRows("a", "b", "c", "d", "e")
	for _, c := range []struct {
		q    structs.QueryOptions
		want string
		next string
	}{
		{structs.QueryOptions{}, "a b c d e", ""},
		{structs.QueryOptions{PerPage: 2}, "a b", "c"},
		{structs.QueryOptions{PerPage: 2, NextToken: toToken([]string{"c"})}, "c d", "e"},
		{structs.QueryOptions{PerPage: 2, NextToken: toToken([]string{"bb"})}, "c d", "e"}, // its row was deleted
		{structs.QueryOptions{PerPage: 5}, "a b c d e", ""},
		{structs.QueryOptions{Reverse: true}, "e d c b a", ""},
		{structs.QueryOptions{Reverse: true, PerPage: 2}, "e d", "c"},
		{structs.QueryOptions{Reverse: true, PerPage: 2, NextToken: toToken([]string{"c"})}, "c b", "a"},
		{structs.QueryOptions{Filter: `Size != 0 and Size != 1`}, "c d e", ""},
		{structs.QueryOptions{Filter: `Size != 0 and Size != 1`, PerPage: 1}, "c", "d"},
		{structs.QueryOptions{Filter: `ID == "b" or CreateIndex == 3`}, "b d", ""},
	} {
		var meta structs.QueryMeta
		made := 0
		page, err := aListing(&made).page(turned(rows, &c.q), &c.q, &meta)
		next := ""
		if c.next != "" {
			next = toToken([]string{c.next})
		}
		if err != nil || pageIDs(page) != c.want || meta.NextToken != next {
			t.Errorf("%+v: got %q, %q, %v; want %q, %q", c.q, pageIDs(page), meta.NextToken, err, c.want, next)
		}
		if c.q.PerPage == 2 && made > 3 {
			t.Errorf("%+v: %d stubs were made for a page of 2", c.q, made)
		}
	}
}

func TestBadListOptionsAreInvalid(t *testing.T) {
	for _, q := range []structs.QueryOptions{
		{PerPage: -1}, {NextToken: "%%%"}, {Filter: `ID ==`}, {Filter: `Nonsense == "x"`}, {Filter: `Size == "x"`},
	} {
		made := 0
		_, err := aListing(&made).page(slices.Values(listedRows("a")), &q, &structs.QueryMeta{})
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%+v: got %v, want invalid", q, err)
		}
	}
}

func TestWalkingThePagesSeesEveryRowOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]{1,4}`), 0, 30, rapid.ID[string]).Draw(t, "ids")
		slices.Sort(ids)
		q := structs.QueryOptions{PerPage: int32(rapid.IntRange(1, 7).Draw(t, "per page")), Reverse: rapid.Bool().Draw(t, "reverse")}
		var seen []string
		for range len(ids) + 1 {
			var meta structs.QueryMeta
			made := 0
			page, err := aListing(&made).page(turned(listedRows(ids...), &q), &q, &meta)
			if err != nil || len(page) > int(q.PerPage) {
				t.Fatalf("%d rows, %v", len(page), err)
			}
			for _, r := range page {
				seen = append(seen, r.ID)
			}
			if q.NextToken = meta.NextToken; q.NextToken == "" {
				break
			}
		}
		if q.Reverse {
			slices.Reverse(seen)
		}
		if !slices.Equal(seen, ids) {
			t.Fatalf("saw %v of %v", seen, ids)
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
		_, err := aListing(&made).page(slices.Values(listedRows("a", "b")), &q, &structs.QueryMeta{})
		if err != nil && !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%q, %q: %v", expression, token, err)
		}
	})
}

func TestListsOfEveryKindPage(t *testing.T) {
	s := newServer(t)
	for i := range 3 {
		id := fmt.Sprint("n", i)
		s.addNode(id, "a")
		s.addAlloc(fmt.Sprint("a", i), id)
		s.addVolume(fmt.Sprint("v", i))
	}
	q := structs.QueryOptions{PerPage: 2}
	for name, c := range map[string]struct {
		rows int
		next string
	}{
		"nodes":   {len(must(s, structs.NodeList, &structs.QueryRequest{QueryOptions: q}).Nodes), must(s, structs.NodeList, &structs.QueryRequest{QueryOptions: q}).NextToken},
		"jobs":    {len(must(s, structs.JobList, &structs.QueryRequest{QueryOptions: q}).Jobs), must(s, structs.JobList, &structs.QueryRequest{QueryOptions: q}).NextToken},
		"allocs":  {len(must(s, structs.AllocList, &structs.QueryRequest{QueryOptions: q}).Allocations), must(s, structs.AllocList, &structs.QueryRequest{QueryOptions: q}).NextToken},
		"evals":   {len(must(s, structs.EvalList, &structs.QueryRequest{QueryOptions: q}).Evaluations), must(s, structs.EvalList, &structs.QueryRequest{QueryOptions: q}).NextToken},
		"volumes": {len(must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{QueryOptions: q}).Volumes), must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{QueryOptions: q}).NextToken},
	} {
		if c.rows != 2 || c.next == "" {
			t.Errorf("%s: %d rows, next %q", name, c.rows, c.next)
		}
	}
	if got := must(s, structs.NodeList, &structs.QueryRequest{QueryOptions: structs.QueryOptions{Prefix: "n1"}}).Nodes; len(got) != 1 {
		t.Errorf("prefix n1: %d nodes", len(got))
	}
	if got := must(s, structs.AllocList, &structs.QueryRequest{QueryOptions: structs.QueryOptions{Prefix: "a1", Namespace: "*"}}).Allocations; len(got) != 1 || got[0].JobType != structs.JobService {
		t.Errorf("prefix a1: %+v", got)
	}
	if got := must(s, structs.JobList, &structs.QueryRequest{QueryOptions: structs.QueryOptions{Namespace: "other"}}).Jobs; len(got) != 0 {
		t.Errorf("another namespace: %d jobs", len(got))
	}
}
