package api

import (
	"context"
	"net/netip"
	"time"

	"berth/structs"
	"berth/structs/nodeloss"
)

var nodeList = route(get, "/v1/nodes",
	serveList(structs.NodeList, nil,
		func(a *structs.NodeListResponse) []*structs.NodeListStub {
			return a.Nodes
		}))

// Nodes lists nodes.
func (c *Client) Nodes(ctx context.Context, q *Query) (
	[]*structs.NodeListStub, *Meta, error,
) {
	return nodeList.fetch(ctx, c, "", q)
}

var nodeGet = route(get, "/v1/node/{id}",
	serveFunc[*structs.NodeDetail](
		serveMethod(structs.NodeGet, bindNode, viewNode)))

// nodeView is a node that also has its resources and networks in the older shapes of the dialect. Its clients
// up to version 1.11 read that shape of resources without a check for nil.
type nodeView struct {
	*structs.NodeDetail
	NodeResources *nodeResourcesView
	Resources     *structs.Resources
	Reserved      *structs.Resources
}

type nodeResourcesView struct {
	*structs.NodeResources
	Networks []*structs.NetworkResource `json:",omitempty"`
}

// viewNode returns a nil pointer for a node that does not exist.
func viewNode(a *structs.NodeGetResponse) *nodeView {
	n := a.Node
	if n == nil {
		return nil
	}

	view := &nodeView{
		NodeDetail: n,
		Resources:  &structs.Resources{},
		Reserved:   &structs.Resources{},
	}

	if r := n.NodeResources; r != nil {
		view.NodeResources = &nodeResourcesView{r, networksOf(n)}
		view.Resources.CPU = int(r.CPU.CpuShares)
		view.Resources.MemoryMB = int(r.Memory.MemoryMB)
		view.Resources.DiskMB = int(r.Disk.DiskMB)
	}

	if r := n.ReservedResources; r != nil {
		view.Reserved.CPU = int(r.CPU.CpuShares)
		view.Reserved.MemoryMB = int(r.Memory.MemoryMB)
		view.Reserved.DiskMB = int(r.Disk.DiskMB)
	}

	return view
}

// networksOf returns the addresses of the default network of a node.
func networksOf(n *structs.NodeDetail) []*structs.NetworkResource {
	var all []*structs.NetworkResource
	for _, link := range n.NodeResources.NodeNetworks {
		for _, a := range link.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			if err != nil || a.Alias != structs.DefaultHostNetwork {
				continue
			}
			all = append(all, &structs.NetworkResource{
				Mode:   link.Mode,
				Device: link.Device,
				CIDR:   netip.PrefixFrom(ip, ip.BitLen()).String(),
				IP:     a.Address,
			})
		}
	}
	return all
}

var bindNode = withID(func(q *structs.NodeGetRequest, id string) { q.NodeID = id })

// Node reads one node with its plugin instances.
func (c *Client) Node(ctx context.Context, id string, q *Query) (
	*structs.NodeDetail, *Meta, error,
) {
	return nodeGet.fetch(ctx, c, id, q)
}

var nodeAllocations = route(get, "/v1/node/{id}/allocations",
	withResources(serveList(structs.NodeAllocs, bindNode,
		func(a *structs.AllocsResponse) []*structs.Allocation {
			return a.Allocs
		})))

// NodeAllocations lists the allocations on a node.
func (c *Client) NodeAllocations(ctx context.Context, id string, q *Query) (
	[]*structs.Allocation, *Meta, error,
) {
	return nodeAllocations.fetch(ctx, c, id, q)
}

var nodeEligibility = route(put, "/v1/node/{id}/eligibility",
	serveMethod(structs.NodeEligibility, bindNodeEligibility, nodeWritten))

// nodeEligibilityBody is the body that allows or forbids placements on a node.
type nodeEligibilityBody struct{ NodeID, Eligibility string }

func bindNodeEligibility(c *call, req *structs.NodeEligibilityRequest) error {
	var b nodeEligibilityBody
	err := c.decodeBody(&b)
	if err != nil {
		return err
	}
	if b.Eligibility != structs.NodeEligible &&
		b.Eligibility != structs.NodeIneligible {
		return structs.Invalidf("Eligibility: expected %q or %q, found %q",
			structs.NodeEligible, structs.NodeIneligible, b.Eligibility)
	}
	req.NodeID = c.id()
	req.Eligibility = b.Eligibility
	return c.sameID("node", b.NodeID)
}

// nodeWritten returns the dialect's answer to a change of a node. It names no evaluations, because the log
// entry itself creates them.
func nodeWritten(e *structs.Empty) *structs.NodeEvaluateResponse {
	return &structs.NodeEvaluateResponse{
		NodeModifyIndex: e.Index,
		WriteMeta:       e.WriteMeta,
	}
}

// NodeEligibility allows or forbids new placements on a node.
func (c *Client) NodeEligibility(ctx context.Context, id string, eligible bool) error {
	body := nodeEligibilityBody{id, structs.NodeIneligible}
	if eligible {
		body.Eligibility = structs.NodeEligible
	}
	return nodeEligibility.route.exec(ctx, c, request{id: id, body: body})
}

var nodeLease = route(put, "/v1/node/{id}/lease", serveMethod(nodeloss.NodeExtendLease, bindNodeLease,
	func(r *nodeloss.NodeExtendLeaseResponse) *nodeloss.NodeExtendLeaseResponse { return r }))

// nodeLeaseBody is the body that orders a longer lease.
type nodeLeaseBody struct {
	NodeID string
	For    time.Duration
}

func bindNodeLease(c *call, req *nodeloss.NodeExtendLeaseRequest) error {
	var b nodeLeaseBody
	err := c.decodeBody(&b)
	if err != nil {
		return err
	}
	req.NodeID = c.id()
	req.For = b.For
	return c.sameID("node", b.NodeID)
}

// NodeExtendLease makes the servers count a node as alive for a time from now, without heartbeats. It returns
// the time after which they count it as down.
func (c *Client) NodeExtendLease(ctx context.Context, id string, by time.Duration) (time.Duration, error) {
	var resp nodeloss.NodeExtendLeaseResponse
	_, err := nodeLease.route.decode(ctx, c, request{id: id, body: nodeLeaseBody{id, by}}, &resp)
	return resp.DownAfter, err
}

var nodeDrain = route(put, "/v1/node/{id}/drain",
	serveMethod(structs.NodeDrain, bindNodeDrain, nodeWritten))

// NodeDrain starts, changes or cancels a drain. Without a DrainSpec it cancels the drain; MarkEligible then
// allows new placements again.
type NodeDrain struct {
	NodeID       string // "", or the ID in the path
	DrainSpec    *structs.DrainSpec
	MarkEligible bool
	Meta         map[string]string // notes of the operator
}

func bindNodeDrain(c *call, req *structs.NodeDrainRequest) error {
	var b NodeDrain
	err := c.decodeBody(&b)
	if err != nil {
		return err
	}
	req.NodeID = c.id()
	req.DrainSpec = b.DrainSpec
	req.MarkEligible = b.MarkEligible
	req.Meta = b.Meta
	return c.sameID("node", b.NodeID)
}

// NodeDrain starts, changes or cancels the drain of a node.
func (c *Client) NodeDrain(ctx context.Context, id string, drain NodeDrain) error {
	return nodeDrain.route.exec(ctx, c, request{id: id, body: drain})
}

var nodeDrainStatus = route(get, "/v1/node/{id}/drain",
	serveMethod(structs.NodeDrainStatus, bindNode, whole))

// NodeDrainStatus reads the drain of a node, and for each allocation why it is still there.
func (c *Client) NodeDrainStatus(ctx context.Context, id string, q *Query) (
	*structs.NodeDrainStatusResponse, *Meta, error,
) {
	return nodeDrainStatus.fetch(ctx, c, id, q)
}

var nodeEvaluate = route(put, "/v1/node/{id}/evaluate",
	serveMethod(structs.NodeEvaluate, bindNodeWrite, whole))

func bindNodeWrite(c *call, req *structs.NodeGetWriteRequest) error {
	req.NodeID = c.id()
	return c.decodeOptionalBody(&dialectOptions{})
}

// NodeEvaluate creates an evaluation of every job on a node.
func (c *Client) NodeEvaluate(ctx context.Context, id string) (
	*structs.NodeEvaluateResponse, error,
) {
	return nodeEvaluate.send(ctx, c, request{id: id})
}

// The dialect has none of the following routes.
var nodeForeignList = route(get, "/v1/nodes/foreign", serveMethod(nodeloss.NodeForeignList, nil,
	func(a *nodeloss.NodeForeignListResponse) []*nodeloss.ForeignNode { return a.Nodes }))

// ForeignNodes lists the nodes of other clusters that asked to join this one and were rejected.
func (c *Client) ForeignNodes(ctx context.Context, q *Query) ([]*nodeloss.ForeignNode, *Meta, error) {
	return nodeForeignList.fetch(ctx, c, "", q)
}

var nodeFenceStatus = route(get, "/v1/node/{id}/fence",
	serveMethod(nodeloss.NodeFenceStatus, bindNode, whole))

// NodeFenceStatus reads the runs of fence devices for a node, and the claims that a proof would release.
func (c *Client) NodeFenceStatus(ctx context.Context, id string, q *Query) (
	*nodeloss.NodeFenceStatusResponse, *Meta, error,
) {
	return nodeFenceStatus.fetch(ctx, c, id, q)
}

// NodeFence is the body of a request about the loss of a node: the operator with the reason. With Epoch other
// than 0, only the loss of that epoch is meant.
type NodeFence struct {
	Epoch uint64
	By    string
	Why   string
}

func bindNodeFence(c *call, req *nodeloss.NodeFenceRequest) error {
	var b NodeFence
	err := c.decodeBody(&b)
	req.NodeID = c.id()
	req.Epoch = b.Epoch
	req.By = b.By
	req.Why = b.Why
	return err
}

var nodeFence = route(put, "/v1/node/{id}/fence",
	serveMethod(nodeloss.NodeFence, bindNodeFence, whole))

// NodeFence orders a run of the fence devices for a node that is down.
func (c *Client) NodeFence(ctx context.Context, id string, order NodeFence) error {
	return nodeFence.route.exec(ctx, c, request{id: id, body: order})
}

var nodeConfirmLost = route(put, "/v1/node/{id}/confirm-lost",
	serveMethod(nodeloss.NodeConfirmLost, bindNodeFence, whole))

// NodeConfirmLost records that the machine of a node is off, and releases the volumes of the node.
func (c *Client) NodeConfirmLost(ctx context.Context, id string, word NodeFence) error {
	return nodeConfirmLost.route.exec(ctx, c, request{id: id, body: word})
}

var nodeFenceTest = route(put, "/v1/node/{id}/fence/test",
	serveMethod(nodeloss.NodeFenceTest, bindNode, whole))

// NodeFenceTest runs the action monitor of each fence device of a node.
func (c *Client) NodeFenceTest(ctx context.Context, id string) (*nodeloss.NodeFenceTestResponse, error) {
	return nodeFenceTest.send(ctx, c, request{id: id})
}

var nodePurge = route(put, "/v1/node/{id}/purge",
	serveMethod(structs.NodeDeregister, bindNodePurge, nodeWritten))

func bindNodePurge(c *call, req *structs.NodeDeregisterRequest) error {
	req.NodeIDs = []string{c.id()}
	return c.decodeOptionalBody(&dialectOptions{})
}

// NodePurge deletes a node.
func (c *Client) NodePurge(ctx context.Context, id string) error {
	return nodePurge.route.exec(ctx, c, request{id: id})
}
