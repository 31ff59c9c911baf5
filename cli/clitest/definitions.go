package clitest

import (
	"context"
	"slices"
	"strings"

	"berth/api/apitest"
	"berth/api/show"
	"berth/structs"
	"berth/structs/cluster"
)

// answerDefinitions answers for namespaces and node pools, which it keeps.
func (w *Cluster) answerDefinitions() {
	w.answerNamespaces()
	w.answerNodePools()
	w.answerQuotas()
	w.answerSearch()
}

func (w *Cluster) answerNamespaces() {
	c := w.Caller
	all := map[string]*cluster.Namespace{
		"default": {Name: "default", Description: "Ours"},
		"prod": {
			Name:         "prod",
			Description:  "Production",
			Meta:         map[string]string{"owner": "storage"},
			Capabilities: &cluster.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}},
		},
	}

	apitest.On(c, cluster.NamespaceList, func(_ context.Context, r *structs.QueryRequest) (
		*cluster.NamespaceListResponse, error,
	) {
		resp := &cluster.NamespaceListResponse{}
		for name, n := range show.Sorted(all) {
			if strings.HasPrefix(name, r.Prefix) {
				resp.Namespaces = append(resp.Namespaces, n)
			}
		}
		return resp, nil
	})

	apitest.On(c, cluster.NamespaceGet, func(_ context.Context, r *cluster.NamespaceGetRequest) (
		*cluster.NamespaceGetResponse, error,
	) {
		n := all[r.Name]
		if n == nil {
			return nil, NotFound("namespace", r.Name)
		}
		return &cluster.NamespaceGetResponse{Namespace: n}, nil
	})

	apitest.On(c, cluster.NamespaceApply, func(_ context.Context, r *cluster.NamespaceApplyRequest) (
		*structs.Empty, error,
	) {
		all[r.Definition.Name] = r.Definition
		return &structs.Empty{}, nil
	})

	apitest.On(c, cluster.NamespaceDelete, func(_ context.Context, r *cluster.NamespaceDeleteRequest) (
		*structs.Empty, error,
	) {
		if all[r.Name] == nil {
			return nil, NotFound("namespace", r.Name)
		}

		delete(all, r.Name)
		return &structs.Empty{}, nil
	})
}

func (w *Cluster) answerNodePools() {
	c := w.Caller
	all := map[string]*cluster.NodePool{"all": {Name: "all", Description: "All nodes"}}
	apitest.On(c, cluster.NodePoolList, func(_ context.Context, r *structs.QueryRequest) (
		*cluster.NodePoolListResponse, error,
	) {
		resp := &cluster.NodePoolListResponse{}
		for _, p := range show.Sorted(all) {
			resp.Pools = append(resp.Pools, p)
		}

		resp.Pools = slices.DeleteFunc(resp.Pools, func(p *cluster.NodePool) bool {
			return !strings.HasPrefix(p.Name, r.Prefix)
		})
		return resp, nil
	})

	apitest.On(c, cluster.NodePoolGet, func(_ context.Context, r *cluster.NodePoolGetRequest) (
		*cluster.NodePoolGetResponse, error,
	) {
		p := all[r.Name]
		if p == nil {
			return nil, NotFound("node pool", r.Name)
		}
		return &cluster.NodePoolGetResponse{Pool: p}, nil
	})

	apitest.Answer(c, cluster.NodePoolJobs, structs.JobListResponse{Jobs: []*structs.JobListStub{{
		ID:     "web",
		Type:   "service",
		Status: "running",
	}}})

	apitest.Answer(c, cluster.NodePoolNodes, structs.NodeListResponse{Nodes: []*structs.NodeListStub{{
		ID:     Node1,
		Name:   "one",
		Status: "ready",
	}}})

	apitest.On(c, cluster.NodePoolApply, func(_ context.Context, r *cluster.NodePoolApplyRequest) (
		*structs.Empty, error,
	) {
		all[r.Pool.Name] = r.Pool
		return &structs.Empty{}, nil
	})

	apitest.On(c, cluster.NodePoolDelete, func(_ context.Context, r *cluster.NodePoolDeleteRequest) (
		*structs.Empty, error,
	) {
		if all[r.Name] == nil {
			return nil, NotFound("node pool", r.Name)
		}

		delete(all, r.Name)
		return &structs.Empty{}, nil
	})
}
