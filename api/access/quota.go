package access

import (
	"context"

	"berth/api"
	"berth/internal/conf"
	"berth/structs/quota"
)

var quotaList = api.NewEndpoint(&table, api.Get, "/v1/quotas",
	api.ServeMethod(quota.SpecList, nil, func(a *quota.SpecListResponse) []*quota.Spec { return a.Quotas }))

// Quotas lists the quotas that the caller may see.
func Quotas(ctx context.Context, c *api.Client, q *api.Query) ([]*quota.Spec, *api.Meta, error) {
	return quotaList.Fetch(ctx, c, "", q)
}

var quotaGet = api.NewEndpoint(&table, api.Get, "/v1/quota/{id}",
	api.ServeMethod(quota.SpecGet, api.WithID(quotaNameOf),
		func(a *quota.SpecGetResponse) *quota.Spec { return a.Quota }))

func quotaNameOf(q *quota.SpecGetRequest, id string) { q.Name = id }

// Quota reads a quota.
func Quota(ctx context.Context, c *api.Client, name string, q *api.Query) (*quota.Spec, *api.Meta, error) {
	return quotaGet.Fetch(ctx, c, name, q)
}

var quotaUsageList = api.NewEndpoint(&table, api.Get, "/v1/quota-usages",
	api.ServeMethod(quota.UsageList, nil, func(a *quota.UsageListResponse) []*quota.Usage { return a.Usages }))

// QuotaUsages lists the use of the quotas that the caller may see.
func QuotaUsages(ctx context.Context, c *api.Client, q *api.Query) ([]*quota.Usage, *api.Meta, error) {
	return quotaUsageList.Fetch(ctx, c, "", q)
}

var quotaUsageGet = api.NewEndpoint(&table, api.Get, "/v1/quota/usage/{id}",
	api.ServeMethod(quota.UsageGet, api.WithID(quotaNameOf),
		func(a *quota.UsageGetResponse) *quota.Usage { return a.Usage }))

// QuotaUsage reads the use of a quota.
func QuotaUsage(
	ctx context.Context, c *api.Client, name string, q *api.Query,
) (*quota.Usage, *api.Meta, error) {
	return quotaUsageGet.Fetch(ctx, c, name, q)
}

var quotaPut = api.NewEndpoint(&table, api.Put, "/v1/quota",
	api.ServeMethod(quota.SpecPut, bindQuota, api.Whole))

var _ = quotaPut.At(api.Put, "/v1/quota/{id}")

func bindQuota(c *api.Call, req *quota.SpecPutRequest) error {
	req.Quota = &quota.Spec{}
	err := c.DecodeBody(req.Quota)
	if err != nil || c.ID() == "" {
		return err
	}
	err = c.SameID("quota", req.Quota.Name)
	req.Quota.Name = c.ID()
	return err
}

// DecodeQuota decodes a quota from the JSON of the API, as strictly as the API does.
func DecodeQuota(src []byte) (*quota.Spec, error) {
	s := &quota.Spec{}
	return s, conf.DecodeJSON(src, s, nil)
}

// PutQuota creates or replaces a quota.
func PutQuota(ctx context.Context, c *api.Client, s *quota.Spec) error {
	return quotaPut.Exec(ctx, c, api.Request{Body: s})
}

var quotaDelete = api.NewEndpoint(&table, api.Remove, "/v1/quota/{id}",
	api.ServeMethod(quota.SpecDelete,
		api.WithID(func(q *quota.SpecDeleteRequest, id string) { q.Name = id }), api.Whole))

// DeleteQuota deletes a quota that no namespace names.
func DeleteQuota(ctx context.Context, c *api.Client, name string) error {
	return quotaDelete.Exec(ctx, c, api.Request{ID: name})
}
