package clitest

import (
	"context"
	"slices"
	"strings"

	"berth/api/apitest"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/admin"
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
	all := map[string]*admin.Namespace{
		"default": {Name: "default", Description: "Ours"},
		"prod": {
			Name:         "prod",
			Description:  "Production",
			Meta:         map[string]string{"owner": "storage"},
			Capabilities: &admin.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}},
		},
	}

	apitest.On(c, admin.NamespaceList, func(_ context.Context, r *structs.QueryRequest) (
		*admin.NamespaceListResponse, error,
	) {
		resp := &admin.NamespaceListResponse{}
		for name, n := range command.Sorted(all) {
			if strings.HasPrefix(name, r.Prefix) {
				resp.Namespaces = append(resp.Namespaces, n)
			}
		}
		return resp, nil
	})

	apitest.On(c, admin.NamespaceGet, func(_ context.Context, r *admin.NamespaceGetRequest) (
		*admin.NamespaceGetResponse, error,
	) {
		n := all[r.Name]
		if n == nil {
			return nil, NotFound("namespace", r.Name)
		}
		return &admin.NamespaceGetResponse{Namespace: n}, nil
	})

	apitest.On(c, admin.NamespaceApply, func(_ context.Context, r *admin.NamespaceApplyRequest) (
		*structs.Empty, error,
	) {
		all[r.Definition.Name] = r.Definition
		return &structs.Empty{}, nil
	})

	apitest.On(c, admin.NamespaceDelete, func(_ context.Context, r *admin.NamespaceDeleteRequest) (
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
	all := map[string]*admin.NodePool{"all": {Name: "all", Description: "All nodes"}}
	apitest.On(c, admin.NodePoolList, func(_ context.Context, r *structs.QueryRequest) (
		*admin.NodePoolListResponse, error,
	) {
		resp := &admin.NodePoolListResponse{}
		for _, p := range command.Sorted(all) {
			resp.Pools = append(resp.Pools, p)
		}

		resp.Pools = slices.DeleteFunc(resp.Pools, func(p *admin.NodePool) bool {
			return !strings.HasPrefix(p.Name, r.Prefix)
		})
		return resp, nil
	})

	apitest.On(c, admin.NodePoolGet, func(_ context.Context, r *admin.NodePoolGetRequest) (
		*admin.NodePoolGetResponse, error,
	) {
		p := all[r.Name]
		if p == nil {
			return nil, NotFound("node pool", r.Name)
		}
		return &admin.NodePoolGetResponse{Pool: p}, nil
	})

	apitest.Answer(c, admin.NodePoolJobs, structs.JobListResponse{Jobs: []*structs.JobListStub{{
		ID:     "web",
		Type:   "service",
		Status: "running",
	}}})

	apitest.Answer(c, admin.NodePoolNodes, structs.NodeListResponse{Nodes: []*structs.NodeListStub{{
		ID:     Node1,
		Name:   "one",
		Status: "ready",
	}}})

	apitest.On(c, admin.NodePoolApply, func(_ context.Context, r *admin.NodePoolApplyRequest) (
		*structs.Empty, error,
	) {
		all[r.Pool.Name] = r.Pool
		return &structs.Empty{}, nil
	})

	apitest.On(c, admin.NodePoolDelete, func(_ context.Context, r *admin.NodePoolDeleteRequest) (
		*structs.Empty, error,
	) {
		if all[r.Name] == nil {
			return nil, NotFound("node pool", r.Name)
		}

		delete(all, r.Name)
		return &structs.Empty{}, nil
	})
}
