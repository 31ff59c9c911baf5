package operator

import (
	"context"

	"berth/api"
	"berth/internal/conf"
	"berth/structs"
	"berth/structs/cluster"
)

var namespaceList = api.NewEndpoint(&table, api.Get, "/v1/namespaces",
	api.ServeList(cluster.NamespaceList, nil,
		func(a *cluster.NamespaceListResponse) []*cluster.Namespace {
			return a.Namespaces
		}))

// ListNamespaces lists the namespaces.
func ListNamespaces(ctx context.Context, c *api.Client, q *api.Query) (
	[]*cluster.Namespace, *api.Meta, error,
) {
	return namespaceList.Fetch(ctx, c, "", q)
}

var namespaceGet = api.NewEndpoint(&table, api.Get, "/v1/namespace/{id}",
	api.ServeMethod(cluster.NamespaceGet,
		api.WithID(func(q *cluster.NamespaceGetRequest, id string) { q.Name = id }),
		func(a *cluster.NamespaceGetResponse) *cluster.Namespace {
			return a.Namespace
		}))

// GetNamespace reads one namespace.
func GetNamespace(ctx context.Context, c *api.Client, name string, q *api.Query) (
	*cluster.Namespace, *api.Meta, error,
) {
	return namespaceGet.Fetch(ctx, c, name, q)
}

var (
	namespaceApply = api.NewEndpoint(&table, api.Put, "/v1/namespace",
		api.ServeMethod(cluster.NamespaceApply, bindNamespace, api.Whole))

	_ = namespaceApply.At(api.Put, "/v1/namespace/{id}")
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

func bindNamespace(c *api.Call, req *cluster.NamespaceApplyRequest) error {
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
	err := conf.DecodeJSON(src, &b, api.DialectDefault)
	if err == nil {
		err = b.check()
	}
	return &b.Namespace, err
}

// PutNamespace creates a namespace, or replaces its description, meta and capabilities.
func PutNamespace(ctx context.Context, c *api.Client, n *cluster.Namespace) error {
	return namespaceApply.Exec(ctx, c, api.Request{Body: n})
}

var namespaceDelete = api.NewEndpoint(&table, api.Remove, "/v1/namespace/{id}",
	api.ServeMethod(cluster.NamespaceDelete,
		api.WithID(func(q *cluster.NamespaceDeleteRequest, id string) { q.Name = id }), api.Whole))

// DeleteNamespace deletes a namespace without volumes and without jobs that are not dead.
func DeleteNamespace(ctx context.Context, c *api.Client, name string) error {
	return namespaceDelete.Exec(ctx, c, api.Request{ID: name})
}
