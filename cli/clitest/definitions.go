package clitest

import (
	"context"
	"slices"
	"strings"

	"berth/api/apitest"
	"berth/cli/command"
	"berth/structs"
)

// answerDefinitions answers for namespaces and node pools, which it keeps.
func (w *Cluster) answerDefinitions() {
	w.answerNamespaces()
	w.answerNodePools()
}

func (w *Cluster) answerNamespaces() {
	c := w.Caller
	all := map[string]*structs.Namespace{
		"default": {Name: "default", Description: "Ours"},
		"prod": {
			Name:         "prod",
			Description:  "Production",
			Meta:         map[string]string{"owner": "storage"},
			Capabilities: &structs.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}},
		},
	}

	apitest.On(c, structs.NamespaceList, func(_ context.Context, r *structs.QueryRequest) (
		*structs.NamespaceListResponse, error,
	) {
		resp := &structs.NamespaceListResponse{}
		for name, n := range command.Sorted(all) {
			if strings.HasPrefix(name, r.Prefix) {
				resp.Namespaces = append(resp.Namespaces, n)
			}
		}
		return resp, nil
	})

	apitest.On(c, structs.NamespaceGet, func(_ context.Context, r *structs.NamespaceGetRequest) (
		*structs.NamespaceGetResponse, error,
	) {
		n := all[r.Name]
		if n == nil {
			return nil, NotFound("namespace", r.Name)
		}
		return &structs.NamespaceGetResponse{Namespace: n}, nil
	})

	apitest.On(c, structs.NamespaceApply, func(_ context.Context, r *structs.NamespaceApplyRequest) (
		*structs.Empty, error,
	) {
		all[r.Definition.Name] = r.Definition
		return &structs.Empty{}, nil
	})

	apitest.On(c, structs.NamespaceDelete, func(_ context.Context, r *structs.NamespaceDeleteRequest) (
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
	all := map[string]*structs.NodePool{"all": {Name: "all", Description: "All nodes"}}
	apitest.On(c, structs.NodePoolList, func(_ context.Context, r *structs.QueryRequest) (
		*structs.NodePoolListResponse, error,
	) {
		resp := &structs.NodePoolListResponse{}
		for _, p := range command.Sorted(all) {
			resp.Pools = append(resp.Pools, p)
		}

		resp.Pools = slices.DeleteFunc(resp.Pools, func(p *structs.NodePool) bool {
			return !strings.HasPrefix(p.Name, r.Prefix)
		})
		return resp, nil
	})

	apitest.On(c, structs.NodePoolGet, func(_ context.Context, r *structs.NodePoolGetRequest) (
		*structs.NodePoolGetResponse, error,
	) {
		p := all[r.Name]
		if p == nil {
			return nil, NotFound("node pool", r.Name)
		}
		return &structs.NodePoolGetResponse{Pool: p}, nil
	})

	apitest.Answer(c, structs.NodePoolJobs, structs.JobListResponse{Jobs: []*structs.JobListStub{{
		ID:     "web",
		Type:   "service",
		Status: "running",
	}}})

	apitest.Answer(c, structs.NodePoolNodes, structs.NodeListResponse{Nodes: []*structs.NodeListStub{{
		ID:     Node1,
		Name:   "one",
		Status: "ready",
	}}})

	apitest.On(c, structs.NodePoolApply, func(_ context.Context, r *structs.NodePoolApplyRequest) (
		*structs.Empty, error,
	) {
		all[r.Pool.Name] = r.Pool
		return &structs.Empty{}, nil
	})

	apitest.On(c, structs.NodePoolDelete, func(_ context.Context, r *structs.NodePoolDeleteRequest) (
		*structs.Empty, error,
	) {
		if all[r.Name] == nil {
			return nil, NotFound("node pool", r.Name)
		}

		delete(all, r.Name)
		return &structs.Empty{}, nil
	})
}
