package node

import (
	"context"

	"berth/fsm"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// joinCluster returns the ID of this cluster for a node that registers, and makes it for the first one. A
// node of another cluster is rejected, unless these servers know it: they would end all that runs on it
// and that they do not know. The request then no longer has what no log entry needs.
func (n Nodes) joinCluster(
	ctx context.Context, req *structs.NodeRegisterRequest, node *structs.Node, known bool,
) (string, error) {
	shown := req.ClusterID
	allocs := req.Allocs
	req.ClusterID = ""
	req.Allocs = 0
	if len(shown) > structs.MaxName {
		return "", structs.Invalidf("ClusterID: %d bytes; expected at most %d", len(shown), structs.MaxName)
	}

	id := trust.ClusterID(n.Store.Read())
	// The first node that registers makes it. Two at a time propose two IDs, and the state keeps the first:
	// hence the read after the entry.
	if id == "" {
		first := &access.SITokenAccessors{ClusterID: structs.NewID(), WriteOptions: req.WriteOptions}
		if known && shown != "" { // the state is older than its ID: it was restored
			first.ClusterID = shown
		}

		// The command of the tokens stores the ID: they had one before all nodes had.
		_, err := fsm.Propose(ctx, n.Raft, fsm.SITokensRegister, first)
		if err != nil {
			return "", err
		}

		id = trust.ClusterID(n.Store.Read())
	}

	if shown != "" && shown != id && !known {
		foreign := cluster.ForeignNode{
			ID:        node.ID,
			Name:      node.Name,
			HTTPAddr:  node.HTTPAddr,
			ClusterID: shown,
			Allocs:    max(allocs, 0),
		}

		// Without an inventory the number is not known, and 0 is shown.
		if req.Inventory != nil {
			foreign.Volumes = len(req.Inventory.Held)
		}

		return "", n.rejectForeign(foreign, id)
	}

	// The node may have been rejected before.
	n.rejected.Forget(node.ID)
	return id, nil
}

// rejectForeign returns the error for a node of another cluster than this one, and remembers the node.
func (n Nodes) rejectForeign(node cluster.ForeignNode, here string) error {
	err := structs.Conflictf("node %s belongs to cluster %s, and these are the servers of cluster %s, "+
		"which do not know it. What runs and is mounted on it stays as it is. To move the node to this "+
		"cluster, which ends all of that: remove the file cluster-id in the state directory of its agent",
		node.Name, structs.ShortID(node.ClusterID), structs.ShortID(here))
	// It is the time of the last attempt. A node that has given up is forgotten after a while.
	node.Asked = n.Now().UnixNano()
	node.Reason = err.Error()
	n.rejected.Note(node)
	n.Logger.Warn("rejected a node of another cluster; what runs on it stays as it is",
		"node_id", node.ID,
		"node_name", node.Name,
		"cluster_id", node.ClusterID,
		"allocations", node.Allocs,
		"volumes", node.Volumes)
	return err
}

// ListForeign lists the nodes that rejectForeign remembers.
func (n Nodes) ListForeign(
	context.Context, *structs.QueryRequest,
) (*cluster.NodeForeignListResponse, error) {
	return &cluster.NodeForeignListResponse{Nodes: n.rejected.List(n.Now())}, nil
}
