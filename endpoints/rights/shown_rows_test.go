package rights_test

import (
	"slices"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// The rules of volumes decide about the claims in lists, as they do about the volumes.
func TestClaimLists_ShowClaimsOfReadableVolumes(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "z1")
	for _, id := range []string{"open", "sealed"} {
		s.AddVolume(id)
		s.AddAlloc("of-"+id, "n1")
		s.Claim(id, "of-"+id, "n1")
	}
	s.Guard()
	secret := s.Token(`namespace "default" {
  policy = "read"
  volume "sealed" { policy = "deny" }
}
node { policy = "read" }`)

	for name, shown := range map[string]func(q structs.QueryOptions) []string{
		"volumes": func(q structs.QueryOptions) (ids []string) {
			for _, v := range endpointstest.Must(s, structs.CSIVolumeList,
				&structs.CSIVolumeListRequest{QueryOptions: q}).Volumes {
				ids = append(ids, v.ID)
			}
			return ids
		},
		"claims": func(q structs.QueryOptions) (ids []string) {
			for _, c := range endpointstest.Must(s, structs.CSIClaimList,
				&structs.CSIClaimListRequest{QueryOptions: q}).Claims {
				ids = append(ids, c.VolumeID)
			}
			return ids
		},
		"claims of a node": func(q structs.QueryOptions) (ids []string) {
			req := &structs.CSIClaimListRequest{NodeID: "n1", QueryOptions: q}
			for _, c := range endpointstest.Must(s, structs.CSIClaimList, req).Claims {
				ids = append(ids, c.VolumeID)
			}
			return ids
		},
		"claims with causes": func(q structs.QueryOptions) (ids []string) {
			req := &structs.VolumeClaimListRequest{QueryOptions: q}
			for _, c := range endpointstest.Must(s, structs.VolumeClaimList, req).Claims {
				ids = append(ids, c.VolumeID)
			}
			return ids
		},
	} {
		for _, namespace := range []string{"default", "*"} {
			ids := shown(structs.QueryOptions{Namespace: namespace, AuthToken: secret})
			if !slices.Equal(ids, []string{"open"}) {
				t.Errorf("the %s of namespace %s: got those of %v, want of open alone", name, namespace, ids)
			}
		}
		if all := shown(structs.QueryOptions{}); len(all) != 2 {
			t.Errorf("the %s for a machine: got those of %v, want of both", name, all)
		}
	}
}

// An answer about a node or a plugin has the allocations of namespaces in which its caller may read jobs.
func TestAnswers_LeaveOutTheAllocationsOfOthers(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "z1")
	s.AddVolume("v")
	s.AddAlloc("plugin", "n1", func(g *structs.TaskGroup) {
		g.Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "pl", Type: "monolith"}
	})
	endpointstest.Must(s, structs.NodeDrain, &structs.NodeDrainRequest{
		NodeID:    "n1",
		DrainSpec: &structs.DrainSpec{Deadline: time.Hour},
	})
	s.Guard()
	token := s.Token
	rules := `node { policy = "read" }
plugin { policy = "read" }
`
	others := structs.QueryOptions{AuthToken: token(rules + `namespace "team" { policy = "read" }`)}
	own := structs.QueryOptions{AuthToken: token(rules + `namespace "default" { policy = "read" }`)}

	for name, count := range map[string]func(q structs.QueryOptions) int{
		"a plugin": func(q structs.QueryOptions) int {
			req := &structs.CSIPluginGetRequest{ID: "pl", QueryOptions: q}
			return len(endpointstest.Must(s, structs.CSIPluginGet, req).Plugin.Allocations)
		},
		"the drain of a node": func(q structs.QueryOptions) int {
			return len(endpointstest.Must(s, structs.NodeDrainStatus,
				&structs.NodeGetRequest{NodeID: "n1", QueryOptions: q}).Waits)
		},
		"the allocations of a node": func(q structs.QueryOptions) int {
			return len(endpointstest.Must(s, structs.NodeAllocs,
				&structs.NodeGetRequest{NodeID: "n1", QueryOptions: q}).Allocs)
		},
	} {
		if shown := count(own); shown == 0 {
			t.Errorf("%s: a reader of the namespace sees no allocation", name)
		}
		if shown := count(others); shown != 0 {
			t.Errorf("%s: a reader of another namespace sees %d allocations", name, shown)
		}
	}
}

// Searches and the lists about pools show what a rule of its own gives: of a path, of a pool, of plugins.
func TestSearches_ShowWhatTheirCallersCouldList(t *testing.T) {
	s := endpointstest.New(t)
	s.AddRootKey("k1")
	s.AddNode("n1", "z1")
	for _, name := range []string{"shared-a", "shared-b"} {
		endpointstest.Must(s, access.VariableApply, &access.VariableApplyRequest{
			Op: access.VariableSet, Path: name, Items: access.VariableItems{"a": "b"},
		})
		endpointstest.Must(s, cluster.NodePoolApply,
			&cluster.NodePoolApplyRequest{Pool: &cluster.NodePool{Name: name}})
	}
	for _, ns := range []string{"ours", "theirs"} {
		endpointstest.Must(s, cluster.NamespaceApply,
			&cluster.NamespaceApplyRequest{Definition: &cluster.Namespace{Name: ns}})
		job := endpointstest.Job("job-" + ns)
		job.Namespace = ns
		job.NodePool = "shared-a"
		endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	}
	s.Guard()
	token := s.Token
	own := token(`namespace "default" {
  variables {
    path "shared-a" { capabilities = ["list"] }
  }
}
namespace "ours" { policy = "read" }
node_pool "shared-a" { policy = "read" }
plugin { policy = "list" }`)
	nothing := token(`namespace "nowhere" { policy = "read" }`)

	for _, c := range []struct {
		context, prefix string
		want            []string
	}{
		{structs.SearchVars, "shared", []string{"shared-a"}},
		{structs.SearchNodePools, "shared", []string{"shared-a"}},
		{structs.SearchPlugins, "p", []string{"pl"}},
	} {
		search := func(secret string) []string {
			return endpointstest.Must(s, structs.SearchPrefix, &structs.SearchRequest{
				Context: c.context, QueryOptions: structs.QueryOptions{Prefix: c.prefix, AuthToken: secret},
			}).Matches[c.context]
		}
		if got := search(own); !slices.Equal(got, c.want) {
			t.Errorf("a search for %s: got %v, want %v", c.context, got, c.want)
		}
		if got := search(nothing); len(got) != 0 {
			t.Errorf("a search for %s without rights: got %v", c.context, got)
		}
	}

	pools := endpointstest.Must(s, cluster.NodePoolList, &structs.QueryRequest{
		QueryOptions: structs.QueryOptions{AuthToken: own},
	}).Pools
	if len(pools) != 1 || pools[0].Name != "shared-a" {
		t.Errorf("the list of pools has %d, want shared-a alone", len(pools))
	}
	jobs := endpointstest.Must(s, cluster.NodePoolJobs, &cluster.NodePoolGetRequest{
		Name: "shared-a", QueryOptions: structs.QueryOptions{Namespace: "*", AuthToken: own},
	}).Jobs
	if len(jobs) != 1 || jobs[0].ID != "job-ours" {
		t.Errorf("the list of the jobs of a pool has %d, want job-ours alone", len(jobs))
	}
}
