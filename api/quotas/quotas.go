// Package quotas has the routes of quotas and of their use, each with the call of the client.
package quotas

import (
	"context"

	"berth/api"
	"berth/internal/conf"
	"berth/structs/quota"
)

var list = api.NewEndpoint(api.Get, "/v1/quotas",
	api.ServeMethod(quota.SpecList, nil, func(a *quota.SpecListResponse) []*quota.Spec { return a.Quotas }))

// List lists the quotas that the caller may see.
func List(ctx context.Context, c *api.Client, q *api.Query) ([]*quota.Spec, *api.Meta, error) {
	return list.Fetch(ctx, c, "", q)
}

var info = api.NewEndpoint(api.Get, "/v1/quota/{id}",
	api.ServeMethod(quota.SpecGet, api.WithID(nameOf),
		func(a *quota.SpecGetResponse) *quota.Spec { return a.Quota }))

func nameOf(q *quota.SpecGetRequest, id string) { q.Name = id }

// Info reads a quota.
func Info(ctx context.Context, c *api.Client, name string, q *api.Query) (*quota.Spec, *api.Meta, error) {
	return info.Fetch(ctx, c, name, q)
}

var usages = api.NewEndpoint(api.Get, "/v1/quota-usages",
	api.ServeMethod(quota.UsageList, nil, func(a *quota.UsageListResponse) []*quota.Usage { return a.Usages }))

// Usages lists the use of the quotas that the caller may see.
func Usages(ctx context.Context, c *api.Client, q *api.Query) ([]*quota.Usage, *api.Meta, error) {
	return usages.Fetch(ctx, c, "", q)
}

var usage = api.NewEndpoint(api.Get, "/v1/quota/usage/{id}",
	api.ServeMethod(quota.UsageGet, api.WithID(nameOf),
		func(a *quota.UsageGetResponse) *quota.Usage { return a.Usage }))

// Usage reads the use of a quota.
func Usage(ctx context.Context, c *api.Client, name string, q *api.Query) (*quota.Usage, *api.Meta, error) {
	return usage.Fetch(ctx, c, name, q)
}

var apply = api.NewEndpoint(api.Put, "/v1/quota", api.ServeMethod(quota.SpecPut, bindSpec, api.Whole))

var _ = apply.At(api.Put, "/v1/quota/{id}")

func bindSpec(c *api.Call, req *quota.SpecPutRequest) error {
	req.Quota = &quota.Spec{}
	err := c.DecodeBody(req.Quota)
	if err != nil || c.ID() == "" {
		return err
	}
	err = c.SameID("quota", req.Quota.Name)
	req.Quota.Name = c.ID()
	return err
}

// Decode decodes a quota from the JSON of the API, as strictly as the API does.
func Decode(src []byte) (*quota.Spec, error) {
	s := &quota.Spec{}
	return s, conf.DecodeJSON(src, s, nil)
}

// Apply creates or replaces a quota.
func Apply(ctx context.Context, c *api.Client, s *quota.Spec) error {
	return apply.Exec(ctx, c, api.Request{Body: s})
}

var remove = api.NewEndpoint(api.Remove, "/v1/quota/{id}",
	api.ServeMethod(quota.SpecDelete,
		api.WithID(func(q *quota.SpecDeleteRequest, id string) { q.Name = id }), api.Whole))

// Delete deletes a quota that no namespace names.
func Delete(ctx context.Context, c *api.Client, name string) error {
	return remove.Exec(ctx, c, api.Request{ID: name})
}
