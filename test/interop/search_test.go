package interop

import (
	"context"
	"slices"
	"testing"

	public "github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"

	"berth/api/apitest"
	"berth/structs"
)

func TestClient_Searches(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	var prefix structs.SearchRequest
	apitest.On(caller, structs.SearchPrefix,
		func(_ context.Context, req *structs.SearchRequest) (*structs.SearchResponse, error) {
			prefix = *req
			return &structs.SearchResponse{
				Matches:     map[string][]string{"jobs": {"web"}, "allocs": {}},
				Truncations: map[string]bool{"jobs": true, "allocs": false},
				QueryMeta:   structs.QueryMeta{Index: 42},
			}, nil
		})
	var fuzzy structs.FuzzySearchRequest
	apitest.On(caller, structs.SearchFuzzy,
		func(_ context.Context, req *structs.FuzzySearchRequest) (*structs.FuzzySearchResponse, error) {
			fuzzy = *req
			return &structs.FuzzySearchResponse{
				Matches: map[string][]*structs.FuzzyMatch{
					"tasks": {{ID: "app", Scope: []string{"default", "web", "g"}}},
				},
				Truncations: map[string]bool{"tasks": false},
			}, nil
		})
	q := &public.QueryOptions{Namespace: "default", AllowStale: true}
	found, meta, err := c.Search().PrefixSearch("we", contexts.Jobs, q)
	if !checkNoError(t, "search by prefix", err) {
		return
	}
	if prefix.Context != "jobs" || prefix.Prefix != "we" || prefix.Namespace != "default" || !prefix.AllowStale {
		t.Errorf("asked for %+v", prefix)
	}
	if !slices.Equal(found.Matches[contexts.Jobs], []string{"web"}) || found.Matches[contexts.Allocs] == nil ||
		!found.Truncations[contexts.Jobs] || meta.LastIndex != 42 {
		t.Errorf("found %+v at %d", found, meta.LastIndex)
	}
	parts, _, err := c.Search().FuzzySearch("ap", contexts.All, q)
	if !checkNoError(t, "search by a part", err) {
		return
	}
	if fuzzy.Context != "all" || fuzzy.Text != "ap" {
		t.Errorf("asked for %+v", fuzzy)
	}
	match := parts.Matches[contexts.Tasks]
	if len(match) != 1 || match[0].ID != "app" || !slices.Equal(match[0].Scope, []string{"default", "web", "g"}) {
		t.Errorf("found %+v", parts)
	}
}

// testSearch finds a running allocation of a real agent, and its job.
func testSearch(t *testing.T, c *public.Client, alloc *public.Allocation) {
	for context, id := range map[contexts.Context]string{
		contexts.Allocs:     alloc.ID,
		contexts.Evals:      alloc.EvalID,
		contexts.Jobs:       alloc.JobID,
		contexts.Nodes:      alloc.NodeID,
		contexts.Namespaces: alloc.Namespace,
	} {
		for _, in := range []contexts.Context{context, contexts.All} {
			found, _, err := c.Search().PrefixSearch(id[:6], in, nil)
			if checkNoError(t, "search by prefix", err) &&
				(!slices.Contains(found.Matches[context], id) || found.Truncations[context]) {
				t.Errorf("%s of %s: found %v", id[:6], in, found.Matches)
			}
		}
	}
	found, _, err := c.Search().FuzzySearch("TEROP-W", contexts.All, nil)
	if !checkNoError(t, "search by a part", err) {
		return
	}
	jobs, allocs := found.Matches[contexts.Jobs], found.Matches[contexts.Allocs]
	if len(jobs) != 1 || jobs[0].ID != "interop-web" || !slices.Equal(jobs[0].Scope, []string{"default", alloc.JobID}) {
		t.Errorf("the jobs are %+v", jobs)
	}
	if len(allocs) != 1 || allocs[0].ID != alloc.Name || !slices.Contains(allocs[0].Scope, alloc.ID) {
		t.Errorf("the allocations are %+v", allocs)
	}
	_, _, err = c.Search().FuzzySearch("t", contexts.All, nil)
	wantStatus(t, "a short text", err, 400)
	_, _, err = c.Search().PrefixSearch("t", "nonsense", nil)
	wantStatus(t, "an unknown context", err, 400)
}
