package node_test

import (
	"fmt"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/cluster"
)

func TestNodePools_AreThoseThatNodesName(t *testing.T) {
	s := endpointstest.New(t)
	for id, pool := range map[string]string{"n1": "", "n2": "gpu", "n3": "gpu"} {
		endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{
			Node: &structs.Node{ID: id, SecretID: "s-" + id, Name: id, NodePool: pool},
		})
	}
	for id, pool := range map[string]string{"j1": "", "j2": "gpu", "j3": "all"} {
		job := endpointstest.Job(id)
		job.NodePool = pool
		endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	}
	names := func(q structs.QueryOptions) (all []string) {
		for _, p := range endpointstest.Must(s, cluster.NodePoolList,
			&structs.QueryRequest{QueryOptions: q}).Pools {
			all = append(all, p.Name)
		}
		return all
	}
	for want, q := range map[string]structs.QueryOptions{
		"[all default gpu]": {},
		"[gpu default all]": {Reverse: true},
		"[gpu]":             {Prefix: "g"},
	} {
		if got := fmt.Sprint(names(q)); got != want {
			t.Errorf("got pools %s, want %s", got, want)
		}
	}
	for name, want := range map[string]string{
		"all":     "n1 n2 n3 j3",
		"default": "n1 j1",
		"gpu":     "n2 n3 j2",
	} {
		get := &cluster.NodePoolGetRequest{Name: name}
		if p := endpointstest.Must(s, cluster.NodePoolGet, get).Pool; p.Name != name || p.CreateIndex == 0 {
			t.Errorf("pool %s is %+v", name, p)
		}
		got := ""
		for _, n := range endpointstest.Must(s, cluster.NodePoolNodes, get).Nodes {
			got += n.ID + " "
		}
		for _, j := range endpointstest.Must(s, cluster.NodePoolJobs, get).Jobs {
			got += j.ID
		}
		if got != want {
			t.Errorf("pool %s has %s, want %s", name, got, want)
		}
	}
	none := &cluster.NodePoolGetRequest{Name: "none"}
	endpointstest.Rejected(s, structs.KindNotFound, cluster.NodePoolGet, none)
	endpointstest.Rejected(s, structs.KindNotFound, cluster.NodePoolNodes, none)
	endpointstest.Rejected(s, structs.KindNotFound, cluster.NodePoolJobs, none)
}
