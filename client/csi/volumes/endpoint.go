package volumes

import (
	"context"
	"errors"
	"time"

	"berth/csi"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

// EndpointDeps are what the endpoints need besides the volumes.
type EndpointDeps struct {
	// Running reports whether an allocation still runs on this node.
	Running func(allocID string) bool
	// CheckEpoch rejects a call of the servers for an epoch of the node that has ended. 0: the servers count
	// none.
	CheckEpoch func(epoch uint64) error
}

// Endpoints serves the calls of servers to a node about CSI: calls of the controllers that run here, the
// release of a volume, and the growth of its content. A controller call goes at once to the healthy instance
// of the plugin, or is answered with unavailable, so that the server can call another node. It is the only
// call in flight for its volume on this node. An error with an unknown outcome crosses the wire as timeout,
// with any gRPC code: the servers repeat the call with the same arguments.
func Endpoints(m *Manager, deps EndpointDeps) []rpc.Endpoint {
	e := &endpoints{m, deps}
	return []rpc.Endpoint{
		rpc.Handle(nodecalls.ClientCSIControllerCreate, e.create),
		rpc.Handle(nodecalls.ClientCSIControllerDelete, e.delete),
		rpc.Handle(nodecalls.ClientCSIControllerAttach, e.attach),
		rpc.Handle(nodecalls.ClientCSIControllerDetach, e.detach),
		rpc.Handle(nodecalls.ClientCSIControllerValidate, e.validate),
		rpc.Handle(nodecalls.ClientCSIControllerExpand, e.expand),
		rpc.Handle(nodecalls.ClientCSIControllerModify, e.modify),
		rpc.Handle(nodecalls.ClientCSIControllerList, e.list),
		rpc.Handle(nodecalls.ClientCSIControllerGet, e.get),
		rpc.Handle(nodecalls.ClientCSIListHealth, e.listHealth),
		rpc.Handle(nodecalls.ClientCSIGetHealth, e.getHealth),
		rpc.Handle(nodecalls.ClientCSISnapshotCreate, e.createSnapshot),
		rpc.Handle(nodecalls.ClientCSISnapshotDelete, e.deleteSnapshot),
		rpc.Handle(nodecalls.ClientCSISnapshotList, e.listSnapshots),
		rpc.Handle(nodecalls.ClientCSIGroupCreate, e.createGroup),
		rpc.Handle(nodecalls.ClientCSIGroupDelete, e.deleteGroup),
		rpc.Handle(nodecalls.ClientCSIControllerCapacity, e.capacity),
		rpc.Handle(nodecalls.ClientCSINodeDetach, e.nodeDetach),
		rpc.Handle(nodecalls.ClientCSINodeExpand, e.nodeExpand),
		rpc.Handle(nodecalls.ClientCSINodeVolume, e.nodeVolume),
		rpc.Handle(nodecalls.ClientCSIAllowCalls, e.allowCalls),
	}
}

type endpoints struct {
	m *Manager
	EndpointDeps
}

// controller returns the healthy controller that a request is for. One of another driver than the request
// names answers unavailable, as if there were none.
func (e *endpoints) controller(req nodecalls.CSIControllerRequest) (*Conn, error) {
	pluginID, provider := req.Driver()
	conn, err := e.m.Healthy(structs.CSIKindController, pluginID)
	if err != nil {
		return nil, err
	}

	if err := conn.CheckDriver(*provider, "called"); err != nil {
		// The server asks another node then.
		return nil, structs.Unavailablef("%w", err)
	}
	return conn, nil
}

// storageRequest is a request that changes storage.
type storageRequest interface {
	nodecalls.CSIControllerRequest
	SentEpoch() uint64
	SentTimeout() time.Duration
}

// controllerCall is a call of the controller that a request is for.
type controllerCall struct {
	*endpoints
	req storageRequest
	Call
}

// callController calls the plugin's healthy controller with an RPC that changes storage. No other call for
// the volume runs meanwhile. With an error there is no answer. An unknown outcome is a timeout, with any
// gRPC code, also if an earlier call, which this one must not overtake, has it: after unavailable, which
// means that the plugin was not called, the servers would call another controller. A call that comes after
// the loss of this node, which may have been frozen, is rejected: the servers may have called another
// controller since.
func callController[T any](
	ctx context.Context, c controllerCall, fn func(context.Context, *Conn) (*T, error),
) (*T, error) {
	controller, err := c.controller(c.req)
	if err != nil {
		return nil, err
	}

	c.PluginID, _ = c.req.Driver()
	// A repeat settles an earlier call only at the same instance.
	c.Instance = controller.Registration.AllocID
	c.Timeout = c.req.SentTimeout()
	resp, err := Do(ctx, c.m, c.Call, func(ctx context.Context) (*T, error) {
		// The wait for the lock may have been long, so this comes right before the call.
		err := c.CheckEpoch(c.req.SentEpoch())
		if err != nil {
			return nil, err
		}
		return fn(ctx, controller)
	})
	if err == nil {
		return resp, nil
	}

	if errors.Is(err, ErrUnanswered) ||
		csi.Code(err) != "" && !csi.Final(err) && !csi.Unsent(err) {
		err = structs.Timeoutf("%w", err)
	}

	return nil, wireError(err)
}

// wireError keeps facts that only the error of the call shows: that the outcome of a failed call is unknown,
// and that the plugin may have ended at the call. The servers would make that call at the next controller.
func wireError(err error) error {
	unknown := !csi.Final(err) && structs.KindOf(err).Final()
	if err != nil && (unknown || csi.Lost(err)) {
		return structs.Timeoutf("%w", err)
	}
	return err
}

// withEmptyReply gives a call without an answer the empty answer of its method.
func withEmptyReply(
	fn func(context.Context, *Conn) error,
) func(context.Context, *Conn) (*structs.Empty, error) {
	return func(ctx context.Context, c *Conn) (*structs.Empty, error) {
		return &structs.Empty{}, fn(ctx, c)
	}
}

func (e *endpoints) create(
	ctx context.Context, req *nodecalls.ClientCSICreateRequest,
) (*nodecalls.ClientCSICreateResponse, error) {
	create := func(ctx context.Context, c *Conn) (*nodecalls.ClientCSICreateResponse, error) {
		resp, err := c.CreateVolume(ctx, req)
		switch {
		case csi.Code(err) == structs.CSICodeExhausted:
			return &nodecalls.ClientCSICreateResponse{Exhausted: err.Error()}, nil
		// Without a volume there is nothing to delete again.
		case err == nil || resp == nil || resp.ExternalID == "":
			return resp, err
		}

		// The plugin made another volume than the requested one. Nothing can use it.
		del := &nodecalls.ClientCSIDeleteRequest{
			PluginID:   req.PluginID,
			ExternalID: resp.ExternalID,
			Secrets:    req.Secrets,
		}

		if delErr := c.DeleteVolume(ctx, del); delErr != nil {
			return nil, errors.Join(err, delErr)
		}

		return nil, structs.Invalidf("%v; the volume %q that was made is deleted again", err, resp.ExternalID)
	}

	// Until the plugin has given the volume an ID, the name identifies it (CSI spec, CreateVolume).
	c := Call{Volume: "name:" + req.Name, RPC: "CreateVolume"}
	return callController(ctx, controllerCall{e, req, c}, create)
}

func (e *endpoints) delete(
	ctx context.Context, req *nodecalls.ClientCSIDeleteRequest,
) (*structs.Empty, error) {
	c := Call{Volume: req.ExternalID, RPC: "DeleteVolume"}
	return callController(ctx, controllerCall{e, req, c},
		withEmptyReply(func(ctx context.Context, c *Conn) error {
			return c.DeleteVolume(ctx, req)
		}))
}

func (e *endpoints) attach(
	ctx context.Context, req *nodecalls.ClientCSIAttachRequest,
) (*nodecalls.ClientCSIAttachResponse, error) {
	c := Call{
		Volume: req.ExternalID,
		RPC:    "ControllerPublishVolume",
		Where:  req.ExternalNodeID,
	}
	attach := func(ctx context.Context, c *Conn) (*nodecalls.ClientCSIAttachResponse, error) {
		return c.ControllerPublishVolume(ctx, req)
	}
	return callController(ctx, controllerCall{e, req, c}, attach)
}

func (e *endpoints) detach(
	ctx context.Context, req *nodecalls.ClientCSIDetachRequest,
) (*structs.Empty, error) {
	c := Call{
		Volume: req.ExternalID,
		RPC:    "ControllerUnpublishVolume",
		Where:  req.ExternalNodeID,
	}
	return callController(ctx, controllerCall{e, req, c},
		withEmptyReply(func(ctx context.Context, c *Conn) error {
			return c.ControllerUnpublishVolume(ctx, req)
		}))
}

// validate changes nothing: if the plugin cannot answer, the server may call another one.
func (e *endpoints) validate(
	ctx context.Context, req *nodecalls.ClientCSIValidateRequest,
) (*structs.Empty, error) {
	conn, err := e.controller(req)
	if err != nil {
		return nil, err
	}

	c := Call{
		PluginID: req.PluginID,
		Instance: conn.Registration.AllocID,
		Volume:   req.ExternalID,
		RPC:      "ValidateVolumeCapabilities",
		Timeout:  req.Timeout,
	}

	// It changes nothing, but a volume has one call in flight (CSI spec, "Concurrency").
	err = e.m.Exclusive(ctx, c, func(ctx context.Context) error {
		return conn.ValidateVolumeCapabilities(ctx, req)
	})
	return &structs.Empty{}, wireError(err)
}

func (e *endpoints) expand(
	ctx context.Context, req *nodecalls.ClientCSIExpandRequest,
) (*nodecalls.ClientCSIExpandResponse, error) {
	c := Call{Volume: req.ExternalID, RPC: "ControllerExpandVolume"}
	expand := func(ctx context.Context, c *Conn) (*nodecalls.ClientCSIExpandResponse, error) {
		resp, err := c.ControllerExpandVolume(ctx, req)
		if csi.Code(err) == structs.CSICodeExhausted {
			return &nodecalls.ClientCSIExpandResponse{Exhausted: err.Error()}, nil
		}
		return resp, err
	}
	return callController(ctx, controllerCall{e, req, c}, expand)
}

func (e *endpoints) modify(
	ctx context.Context, req *nodecalls.ClientCSIModifyRequest,
) (*structs.Empty, error) {
	c := Call{Volume: req.ExternalID, RPC: "ControllerModifyVolume"}
	return callController(ctx, controllerCall{e, req, c},
		withEmptyReply(func(ctx context.Context, c *Conn) error {
			return csi.ControllerModifyVolume(ctx, c.Client, req)
		}))
}

// list is about no single volume and waits for none.
func (e *endpoints) list(
	ctx context.Context, req *nodecalls.ClientCSIListRequest,
) (*nodecalls.ClientCSIListResponse, error) {
	conn, err := e.controller(req)
	if err != nil {
		return nil, err
	}

	ctx, cancel := within(ctx, req.Timeout)
	defer cancel()
	resp, err := conn.ListVolumes(ctx, req)
	return resp, wireError(err)
}

// get changes nothing, and the volume may be one that has no row: it waits for no other call.
func (e *endpoints) get(
	ctx context.Context, req *nodecalls.ClientCSIGetVolumeRequest,
) (*nodecalls.ClientCSIGetVolumeResponse, error) {
	conn, err := e.controller(req)
	if err != nil {
		return nil, err
	}

	ctx, cancel := within(ctx, req.Timeout)
	defer cancel()
	v, err := csi.ControllerGetVolume(ctx, conn.Client, req)
	return &nodecalls.ClientCSIGetVolumeResponse{Volume: v}, wireError(err)
}

// listHealth is about no single volume and waits for none.
func (e *endpoints) listHealth(
	ctx context.Context, req *nodecalls.ClientCSIListHealthRequest,
) (*nodecalls.ClientCSIListHealthResponse, error) {
	conn, err := e.controller(req)
	if err != nil {
		return nil, err
	}

	ctx, cancel := within(ctx, req.Timeout)
	defer cancel()
	resp, err := csi.ControllerListVolumeHealth(ctx, conn.Client, req)
	return resp, wireError(err)
}

// getHealth changes nothing, so it waits for no other call.
func (e *endpoints) getHealth(
	ctx context.Context, req *nodecalls.ClientCSIGetHealthRequest,
) (*nodecalls.ClientCSIGetHealthResponse, error) {
	conn, err := e.controller(req)
	if err != nil {
		return nil, err
	}

	ctx, cancel := within(ctx, req.Timeout)
	defer cancel()
	condition, err := csi.ControllerGetVolumeHealth(ctx, conn.Client, req)
	return &nodecalls.ClientCSIGetHealthResponse{Condition: condition}, wireError(err)
}

// within bounds a call that reads by the settings of its plugin, 0 for none.
func within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// capacity is about no volume and waits for none.
func (e *endpoints) capacity(
	ctx context.Context, req *nodecalls.ClientCSICapacityRequest,
) (*nodecalls.ClientCSICapacityResponse, error) {
	conn, err := e.controller(req)
	if err != nil {
		return nil, err
	}

	ctx, cancel := within(ctx, req.Timeout)
	defer cancel()
	resp, err := conn.GetCapacity(ctx, req)
	return resp, wireError(err)
}

// detachTime bounds a node's work on a detach before it answers with the operation for which it waits. The
// call of the plugin continues.
const detachTime = 20 * time.Second

func (e *endpoints) nodeDetach(
	ctx context.Context, req *nodecalls.ClientCSINodeDetachRequest,
) (*structs.Empty, error) {
	ctx, cancel := context.WithTimeout(ctx, detachTime)
	defer cancel()

	k := volumeKey(req.VolumeNamespace, req.VolumeID)
	// The operator may have repaired the cause of a rejection.
	if req.ByOperator {
		e.m.Volumes().UnparkCalls(k)
	}

	err := e.m.Volumes().Detach(ctx, Detachment{
		VolumeKey: k,
		AllocID:   req.AllocID,
		Running:   e.Running,
		Timeout:   req.Timeout,
	})
	return &structs.Empty{}, wireError(err)
}

// volumeKey names a volume. A request may leave the default namespace out.
func volumeKey(namespace, id string) VolumeKey {
	return VolumeKey{
		Namespace: structs.NamespaceOr(namespace),
		ID:        id,
	}
}

func (e *endpoints) nodeExpand(
	ctx context.Context, req *nodecalls.ClientCSINodeExpandRequest,
) (*nodecalls.ClientCSINodeExpandResponse, error) {
	capacity, err := e.m.Volumes().Expand(ctx, &Use{
		VolumeKey:      volumeKey(req.VolumeNamespace, req.VolumeID),
		AllocID:        req.AllocID,
		Timeout:        req.Timeout,
		Secrets:        req.Secrets,
		PluginID:       req.PluginID,
		ExternalID:     req.ExternalID,
		ExpandBytes:    req.RequiredBytes,
		AccessMode:     req.AccessMode,
		AttachmentMode: req.AttachmentMode,
		MountOptions:   req.MountOptions,
	})

	switch {
	case structs.IsKind(err, structs.KindPrecondition) &&
		structs.CodeOf(err) == "":
		// Only the plugin may leave it to the next stage.
		return nil, structs.Unavailablef("%w", err)
	case err != nil:
		return nil, wireError(err)
	}

	return &nodecalls.ClientCSINodeExpandResponse{Capacity: capacity}, nil
}

// nodeVolume returns the node's mounts and records of a volume. It calls no plugin.
func (e *endpoints) nodeVolume(
	_ context.Context, req *nodecalls.ClientCSINodeVolumeRequest,
) (*nodecalls.ClientCSINodeVolumeResponse, error) {
	return e.m.Volumes().Presence(volumeKey(req.VolumeNamespace, req.VolumeID))
}

func (e *endpoints) allowCalls(
	_ context.Context, req *nodecalls.ClientCSIAllowCallsRequest,
) (*nodecalls.ClientCSIAllowCallsResponse, error) {
	e.m.AllowCalls(req.PluginID, req.Volumes)
	allocs := e.m.Volumes().RetryMounts(volumeKey(req.VolumeNamespace, req.VolumeID))
	return &nodecalls.ClientCSIAllowCallsResponse{AllocIDs: allocs}, nil
}
