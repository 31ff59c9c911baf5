package control

import (
	"context"

	"berth/fsm"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/volumesecrets"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/validate/report"
)

// The calls that a volume's row can need.
const (
	opCreate = "create"
	opDelete = "delete"
	opExpand = "expand"
	opModify = "modify"
	// opLearn repeats a creation of unknown outcome to get the ID of the volume to delete. There is no other
	// way to undo the creation (CSI spec, CreateVolume).
	opLearn = "learn"
)

// nextVolume returns the call that a volume's row needs, "" if none.
func nextVolume(v *structs.CSIVolume) string {
	switch {
	case v.State == structs.VolumeCreating:
		return opCreate
	case v.State == structs.VolumeDeleting && v.ExternalID == "":
		return opLearn
	case v.State == structs.VolumeDeleting:
		return opDelete
	case v.Modifies(): // an expansion may wait for the users of the volume
		return opModify
	case v.Expands():
		return opExpand
	}
	return ""
}

func (c controllerLoop) volumeWork(v *structs.CSIVolume) work {
	op := nextVolume(v)
	note := structs.CSICallNote{
		VolumeID: v.ID,
		RowIndex: v.CreateIndex,
	}

	c = c.recordingCalls(v.Namespace, note, op)
	w := work{
		op:        op,
		volume:    v.Namespace + "/" + v.ID,
		plugin:    v.PluginID,
		version:   v.ModifyIndex,
		lastError: v.LastError,
		call:      v.Call,
		candidates: func(tx *state.ReadTx) []string {
			return nodeconn.VolumeControllers(tx, v)
		},
	}

	w.act = func(ctx context.Context, candidates []string, err error) error {
		var outcome *structs.CSIVolumeOutcome
		if err == nil {
			outcome, err = c.withCandidates(candidates).volumeCall(ctx, v)
		}

		if ctx.Err() != nil {
			return ctx.Err() // the outcome is unknown; the next leader makes the same call
		}

		return c.volumeOutcome(ctx, v, outcome, err)
	}

	return w
}

// volumeCall makes the call that a volume's row needs. A nil outcome only means success.
func (c controllerLoop) volumeCall(
	ctx context.Context,
	v *structs.CSIVolume,
) (*structs.CSIVolumeOutcome, error) {
	tx := c.Store.Read()
	v, err := volumesecrets.OpenForCall(tx, c.Keys, v)
	if err != nil {
		return nil, err
	}

	switch nextVolume(v) {
	case opCreate:
		err := checkSource(tx, v)
		if err != nil {
			return nil, err
		}
		return c.create(ctx, createRequest(v))
	case opLearn:
		outcome, err := c.create(ctx, createRequest(v))
		return learned(v, outcome, err)
	case opExpand:
		return c.expand(ctx, expandRequest(tx, v))
	case opModify:
		req := modifyRequest(v)
		_, err := callController(ctx, c, nodecalls.ClientCSIControllerModify, req)
		return &structs.CSIVolumeOutcome{Op: opModify, Parameters: req.MutableParameters}, err
	}

	return nil, c.remove(ctx, v)
}

// volumeOutcome records the outcome of a call.
func (c controllerLoop) volumeOutcome(
	ctx context.Context,
	v *structs.CSIVolume,
	outcome *structs.CSIVolumeOutcome,
	err error,
) error {
	op := nextVolume(v)
	if outcome == nil {
		outcome = &structs.CSIVolumeOutcome{Op: op}
		if op == opLearn {
			// The plugin has made no volume, so the row is deleted as after a deletion.
			outcome.Op = opDelete
		}
	}

	if err != nil {
		rpc := c.rpcOf(v, op)
		outcome.Err = c.operationError(err, v.LastError, rpc)
		outcome.Final = givesUp(rpc, err)
		outcome.KeepCall = keepsCall(v.Call, err)
		if outcome.Final {
			outcome.Err.RetryTime = 0
		}
	}

	if op == opCreate || op == opExpand {
		outcome.Asked = new(v.Asked())
	}
	outcome.ID = v.ID
	outcome.RowIndex = v.CreateIndex
	outcome.WriteOptions = c.stamp(v.Namespace)
	return propose(ctx, c.Deps, fsm.VolumeOutcome, outcome)
}

// rpcOf returns the RPC of a call for a volume, as the policy for repeats names it.
func (c controllerLoop) rpcOf(v *structs.CSIVolume, op string) string {
	if op == opExpand {
		plugin := csi.Plugin(c.Store.Read(), v.PluginID)
		if plugin != nil && plugin.ExpandsOffline {
			return nodecalls.OfflineExpansion
		}
	}
	return rpcs[op]
}

func (c controllerLoop) create(
	ctx context.Context,
	req *nodecalls.ClientCSICreateRequest,
) (*structs.CSIVolumeOutcome, error) {
	made, err := callController(ctx, c, nodecalls.ClientCSIControllerCreate, req)
	switch {
	case err != nil:
		return nil, err
	case made.Exhausted != "":
		return nil, exhaustedError(made.Exhausted)
	case made.ExternalID == "":
		return nil, structs.Internalf("plugin %s answered CreateVolume without a volume_id", req.PluginID)
	}

	if err := report.Created(made, req.Capacity.RequiredBytes); err != nil {
		return nil, structs.Internalf("plugin %s: CreateVolume: %w", req.PluginID, err)
	}

	return &structs.CSIVolumeOutcome{
		Op:         opCreate,
		ExternalID: made.ExternalID,
		Capacity:   made.Capacity,
		Context:    made.Context,
		Topologies: made.Topologies,
	}, nil
}

// remove deletes a volume that is not attached, under its own or another ID.
func (c controllerLoop) remove(ctx context.Context, v *structs.CSIVolume) error {
	a := csi.AttachedAs(c.Store.Read(), v.PluginID, v.ExternalID)
	if a != nil {
		return structs.Preconditionf(
			"volume %q is still %s at node %s, as volume %q in namespace %q",
			v.ID, a.State, a.NodeID, a.VolumeID, a.Namespace)
	}

	req := &nodecalls.ClientCSIDeleteRequest{
		PluginID:   v.PluginID,
		ExternalID: v.ExternalID,
		Secrets:    v.Secrets,
	}

	_, err := callController(ctx, c, nodecalls.ClientCSIControllerDelete, req)
	if structs.IsKind(err, structs.KindNotFound) {
		return nil // the volume no longer exists
	}

	return err
}

func (c controllerLoop) expand(
	ctx context.Context,
	req *nodecalls.ClientCSIExpandRequest,
) (*structs.CSIVolumeOutcome, error) {
	grown, err := callController(ctx, c, nodecalls.ClientCSIControllerExpand, req)
	switch {
	case err != nil:
		return nil, err
	case grown.Exhausted != "":
		return nil, exhaustedError(grown.Exhausted)
	}

	if err := report.Expanded(grown, req.Capacity.RequiredBytes); err != nil {
		return nil, structs.Internalf("plugin %s: ControllerExpandVolume of volume %s: %w",
			req.PluginID, req.ExternalID, err)
	}

	// A plugin need not know the capacity and answers 0 then, but it has met the request.
	outcome := &structs.CSIVolumeOutcome{
		Op:       opExpand,
		Capacity: max(grown.Capacity, req.Capacity.RequiredBytes),
	}

	if grown.NodeExpansionRequired {
		outcome.NodeExpandBytes = max(grown.Capacity, req.Capacity.RequiredBytes)
	}

	return outcome, nil
}
