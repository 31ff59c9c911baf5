package clitest

import (
	"context"
	"strings"

	"berth/api/apitest"
	"berth/api/show"
	"berth/structs"
	"berth/structs/quota"
)

// answerQuotas answers for quotas, which it keeps. Each has the same use.
func (w *Cluster) answerQuotas() {
	c := w.Caller
	all := map[string]*quota.Spec{}
	used := quota.Amounts{
		{Kind: quota.KindAllocations}: 3,
		{Kind: quota.KindMemory}:      512,
		{Kind: quota.KindVolumes}:     2,
		{Kind: quota.KindBytes}:       3 << 30,
	}
	find := func(name string) (*quota.Spec, error) {
		if all[name] == nil {
			return nil, NotFound("quota", name)
		}
		return all[name], nil
	}

	apitest.On(c, quota.SpecList, func(_ context.Context, r *structs.QueryRequest) (
		*quota.SpecListResponse, error,
	) {
		resp := &quota.SpecListResponse{}
		for name, s := range show.Sorted(all) {
			if strings.HasPrefix(name, r.Prefix) {
				resp.Quotas = append(resp.Quotas, s)
			}
		}
		return resp, nil
	})
	apitest.On(c, quota.SpecGet, func(_ context.Context, r *quota.SpecGetRequest) (
		*quota.SpecGetResponse, error,
	) {
		s, err := find(r.Name)
		return &quota.SpecGetResponse{Quota: s}, err
	})
	apitest.On(c, quota.UsageGet, func(_ context.Context, r *quota.SpecGetRequest) (
		*quota.UsageGetResponse, error,
	) {
		s, err := find(r.Name)
		if err != nil {
			return nil, err
		}
		l := s.Limits[0]
		return &quota.UsageGetResponse{Usage: &quota.Usage{
			Name:       s.Name,
			Used:       map[string]*quota.Limit{l.Key(): quota.Show(l, used)},
			Namespaces: []string{"prod", "stage"},
		}}, nil
	})
	apitest.On(c, quota.SpecPut, func(_ context.Context, r *quota.SpecPutRequest) (*structs.Empty, error) {
		r.Quota.SetRegion("global")
		for _, l := range r.Quota.Limits {
			l.Hash = quota.Digest(l)
		}
		all[r.Quota.Name] = r.Quota
		return &structs.Empty{}, nil
	})
	apitest.On(c, quota.SpecDelete, func(_ context.Context, r *quota.SpecDeleteRequest) (*structs.Empty, error) {
		_, err := find(r.Name)
		delete(all, r.Name)
		return &structs.Empty{}, err
	})
}
