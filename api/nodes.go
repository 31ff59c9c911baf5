package api

import (
	"context"
	"net/netip"
	"time"

	"berth/structs"
	"berth/structs/cluster"
)

var nodeList = NewEndpoint(Get, "/v1/nodes",
	ServeList(structs.NodeList, nil,
		func(a *structs.NodeListResponse) []*structs.NodeListStub {
			return a.Nodes
		}))

// Nodes lists nodes.
func (c *Client) Nodes(ctx context.Context, q *Query) (
	[]*structs.NodeListStub, *Meta, error,
) {
	return nodeList.Fetch(ctx, c, "", q)
}

var nodeGet = NewEndpoint(Get, "/v1/node/{id}",
	ServeFunc[*structs.NodeDetail](
		ServeMethod(structs.NodeGet, bindNode, viewNode)))

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

var bindNode = WithID(func(q *structs.NodeGetRequest, id string) { q.NodeID = id })

// Node reads one node with its plugin instances.
func (c *Client) Node(ctx context.Context, id string, q *Query) (
	*structs.NodeDetail, *Meta, error,
) {
	return nodeGet.Fetch(ctx, c, id, q)
}

var nodeAllocations = NewEndpoint(Get, "/v1/node/{id}/allocations",
	withResources(ServeList(structs.NodeAllocs, bindNode,
		func(a *structs.AllocsResponse) []*structs.Allocation {
			return a.Allocs
		})))

// NodeAllocations lists the allocations on a node.
func (c *Client) NodeAllocations(ctx context.Context, id string, q *Query) (
	[]*structs.Allocation, *Meta, error,
) {
	return nodeAllocations.Fetch(ctx, c, id, q)
}

var nodeEligibility = NewEndpoint(Put, "/v1/node/{id}/eligibility",
	ServeMethod(structs.NodeEligibility, bindNodeEligibility, nodeWritten))

// nodeEligibilityBody is the body that allows or forbids placements on a node.
type nodeEligibilityBody struct{ NodeID, Eligibility string }

func bindNodeEligibility(c *Call, req *structs.NodeEligibilityRequest) error {
	var b nodeEligibilityBody
	err := c.DecodeBody(&b)
	if err != nil {
		return err
	}
	if b.Eligibility != structs.NodeEligible &&
		b.Eligibility != structs.NodeIneligible {
		return structs.Invalidf("Eligibility: expected %q or %q, found %q",
			structs.NodeEligible, structs.NodeIneligible, b.Eligibility)
	}
	req.NodeID = c.ID()
	req.Eligibility = b.Eligibility
	return c.SameID("node", b.NodeID)
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
	return nodeEligibility.route.exec(ctx, c, Request{ID: id, Body: body})
}

var nodeLease = NewEndpoint(Put, "/v1/node/{id}/lease", ServeMethod(cluster.NodeExtendLease, bindNodeLease,
	func(r *cluster.NodeExtendLeaseResponse) *cluster.NodeExtendLeaseResponse { return r }))

// nodeLeaseBody is the body that orders a longer lease.
type nodeLeaseBody struct {
	NodeID string
	For    time.Duration
}

func bindNodeLease(c *Call, req *cluster.NodeExtendLeaseRequest) error {
	var b nodeLeaseBody
	err := c.DecodeBody(&b)
	if err != nil {
		return err
	}
	req.NodeID = c.ID()
	req.For = b.For
	return c.SameID("node", b.NodeID)
}

// NodeExtendLease makes the servers count a node as alive for a time from now, without heartbeats. It returns
// the time after which they count it as down.
func (c *Client) NodeExtendLease(ctx context.Context, id string, by time.Duration) (time.Duration, error) {
	var resp cluster.NodeExtendLeaseResponse
	_, err := nodeLease.route.decode(ctx, c, Request{ID: id, Body: nodeLeaseBody{id, by}}, &resp)
	return resp.DownAfter, err
}

var nodeDrain = NewEndpoint(Put, "/v1/node/{id}/drain",
	ServeMethod(structs.NodeDrain, bindNodeDrain, nodeWritten))

// NodeDrain starts, changes or cancels a drain. Without a DrainSpec it cancels the drain; MarkEligible then
// allows new placements again.
type NodeDrain struct {
	NodeID       string // "", or the ID in the path
	DrainSpec    *structs.DrainSpec
	MarkEligible bool
	Meta         map[string]string // notes of the operator
}

func bindNodeDrain(c *Call, req *structs.NodeDrainRequest) error {
	var b NodeDrain
	err := c.DecodeBody(&b)
	if err != nil {
		return err
	}
	req.NodeID = c.ID()
	req.DrainSpec = b.DrainSpec
	req.MarkEligible = b.MarkEligible
	req.Meta = b.Meta
	return c.SameID("node", b.NodeID)
}

// NodeDrain starts, changes or cancels the drain of a node.
func (c *Client) NodeDrain(ctx context.Context, id string, drain NodeDrain) error {
	return nodeDrain.route.exec(ctx, c, Request{ID: id, Body: drain})
}

var nodeDrainStatus = NewEndpoint(Get, "/v1/node/{id}/drain",
	ServeMethod(structs.NodeDrainStatus, bindNode, Whole))

// NodeDrainStatus reads the drain of a node, and for each allocation why it is still there.
func (c *Client) NodeDrainStatus(ctx context.Context, id string, q *Query) (
	*structs.NodeDrainStatusResponse, *Meta, error,
) {
	return nodeDrainStatus.Fetch(ctx, c, id, q)
}

var nodeEvaluate = NewEndpoint(Put, "/v1/node/{id}/evaluate",
	ServeMethod(structs.NodeEvaluate, bindNodeWrite, Whole))

func bindNodeWrite(c *Call, req *structs.NodeGetWriteRequest) error {
	req.NodeID = c.ID()
	return c.DecodeOptionalBody(&DialectOptions{})
}

// NodeEvaluate creates an evaluation of every job on a node.
func (c *Client) NodeEvaluate(ctx context.Context, id string) (
	*structs.NodeEvaluateResponse, error,
) {
	return nodeEvaluate.Send(ctx, c, Request{ID: id})
}

// The dialect has none of the following routes.
var nodeForeignList = NewEndpoint(Get, "/v1/nodes/foreign", ServeMethod(cluster.NodeForeignList, nil,
	func(a *cluster.NodeForeignListResponse) []*cluster.ForeignNode { return a.Nodes }))

// ForeignNodes lists the nodes of other clusters that asked to join this one and were rejected.
func (c *Client) ForeignNodes(ctx context.Context, q *Query) ([]*cluster.ForeignNode, *Meta, error) {
	return nodeForeignList.Fetch(ctx, c, "", q)
}

var nodeFenceStatus = NewEndpoint(Get, "/v1/node/{id}/fence",
	ServeMethod(cluster.NodeFenceStatus, bindNode, Whole))

// NodeFenceStatus reads the runs of fence devices for a node, and the claims that a proof would release.
func (c *Client) NodeFenceStatus(ctx context.Context, id string, q *Query) (
	*cluster.NodeFenceStatusResponse, *Meta, error,
) {
	return nodeFenceStatus.Fetch(ctx, c, id, q)
}

// NodeFence is the body of a request about the loss of a node: the operator with the reason. With Epoch other
// than 0, only the loss of that epoch is meant.
type NodeFence struct {
	Epoch uint64
	By    string
	Why   string
}

func bindNodeFence(c *Call, req *cluster.NodeFenceRequest) error {
	var b NodeFence
	err := c.DecodeBody(&b)
	req.NodeID = c.ID()
	req.Epoch = b.Epoch
	req.By = b.By
	req.Why = b.Why
	return err
}

var nodeFence = NewEndpoint(Put, "/v1/node/{id}/fence",
	ServeMethod(cluster.NodeFence, bindNodeFence, Whole))

// NodeFence orders a run of the fence devices for a node that is down.
func (c *Client) NodeFence(ctx context.Context, id string, order NodeFence) error {
	return nodeFence.route.exec(ctx, c, Request{ID: id, Body: order})
}

var nodeConfirmLost = NewEndpoint(Put, "/v1/node/{id}/confirm-lost",
	ServeMethod(cluster.NodeConfirmLost, bindNodeFence, Whole))

// NodeConfirmLost records that the machine of a node is off, and releases the volumes of the node.
func (c *Client) NodeConfirmLost(ctx context.Context, id string, word NodeFence) error {
	return nodeConfirmLost.route.exec(ctx, c, Request{ID: id, Body: word})
}

var nodeFenceTest = NewEndpoint(Put, "/v1/node/{id}/fence/test",
	ServeMethod(cluster.NodeFenceTest, bindNode, Whole))

// NodeFenceTest runs the action monitor of each fence device of a node.
func (c *Client) NodeFenceTest(ctx context.Context, id string) (*cluster.NodeFenceTestResponse, error) {
	return nodeFenceTest.Send(ctx, c, Request{ID: id})
}

// NodeFencePin is the body of a request that changes the pins of a node: see cluster.NodeFencePinRequest.
type NodeFencePin struct {
	Pins   map[string]string `json:",omitempty"`
	Remove []string          `json:",omitempty"`
	Left   bool              `json:",omitempty"` // the node of the path is the name of pins without a node
	By     string
}

func bindNodeFencePin(c *Call, req *cluster.NodeFencePinRequest) error {
	var b NodeFencePin
	err := c.DecodeBody(&b)
	req.NodeID = c.ID()
	req.Pins = b.Pins
	req.Remove = b.Remove
	req.Left = b.Left
	req.By = b.By
	return err
}

var nodeFencePin = NewEndpoint(Put, "/v1/node/{id}/fence/pins",
	ServeMethod(cluster.NodeFencePin, bindNodeFencePin, Whole))

// NodeFencePin pins values for a node, by which fence devices find its machine, and removes pins.
func (c *Client) NodeFencePin(ctx context.Context, id string, change NodeFencePin) error {
	return nodeFencePin.route.exec(ctx, c, Request{ID: id, Body: change})
}

var nodeFencePins = NewEndpoint(Get, "/v1/nodes/fence-pins",
	ServeMethod(cluster.NodeFencePins, nil, Whole))

// NodeFencePins reads all pins, and warnings of nodes that the devices of the servers would not fence well.
func (c *Client) NodeFencePins(ctx context.Context, q *Query) (
	*cluster.NodeFencePinsResponse, *Meta, error,
) {
	return nodeFencePins.Fetch(ctx, c, "", q)
}

var nodePurge = NewEndpoint(Put, "/v1/node/{id}/purge",
	ServeMethod(structs.NodeDeregister, bindNodePurge, nodeWritten))

func bindNodePurge(c *Call, req *structs.NodeDeregisterRequest) error {
	req.NodeIDs = []string{c.ID()}
	return c.DecodeOptionalBody(&DialectOptions{})
}

// NodePurge deletes a node.
func (c *Client) NodePurge(ctx context.Context, id string) error {
	return nodePurge.route.exec(ctx, c, Request{ID: id})
}
