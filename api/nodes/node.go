// Package nodes has the routes about nodes and node pools, each with the call of the client: eligibility,
// drains, leases, fences and what was lost with a node.
package nodes

import (
	"context"
	"net/netip"
	"time"

	"berth/api"
	"berth/structs"
	"berth/structs/cluster"
)

// table has the routes of this area.
var table api.Table

// Routes returns the routes of this area.
func Routes() []*api.Route { return table.Routes() }

var nodeList = api.NewEndpoint(&table, api.Get, "/v1/nodes",
	api.ServeList(structs.NodeList, nil,
		func(a *structs.NodeListResponse) []*structs.NodeListStub {
			return a.Nodes
		}))

// List lists nodes.
func List(ctx context.Context, c *api.Client, q *api.Query) (
	[]*structs.NodeListStub, *api.Meta, error,
) {
	return nodeList.Fetch(ctx, c, "", q)
}

var nodeGet = api.NewEndpoint(&table, api.Get, "/v1/node/{id}",
	api.ServeFunc[*structs.NodeDetail](
		api.ServeMethod(structs.NodeGet, bindNode, viewNode)))

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

var bindNode = api.WithID(func(q *structs.NodeGetRequest, id string) { q.NodeID = id })

// Get reads one node with its plugin instances.
func Get(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.NodeDetail, *api.Meta, error,
) {
	return nodeGet.Fetch(ctx, c, id, q)
}

var nodeAllocations = api.NewEndpoint(&table, api.Get, "/v1/node/{id}/allocations",
	api.WithResources(api.ServeList(structs.NodeAllocs, bindNode,
		func(a *structs.AllocsResponse) []*structs.Allocation {
			return a.Allocs
		})))

// ListAllocations lists the allocations on a node.
func ListAllocations(ctx context.Context, c *api.Client, id string, q *api.Query) (
	[]*structs.Allocation, *api.Meta, error,
) {
	return nodeAllocations.Fetch(ctx, c, id, q)
}

var nodeEligibility = api.NewEndpoint(&table, api.Put, "/v1/node/{id}/eligibility",
	api.ServeMethod(structs.NodeEligibility, bindNodeEligibility, nodeWritten))

// nodeEligibilityBody is the body that allows or forbids placements on a node.
type nodeEligibilityBody struct{ NodeID, Eligibility string }

func bindNodeEligibility(c *api.Call, req *structs.NodeEligibilityRequest) error {
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

// SetEligibility allows or forbids new placements on a node.
func SetEligibility(ctx context.Context, c *api.Client, id string, eligible bool) error {
	body := nodeEligibilityBody{id, structs.NodeIneligible}
	if eligible {
		body.Eligibility = structs.NodeEligible
	}
	return nodeEligibility.Exec(ctx, c, api.Request{ID: id, Body: body})
}

var nodeLease = api.NewEndpoint(&table, api.Put, "/v1/node/{id}/lease",
	api.ServeMethod(cluster.NodeExtendLease, bindNodeLease,
		func(r *cluster.NodeExtendLeaseResponse) *cluster.NodeExtendLeaseResponse { return r }))

// nodeLeaseBody is the body that orders a longer lease.
type nodeLeaseBody struct {
	NodeID string
	For    time.Duration
}

func bindNodeLease(c *api.Call, req *cluster.NodeExtendLeaseRequest) error {
	var b nodeLeaseBody
	err := c.DecodeBody(&b)
	if err != nil {
		return err
	}
	req.NodeID = c.ID()
	req.For = b.For
	return c.SameID("node", b.NodeID)
}

// ExtendLease makes the servers count a node as alive for a time from now, without heartbeats. It returns
// the time after which they count it as down.
func ExtendLease(ctx context.Context, c *api.Client, id string, by time.Duration) (time.Duration, error) {
	var resp cluster.NodeExtendLeaseResponse
	_, err := nodeLease.Decode(ctx, c, api.Request{ID: id, Body: nodeLeaseBody{id, by}}, &resp)
	return resp.DownAfter, err
}

var nodeDrain = api.NewEndpoint(&table, api.Put, "/v1/node/{id}/drain",
	api.ServeMethod(structs.NodeDrain, bindNodeDrain, nodeWritten))

// DrainOrder starts, changes or cancels a drain. Without a DrainSpec it cancels the drain; MarkEligible then
// allows new placements again.
type DrainOrder struct {
	NodeID       string // "", or the ID in the path
	DrainSpec    *structs.DrainSpec
	MarkEligible bool
	Meta         map[string]string // notes of the operator
}

func bindNodeDrain(c *api.Call, req *structs.NodeDrainRequest) error {
	var b DrainOrder
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

// Drain starts, changes or cancels the drain of a node.
func Drain(ctx context.Context, c *api.Client, id string, drain DrainOrder) error {
	return nodeDrain.Exec(ctx, c, api.Request{ID: id, Body: drain})
}

var nodeDrainStatus = api.NewEndpoint(&table, api.Get, "/v1/node/{id}/drain",
	api.ServeMethod(structs.NodeDrainStatus, bindNode, api.Whole))

// DrainStatus reads the drain of a node, and for each allocation why it is still there.
func DrainStatus(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.NodeDrainStatusResponse, *api.Meta, error,
) {
	return nodeDrainStatus.Fetch(ctx, c, id, q)
}

var nodeEvaluate = api.NewEndpoint(&table, api.Put, "/v1/node/{id}/evaluate",
	api.ServeMethod(structs.NodeEvaluate, bindNodeWrite, api.Whole))

func bindNodeWrite(c *api.Call, req *structs.NodeGetWriteRequest) error {
	req.NodeID = c.ID()
	return c.DecodeOptionalBody(&api.DialectOptions{})
}

// Evaluate creates an evaluation of every job on a node.
func Evaluate(ctx context.Context, c *api.Client, id string) (
	*structs.NodeEvaluateResponse, error,
) {
	return nodeEvaluate.Send(ctx, c, api.Request{ID: id})
}

// The dialect has none of the following routes.
var nodeForeignList = api.NewEndpoint(&table, api.Get, "/v1/nodes/foreign",
	api.ServeMethod(cluster.NodeForeignList, nil,
		func(a *cluster.NodeForeignListResponse) []*cluster.ForeignNode { return a.Nodes }))

// ListForeign lists the nodes of other clusters that asked to join this one and were rejected.
func ListForeign(ctx context.Context, c *api.Client, q *api.Query) (
	[]*cluster.ForeignNode, *api.Meta, error,
) {
	return nodeForeignList.Fetch(ctx, c, "", q)
}

var nodeFenceStatus = api.NewEndpoint(&table, api.Get, "/v1/node/{id}/fence",
	api.ServeMethod(cluster.NodeFenceStatus, bindNode, api.Whole))

// FenceStatus reads the runs of fence devices for a node, and the claims that a proof would release.
func FenceStatus(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*cluster.NodeFenceStatusResponse, *api.Meta, error,
) {
	return nodeFenceStatus.Fetch(ctx, c, id, q)
}

// FenceOrder is the body of a request about the loss of a node: the operator with the reason. With Epoch
// other than 0, only the loss of that epoch is meant.
type FenceOrder struct {
	Epoch uint64
	By    string
	Why   string
}

func bindNodeFence(c *api.Call, req *cluster.NodeFenceRequest) error {
	var b FenceOrder
	err := c.DecodeBody(&b)
	req.NodeID = c.ID()
	req.Epoch = b.Epoch
	req.By = b.By
	req.Why = b.Why
	return err
}

var nodeFence = api.NewEndpoint(&table, api.Put, "/v1/node/{id}/fence",
	api.ServeMethod(cluster.NodeFence, bindNodeFence, api.Whole))

// Fence orders a run of the fence devices for a node that is down.
func Fence(ctx context.Context, c *api.Client, id string, order FenceOrder) error {
	return nodeFence.Exec(ctx, c, api.Request{ID: id, Body: order})
}

var nodeConfirmLost = api.NewEndpoint(&table, api.Put, "/v1/node/{id}/confirm-lost",
	api.ServeMethod(cluster.NodeConfirmLost, bindNodeFence, api.Whole))

// ConfirmLost records that the machine of a node is off, and releases the volumes of the node.
func ConfirmLost(ctx context.Context, c *api.Client, id string, word FenceOrder) error {
	return nodeConfirmLost.Exec(ctx, c, api.Request{ID: id, Body: word})
}

var nodeFenceTest = api.NewEndpoint(&table, api.Put, "/v1/node/{id}/fence/test",
	api.ServeMethod(cluster.NodeFenceTest, bindNode, api.Whole))

// TestFence runs the action monitor of each fence device of a node.
func TestFence(ctx context.Context, c *api.Client, id string) (*cluster.NodeFenceTestResponse, error) {
	return nodeFenceTest.Send(ctx, c, api.Request{ID: id})
}

// FencePin is the body of a request that changes the pins of a node: see cluster.NodeFencePinRequest.
type FencePin struct {
	Pins   map[string]string `json:",omitempty"`
	Remove []string          `json:",omitempty"`
	Left   bool              `json:",omitempty"` // the node of the path is the name of pins without a node
	By     string
}

func bindNodeFencePin(c *api.Call, req *cluster.NodeFencePinRequest) error {
	var b FencePin
	err := c.DecodeBody(&b)
	req.NodeID = c.ID()
	req.Pins = b.Pins
	req.Remove = b.Remove
	req.Left = b.Left
	req.By = b.By
	return err
}

var nodeFencePin = api.NewEndpoint(&table, api.Put, "/v1/node/{id}/fence/pins",
	api.ServeMethod(cluster.NodeFencePin, bindNodeFencePin, api.Whole))

// PinFence pins values for a node, by which fence devices find its machine, and removes pins.
func PinFence(ctx context.Context, c *api.Client, id string, change FencePin) error {
	return nodeFencePin.Exec(ctx, c, api.Request{ID: id, Body: change})
}

var nodeFencePins = api.NewEndpoint(&table, api.Get, "/v1/nodes/fence-pins",
	api.ServeMethod(cluster.NodeFencePins, nil, api.Whole))

// ListFencePins reads all pins, and warnings of nodes that the devices of the servers would not fence well.
func ListFencePins(ctx context.Context, c *api.Client, q *api.Query) (
	*cluster.NodeFencePinsResponse, *api.Meta, error,
) {
	return nodeFencePins.Fetch(ctx, c, "", q)
}

var nodePurge = api.NewEndpoint(&table, api.Put, "/v1/node/{id}/purge",
	api.ServeMethod(structs.NodeDeregister, bindNodePurge, nodeWritten))

func bindNodePurge(c *api.Call, req *structs.NodeDeregisterRequest) error {
	req.NodeIDs = []string{c.ID()}
	return c.DecodeOptionalBody(&api.DialectOptions{})
}

// Purge deletes a node.
func Purge(ctx context.Context, c *api.Client, id string) error {
	return nodePurge.Exec(ctx, c, api.Request{ID: id})
}
