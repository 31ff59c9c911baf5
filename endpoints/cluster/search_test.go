package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// searchFixture is a server with two nodes, their plugin, 25 jobs of one name, and one of two tasks.
func searchFixture(t *testing.T) *endpointstest.Server {
	t.Helper()
	s := endpointstest.New(t)
	for i := range 2 {
		node, alloc := fmt.Sprint("n", i), fmt.Sprint("a", i)
		s.AddNode(node, "a")
		s.AddAlloc(alloc, node)
		s.AddVolume(fmt.Sprint("v", i))
	}
	for i := range 25 {
		endpointstest.MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{
			Job: &structs.Job{ID: fmt.Sprintf("many%02d", i), Name: "many"},
		})
	}
	endpointstest.Must(s, cluster.NamespaceApply, &cluster.NamespaceApplyRequest{
		Definition: &cluster.Namespace{Name: "other"},
	})
	endpointstest.MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{Job: &structs.Job{
		ID:        "shop",
		Name:      "The Shop",
		Namespace: "other",
		TaskGroups: []*structs.TaskGroup{{
			Name: "shopfront",
			Tasks: []*structs.Task{
				{Name: "web", Driver: "docker", Config: map[string]any{"image": "shop/web:1"}},
				{Name: "workshop", Driver: "exec", Config: map[string]any{"command": "/bin/shop"}},
			},
		}},
	}})
	return s
}

func TestSearch_ByPrefix(t *testing.T) {
	s := searchFixture(t)
	s.AddRootKey("k")
	endpointstest.MustPropose(s, fsm.VariablePut, &access.VariableChange{
		Namespace: "default",
		Path:      "app/db",
		Sealed:    &structs.Sealed{KeyID: "k", Data: []byte("x")},
	})
	for _, c := range []struct {
		context, ns, prefix string
		want                string // the matches by context; + for more
	}{
		{"jobs", "", "job-", "jobs=job-a0,job-a1"},
		{"jobs", "other", "", "jobs=shop"},
		{"jobs", "*", "sho", "jobs=shop"},
		{"allocs", "", "a1", "allocs=a1"},
		{"allocs", "other", "a1", "allocs="},
		{"volumes", "", "v", "volumes=v0,v1"},
		{"nodes", "other", "n0", "nodes=n0"},
		{"plugins", "", "p", "plugins=pl"},
		{"namespaces", "", "def", "namespaces=default"},
		{"namespaces", "", "", "namespaces=default,other"},
		{"namespaces", "", "x", "namespaces="},
		{"node_pools", "", "de", "node_pools=default"},
		{"vars", "", "app/", "vars=app/db"},
		{"vars", "other", "", "vars="},
		{"all", "", "n0",
			"allocs= deployment= evals= jobs= namespaces= node_pools= nodes=n0 plugins= vars= volumes="},
		{"", "", "pl", "allocs= deployment= evals= jobs= namespaces= node_pools= nodes= plugins=pl vars= volumes="},
	} {
		resp := endpointstest.Must(s, structs.SearchPrefix, &structs.SearchRequest{
			Context:      c.context,
			QueryOptions: structs.QueryOptions{Namespace: c.ns, Prefix: c.prefix},
		})
		var got []string
		for context, ids := range resp.Matches {
			got = append(got, context+"="+strings.Join(ids, ","))
			if more, set := resp.Truncations[context]; more || !set {
				t.Errorf("%s %q: more matches %t, set %t", context, c.prefix, more, set)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q %q %q: got %s, want %s", c.context, c.ns, c.prefix, got, c.want)
		}
	}
	resp := endpointstest.Must(s, structs.SearchPrefix, &structs.SearchRequest{
		Context:      "jobs",
		QueryOptions: structs.QueryOptions{Prefix: "many"},
	})
	ids := resp.Matches["jobs"]
	if len(ids) != structs.MaxSearched || !resp.Truncations["jobs"] ||
		ids[0] != "many00" || ids[19] != "many19" {
		t.Errorf("of 25 jobs: got %v, more %v", ids, resp.Truncations)
	}
	one := endpointstest.Must(s, structs.SearchPrefix, &structs.SearchRequest{
		Context:      "jobs",
		QueryOptions: structs.QueryOptions{Prefix: "many0"},
	})
	if len(one.Matches["jobs"]) != 10 || one.Truncations["jobs"] {
		t.Errorf("of 10 jobs: got %v, more %v", one.Matches, one.Truncations)
	}
	evals := endpointstest.Must(s, structs.EvalList, &structs.EvalListRequest{})
	id := evals.Evaluations[0].ID
	resp = endpointstest.Must(s, structs.SearchPrefix, &structs.SearchRequest{
		QueryOptions: structs.QueryOptions{Prefix: id[:8]},
	})
	if !slices.Contains(resp.Matches["evals"], id) {
		t.Errorf("evaluation %s: got %v", id, resp.Matches)
	}
}

func TestSearch_ByAPartOfAName(t *testing.T) {
	s := searchFixture(t)
	for _, c := range []struct {
		context, ns, text string
		want              string // the matches by context, with their scopes
	}{
		{"jobs", "*", "SHOP", "commands=/bin/shop(other,shop,shopfront,workshop) groups=shopfront(other,shop) " +
			"images=shop/web:1(other,shop,shopfront,web) jobs=The Shop(other,shop) " +
			"tasks=workshop(other,shop,shopfront)"},
		{"jobs", "", "shop", "jobs="},
		{"nodes", "", "me-n", "nodes=name-n0(n0),name-n1(n1)"},
		{"allocs", "", "job-a1", "allocs=job-a1.g[0](default,a1)"},
		{"plugins", "", "pl", "plugins=pl()"},
		{"namespaces", "", "fault", "namespaces=default()"},
		{"node_pools", "", "ll", "node_pools=all()"},
		{"volumes", "", "v1", "volumes=v1()"},
		{"deployment", "", "v1", "deployment="},
		{"", "", "me-n0",
			"allocs= deployment= evals= jobs= namespaces= node_pools= nodes=name-n0(n0) plugins= vars= volumes="},
	} {
		resp := endpointstest.Must(s, structs.SearchFuzzy, &structs.FuzzySearchRequest{
			Text:         c.text,
			Context:      c.context,
			QueryOptions: structs.QueryOptions{Namespace: c.ns},
		})
		var got []string
		for context, all := range resp.Matches {
			var texts []string
			for _, m := range all {
				texts = append(texts, m.ID+"("+strings.Join(m.Scope, ",")+")")
			}
			got = append(got, context+"="+strings.Join(texts, ","))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q %q %q:\ngot  %s\nwant %s", c.context, c.ns, c.text, strings.Join(got, " "), c.want)
		}
	}
	resp := endpointstest.Must(s, structs.SearchFuzzy, &structs.FuzzySearchRequest{Text: "any", Context: "jobs"})
	if n := len(resp.Matches["jobs"]); n != structs.MaxSearched || !resp.Truncations["jobs"] {
		t.Errorf("of 25 jobs: got %d, more %v", n, resp.Truncations)
	}
}

func TestSearch_RejectsBadRequests(t *testing.T) {
	s := endpointstest.New(t)
	long := strings.Repeat("a", structs.MaxName+1)
	endpointstest.Rejected(s, structs.KindInvalid, structs.SearchPrefix, &structs.SearchRequest{Context: "none"})
	endpointstest.Rejected(s, structs.KindInvalid, structs.SearchPrefix,
		&structs.SearchRequest{QueryOptions: structs.QueryOptions{Prefix: long}})
	endpointstest.Rejected(s, structs.KindInvalid, structs.SearchFuzzy,
		&structs.FuzzySearchRequest{Text: "ab", Context: "tasks"})
	endpointstest.Rejected(s, structs.KindInvalid, structs.SearchFuzzy, &structs.FuzzySearchRequest{Text: "a"})
	endpointstest.Rejected(s, structs.KindInvalid, structs.SearchFuzzy, &structs.FuzzySearchRequest{Text: long})
}
