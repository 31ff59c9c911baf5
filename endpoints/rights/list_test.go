package rights_test

import (
	"slices"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

// TestLists_ShowWhatTheirCallersMaySee has rows in two namespaces. Each list of all namespaces, and each
// search, shows a caller the rows of its own.
func TestLists_ShowWhatTheirCallersMaySee(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "z1")
	for _, ns := range []string{"ours", "theirs"} {
		endpointstest.Must(s, cluster.NamespaceApply,
			&cluster.NamespaceApplyRequest{Definition: &cluster.Namespace{Name: ns}})
		job := endpointstest.Job("job-" + ns)
		job.Namespace = ns
		endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
		v := endpointstest.ReadyVolume("volume-" + ns)
		v.Namespace = ns
		endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
	}
	s.Guard()
	secret := s.Token(`namespace "ours" { policy = "read" }`)
	all := structs.QueryOptions{Namespace: "*", AuthToken: secret}

	for name, shown := range map[string]func(q structs.QueryOptions) []string{
		"jobs": func(q structs.QueryOptions) (ids []string) {
			for _, j := range endpointstest.Must(s, structs.JobList, &structs.QueryRequest{QueryOptions: q}).Jobs {
				ids = append(ids, j.ID)
			}
			return ids
		},
		"states of jobs": func(q structs.QueryOptions) (ids []string) {
			req := &structs.JobStatusesRequest{QueryOptions: q}
			for _, j := range endpointstest.Must(s, structs.JobStatuses, req).Jobs {
				ids = append(ids, j.ID)
			}
			return ids
		},
		"states of named jobs": func(q structs.QueryOptions) (ids []string) {
			req := &structs.JobStatusesRequest{QueryOptions: q, Jobs: []structs.JobName{
				{ID: "job-ours", Namespace: "ours"}, {ID: "job-theirs", Namespace: "theirs"},
			}}
			for _, j := range endpointstest.Must(s, structs.JobStatuses, req).Jobs {
				ids = append(ids, j.ID)
			}
			return ids
		},
		"evaluations": func(q structs.QueryOptions) (ids []string) {
			for _, e := range endpointstest.Must(s, structs.EvalList,
				&structs.EvalListRequest{QueryOptions: q}).Evaluations {
				ids = append(ids, e.JobID)
			}
			return ids
		},
		"volumes": func(q structs.QueryOptions) (ids []string) {
			for _, v := range endpointstest.Must(s, structs.CSIVolumeList,
				&structs.CSIVolumeListRequest{QueryOptions: q}).Volumes {
				ids = append(ids, v.ID)
			}
			return ids
		},
		"namespaces": func(q structs.QueryOptions) (ids []string) {
			for _, n := range endpointstest.Must(s, cluster.NamespaceList,
				&structs.QueryRequest{QueryOptions: q}).Namespaces {
				ids = append(ids, n.Name)
			}
			return ids
		},
		"a search by prefix": func(q structs.QueryOptions) (ids []string) {
			found := endpointstest.Must(s, structs.SearchPrefix, &structs.SearchRequest{QueryOptions: q}).Matches
			for _, of := range found {
				ids = append(ids, of...)
			}
			return ids
		},
		"a search by a part": func(q structs.QueryOptions) (ids []string) {
			req := &structs.FuzzySearchRequest{Text: "rs", QueryOptions: q}
			for _, of := range endpointstest.Must(s, structs.SearchFuzzy, req).Matches {
				for _, m := range of {
					ids = append(ids, m.ID+strings.Join(m.Scope, " "))
				}
			}
			return ids
		},
	} {
		ids := shown(all)
		if strings.Contains(strings.Join(ids, " "), "theirs") {
			t.Errorf("%s of all namespaces shows the rows of others: %v", name, ids)
		}
		if !strings.Contains(strings.Join(ids, " "), "ours") {
			t.Errorf("%s of all namespaces lacks the caller's own rows: %v", name, ids)
		}
		all := shown(structs.QueryOptions{Namespace: "*", AuthToken: s.ManagementToken()})
		if !strings.Contains(strings.Join(all, " "), "theirs") {
			t.Errorf("%s: a management token does not see everything: %v", name, all)
		}
	}

	// The instances of a service are a list as well: a right in one namespace is enough to ask for all.
	endpointstest.Must(s, structs.ServiceGet, &structs.ServiceGetRequest{ServiceName: "web", QueryOptions: all})
	count := endpointstest.Must(s, structs.EvalCount, &structs.EvalListRequest{QueryOptions: all}).Count
	evals := endpointstest.Must(s, structs.EvalList, &structs.EvalListRequest{QueryOptions: all}).Evaluations
	if count != len(evals) {
		t.Errorf("the count of evaluations is %d, and the list has %d", count, len(evals))
	}
	nodes := &structs.SearchRequest{Context: "nodes", QueryOptions: all}
	found := endpointstest.Must(s, structs.SearchPrefix, nodes).Matches
	if slices.Contains(found["nodes"], "n1") {
		t.Error("a search shows nodes to a caller that may not read them")
	}
	theirs := &structs.QueryRequest{QueryOptions: structs.QueryOptions{Namespace: "theirs", AuthToken: secret}}
	_, err := rpc.Call(t.Context(), s.RPC, structs.JobList, theirs)
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("the list of another namespace: got %v, want denied", err)
	}
}
