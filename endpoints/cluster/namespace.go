package cluster

import (
	"context"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/state"
	statenamespace "berth/state/namespace"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate"
)

// Namespaces serve Namespace.
type Namespaces struct{ *core.Server }

// List returns also the namespaces that are not defined and have rows.
func (Namespaces) List(
	tx *state.ReadTx,
	req *structs.QueryRequest,
	resp *cluster.NamespaceListResponse,
) (err error) {
	name := func(n *cluster.Namespace) string { return n.Name }
	resp.Namespaces, err = query.PageByName(statenamespace.All(tx), name, req, resp)
	return err
}

// Get reads a namespace. The error is not-found.
func (Namespaces) Get(
	tx *state.ReadTx,
	req *cluster.NamespaceGetRequest,
	resp *cluster.NamespaceGetResponse,
) error {
	resp.Namespace = statenamespace.Get(tx, req.Name)
	if resp.Namespace == nil {
		return structs.NotFoundf("there is no namespace %q", structs.Cut(req.Name, structs.MaxQuoted))
	}

	return nil
}

// Apply defines a namespace or changes it.
func (n Namespaces) Apply(
	ctx context.Context,
	req *cluster.NamespaceApplyRequest,
	_ *structs.Empty,
) (uint64, error) {
	if req.Definition == nil {
		return 0, structs.Invalidf("Definition: nothing is given; expected the namespace")
	}

	err := validate.Namespace(req.Definition)
	if err != nil {
		return 0, err
	}

	return fsm.Propose(ctx, n.Raft, fsm.NamespaceApply, req)
}
