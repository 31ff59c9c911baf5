package api

import (
	"context"

	"berth/internal/conf"
	"berth/structs"
	"berth/structs/cluster"
)

var namespaceList = NewEndpoint(Get, "/v1/namespaces",
	ServeList(cluster.NamespaceList, nil,
		func(a *cluster.NamespaceListResponse) []*cluster.Namespace {
			return a.Namespaces
		}))

// Namespaces lists the namespaces.
func (c *Client) Namespaces(ctx context.Context, q *Query) (
	[]*cluster.Namespace, *Meta, error,
) {
	return namespaceList.Fetch(ctx, c, "", q)
}

var namespaceGet = NewEndpoint(Get, "/v1/namespace/{id}",
	ServeMethod(cluster.NamespaceGet,
		WithID(func(q *cluster.NamespaceGetRequest, id string) { q.Name = id }),
		func(a *cluster.NamespaceGetResponse) *cluster.Namespace {
			return a.Namespace
		}))

// NamespaceInfo reads one namespace.
func (c *Client) NamespaceInfo(ctx context.Context, name string, q *Query) (
	*cluster.Namespace, *Meta, error,
) {
	return namespaceGet.Fetch(ctx, c, name, q)
}

var (
	namespaceApply = NewEndpoint(Put, "/v1/namespace",
		ServeMethod(cluster.NamespaceApply, bindNamespace, Whole))

	_ = Handle(Put, "/v1/namespace/{id}", namespaceApply.route.serve)
)

// namespaceBody is a namespace with the fields of the dialect that berth rejects.
type namespaceBody struct {
	cluster.Namespace
	NodePoolConfiguration *choices
	VaultConfiguration    *choices
	ConsulConfiguration   *choices
}

// choices are the things of a kind that the jobs of a namespace may use.
type choices struct {
	Default         string
	Allowed, Denied []string
}

func (c *choices) isEmpty() bool {
	return c == nil || c.Default == "" && len(c.Allowed)+len(c.Denied) == 0
}

// check rejects the fields that berth does not have, with the reason.
func (b *namespaceBody) check() error {
	switch {
	case !b.NodePoolConfiguration.isEmpty():
		return structs.Invalidf("NodePoolConfiguration: in berth each job of a namespace may use each node pool; leave it out")
	case !b.VaultConfiguration.isEmpty():
		return structs.Invalidf("VaultConfiguration: berth does not use Vault; leave it out")
	case !b.ConsulConfiguration.isEmpty():
		return structs.Invalidf("ConsulConfiguration: in berth each job of a namespace uses the Consul " +
			"of its nodes; leave it out")
	}
	return nil
}

func bindNamespace(c *Call, req *cluster.NamespaceApplyRequest) error {
	var b namespaceBody
	err := c.DecodeBody(&b)
	if err == nil {
		err = b.check()
	}
	if err != nil {
		return err
	}
	req.Definition = &b.Namespace
	if c.ID() == "" {
		return nil
	}
	err = c.SameID("namespace", b.Name)
	b.Name = c.ID()
	return err
}

// DecodeNamespace decodes a namespace from the JSON of the API, as strictly as the API does.
func DecodeNamespace(src []byte) (*cluster.Namespace, error) {
	var b namespaceBody
	err := conf.DecodeJSON(src, &b, dialectDefault)
	if err == nil {
		err = b.check()
	}
	return &b.Namespace, err
}

// NamespaceApply creates a namespace, or replaces its description, meta and capabilities.
func (c *Client) NamespaceApply(ctx context.Context, n *cluster.Namespace) error {
	return namespaceApply.route.exec(ctx, c, Request{Body: n})
}

var namespaceDelete = NewEndpoint(Remove, "/v1/namespace/{id}",
	ServeMethod(cluster.NamespaceDelete,
		WithID(func(q *cluster.NamespaceDeleteRequest, id string) { q.Name = id }), Whole))

// NamespaceDelete deletes a namespace without volumes and without jobs that are not dead.
func (c *Client) NamespaceDelete(ctx context.Context, name string) error {
	return namespaceDelete.route.exec(ctx, c, Request{ID: name})
}
