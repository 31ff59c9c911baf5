package fsm

import (
	"berth/state"
	"berth/state/csi"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// draws has a function for each command whose payload fill cannot draw.
var draws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"NodeRegister": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return NodeRegister.Encode(&structs.NodeRegisterRequest{
			WriteOptions: d.now(),
			CSI:          d.instances(),
			Node: &structs.Node{
				ID:         d.node(),
				Attributes: map[string]string{"a": d.of("1", "2"), "b": "c"},
				NodeResources: &structs.NodeResources{
					CPU:     structs.NodeCPUResources{CpuShares: 30},
					Devices: d.deviceGroups(),

					NodeNetworks: d.networks(),
				},
			},
		})
	},
	"JobDispatch": func(d dice, tx *state.ReadTx) ([]byte, error) {
		parent := d.job()
		return JobDispatch.Encode(&structs.JobDispatchRequest{
			JobID:            parent,
			JobModifyIndex:   d.modifyIndex(tx, parent),
			IdempotencyToken: d.of("", "t"),
			Child:            d.child(parent),
			Eval:             d.eval(),
			WriteOptions:     d.now(),
		})
	},
	"PeriodicLaunch": func(d dice, tx *state.ReadTx) ([]byte, error) {
		parent := d.job()
		p := &structs.PeriodicLaunchRequest{
			ParentID:       parent,
			JobModifyIndex: d.modifyIndex(tx, parent),
			Launch:         int64(d.upTo(100)),
			WriteOptions:   d.now(),
		}
		if d.flip() {
			p.Child = d.child(parent)
			p.Eval = d.eval()
		}
		return PeriodicLaunch.Encode(p)
	},
	"NodeStatus": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return NodeStatus.Encode(&structs.NodeStatusUpdate{
			NodeIDs:      []string{d.node(), d.node()},
			Status:       d.of("ready", "down"),
			Event:        &structs.NodeEvent{Message: "m", Details: map[string]string{"a": "b", "c": "d"}},
			WriteOptions: d.now(),
		})
	},
	"FenceBegin": func(d dice, tx *state.ReadTx) ([]byte, error) {
		node, number := d.fenced(tx)
		p := &cluster.FenceBeginRequest{
			NodeID:  node,
			Number:  number + 1,
			Attempt: d.upTo(3),
			Device:  d.of("ipmi", "san"),
			Scope:   d.of(cluster.FencePower, cluster.FenceStorage),
			Now:     d.now().Now,
		}
		if n := state.Node(tx, node); n != nil {
			p.Epoch = n.Epoch
		}
		return FenceBegin.Encode(p)
	},
	"FenceEnd": func(d dice, tx *state.ReadTx) ([]byte, error) {
		node, number := d.fenced(tx)
		return FenceEnd.Encode(&cluster.FenceEndRequest{
			NodeID:  node,
			Number:  number,
			Proved:  d.flip(),
			NextTry: int64(d.upTo(2)),
			Covered: []structs.CSIClaimKey{{Namespace: "default", VolumeID: d.vol(), AllocID: d.alloc()}},
			Now:     d.now().Now,
		})
	},
	"FenceOrdered": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return FenceOrdered.Encode(&cluster.NodeFenceRequest{NodeID: d.node(), By: "ann", WriteOptions: d.now()})
	},
	"FencePins": func(d dice, _ *state.ReadTx) ([]byte, error) {
		p := &cluster.NodeFencePinRequest{
			NodeID:       d.node(),
			Pins:         map[string]string{d.of("bmc", "plug", "not valid"): d.of("a", "b"), "vmid": "7"},
			By:           "ann",
			WriteOptions: d.now(),
		}
		if d.flip() {
			p.Pins = nil
			p.Remove = []string{d.of("bmc", "plug")}
		}
		return FencePins.Encode(p)
	},
	"ConfirmLost": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return ConfirmLost.Encode(&cluster.NodeFenceRequest{
			NodeID: d.node(), By: "ann", Why: "it is off", WriteOptions: d.now(),
		})
	},
	"LeaseProof": func(d dice, tx *state.ReadTx) ([]byte, error) {
		p := &cluster.LeaseProofRequest{NodeID: d.node(), Now: d.now().Now}
		if n := state.Node(tx, p.NodeID); n != nil {
			p.Epoch = n.Epoch
		}
		return LeaseProof.Encode(p)
	},
	"PluginConfigSet": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return PluginConfigSet.Encode(&storage.PluginSettingsRequest{
			ID:          "p",
			OnNodeLoss:  d.of("", structs.LossHold, structs.LossFence, structs.LossLease),
			SecretsFrom: d.of("", "nomad/volumes/{namespace}/{id}"),
			PluginCalls: storage.PluginCalls{CallsInFlight: len(d.of("", "2"))},
		})
	},
	"RootKeyAdd": func(d dice, tx *state.ReadTx) ([]byte, error) {
		id := d.of("k1", "k2", "k3")
		p := &cluster.RootKeyAddRequest{
			KeyID:   id,
			Wrapped: []byte{1},
			KEK:     "kek",
			Digest:  []byte(id),
			Full:    d.flip(),
			Now:     d.now().Now,
		}
		if k := trust.ActiveRootKey(tx); k != nil {
			p.Was = k.KeyID
		}
		return RootKeyAdd.Encode(p)
	},
	"RootKeyRekeyed": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return RootKeyRekeyed.Encode(&cluster.RootKeyRekeyedRequest{KeyID: d.of("k1", "k2", "k3")})
	},
	"RootKeyRewrap": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return RootKeyRewrap.Encode(&cluster.RootKeyRewrapRequest{
			KeyID:   d.of("k1", "k2", "k3"),
			Was:     d.of("kek", "kek2"),
			KEK:     d.of("kek", "kek2"),
			Wrapped: []byte(d.of("w1", "w2")),
		})
	},
	"RootKeyRemove": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return RootKeyRemove.Encode(&cluster.RootKeyRemoveRequest{KeyID: d.of("k1", "k2", "k3")})
	},
	"Reseal": func(d dice, tx *state.ReadTx) ([]byte, error) {
		p := &cluster.ResealRequest{}
		for v := range trust.SealedValues(tx) {
			p.Values = append(p.Values, cluster.ResealedValue{
				Table: v.Table,
				Key:   v.Key,
				Place: v.Place,
				Was:   trust.SealedDigest(v.Value),
				Value: structs.Sealed{KeyID: d.of("k1", "k2", "k3"), Data: []byte{byte(d.upTo(3))}},
			})
		}
		return Reseal.Encode(p)
	},
	"VariablePut": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return VariablePut.Encode(d.variable())
	},
	"VariableDelete": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return VariableDelete.Encode(d.variable())
	},
	"VariableLock": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return VariableLock.Encode(d.variable())
	},
	"VariableUnlock": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return VariableUnlock.Encode(d.variable())
	},
	"VariableLockExpire": func(d dice, _ *state.ReadTx) ([]byte, error) {
		p := d.variable()
		return VariableLockExpire.Encode(&access.VariableExpiry{
			Namespace: p.Namespace,
			Path:      p.Path,
			LockID:    d.of("one", "two"),
			DelayOver: d.flip(),
		})
	},
	"AuthoritySet":          drawAuthority,
	"JoinTokenPut":          drawJoinToken,
	"JoinTokenDelete":       drawJoinTokenDelete,
	"MachineCertificateSet": drawCertificate,
	"Revoke":                drawRevocation,
	"Unrevoke":              drawUnrevocation,
	"AuthorityRemove":       drawAuthorityRemoval,
	"NodeEligibility": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return NodeEligibility.Encode(&structs.NodeEligibilityRequest{
			NodeID:       d.node(),
			Eligibility:  d.of("eligible", "ineligible"),
			WriteOptions: d.now(),
		})
	},
	"NodeUpdateCSI": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return NodeUpdateCSI.Encode(&structs.NodeUpdateCSIRequest{
			NodeID:       d.node(),
			Upserts:      d.instances(),
			Full:         d.flip(),
			WriteOptions: d.now(),
			Removes: []structs.CSIInstanceKey{{
				PluginID: "p",
				Kind:     structs.CSIKind(d.of("node", "controller")),
			}},
		})
	},
	"NodeEvents": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return NodeEvents.Encode(&structs.NodeEventsRequest{
			Events: map[string][]*structs.NodeEvent{
				"n1": {{Message: "a"}, nil},
				"n2": {{Message: "b"}},
			},
		})
	},
	"JobRegister": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return JobRegister.Encode(&structs.JobRegisterRequest{
			Job:          d.jobSpec(),
			Eval:         d.eval(),
			Submission:   d.submission(),
			EnforceIndex: d.flip(),
			Scaling:      d.scaling(),
			WriteOptions: d.now(),
		})
	},
	"JobScalingEvent": func(d dice, _ *state.ReadTx) ([]byte, error) {
		p := &structs.JobScalingEventRequest{JobID: d.job(), WriteOptions: d.now()}
		if s := d.scaling(); s != nil {
			p.GroupScalingEvent = *s
		}
		return JobScalingEvent.Encode(p)
	},
	"SchedulerConfigSet": func(d dice, tx *state.ReadTx) ([]byte, error) {
		p := &cluster.SchedulerConfigRequest{CAS: d.flip(), WriteOptions: d.now()}
		p.Config.SchedulerAlgorithm = d.of("", "binpack", "spread", "other")
		p.Config.PauseEvalBroker = d.flip()
		if d.flip() {
			p.Config.ModifyIndex = state.SchedulerConfig(tx).ModifyIndex
		}
		return SchedulerConfigSet.Encode(p)
	},
	"AutopilotConfigSet": func(d dice, tx *state.ReadTx) ([]byte, error) {
		p := &cluster.AutopilotConfigRequest{CAS: d.flip(), WriteOptions: d.now()}
		p.Config = cluster.DefaultAutopilotConfig()
		p.Config.CleanupDeadServers = d.flip()
		if d.flip() {
			p.Config.MostVoters = 5
		}
		if d.flip() {
			p.Config.ModifyIndex = state.AutopilotConfig(tx).ModifyIndex
		}
		return AutopilotConfigSet.Encode(p)
	},
	"EvalUpdate": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return EvalUpdate.Encode(&structs.EvalUpdateRequest{
			Evals:        []*structs.Evaluation{d.eval(), d.eval()},
			WriteOptions: d.now(),
		})
	},
	"PlanApply": func(d dice, tx *state.ReadTx) ([]byte, error) {
		return PlanApply.Encode(d.plan(tx))
	},
	"AllocsClientUpdate": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return AllocsClientUpdate.Encode(&structs.AllocsClientUpdateRequest{
			WriteOptions: d.now(),
			Allocs: []*structs.AllocClientUpdate{
				{
					ID:           d.alloc(),
					ClientStatus: d.of("running", "complete", "failed"),
					TaskStates: map[string]*structs.TaskState{
						"t": {
							State:  "dead",
							Events: []*structs.TaskEvent{{Type: "x", Details: map[string]string{"a": "b"}}},
						},
						"u": {},
					},
				},
				{
					ID:               d.alloc(),
					ClientStatus:     d.of("running", "complete"),
					DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: new(true)},
					Services: []*structs.ServiceInstance{
						{ID: d.of("i", "j"), ServiceName: "web", Status: d.of("", structs.CheckFailing)},
						{ID: d.of("i", "j"), ServiceName: "api"},
						nil,
					},
				},
			},
		})
	},
	"Reap": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return Reap.Encode(&structs.ReapRequest{
			Evals:        []string{d.evalID()},
			Allocs:       []string{d.alloc(), d.alloc()},
			Nodes:        []string{d.node()},
			Jobs:         []structs.JobKey{{Namespace: "default", ID: d.job()}},
			WriteOptions: d.now(),
		})
	},
	"VolumePut": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return VolumePut.Encode(&structs.CSIVolumeRegisterRequest{
			Volumes:      []*structs.CSIVolume{d.volume()},
			WriteOptions: d.now(),
		})
	},
	"VolumeOutcome": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return VolumeOutcome.Encode(&structs.CSIVolumeOutcome{
			ID:           d.vol(),
			Op:           d.of("create", "delete", "expand"),
			ExternalID:   d.of("x", "y"),
			Capacity:     int64(d.upTo(9)),
			Err:          d.failure(),
			Final:        d.flip(),
			WriteOptions: d.now(),
		})
	},
	"VolumeClaim": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return VolumeClaim.Encode(&structs.CSIVolumeClaimRequest{Claims: d.claims(), WriteOptions: d.now()})
	},
	"VolumeUnpublish": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return VolumeUnpublish.Encode(&structs.CSIVolumeUnpublishRequest{
			Claims:       []structs.CSIClaimKey{{VolumeID: d.vol(), AllocID: d.alloc()}},
			WriteOptions: d.now(),
		})
	},
	"AttachmentOutcome": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return AttachmentOutcome.Encode(&structs.CSIAttachmentOutcome{
			VolumeID:       d.vol(),
			NodeID:         d.node(),
			Op:             d.of("attach", "detach"),
			PublishContext: structs.Secrets{"a": "b", "c": "d"},
			Err:            d.failure(),
			WriteOptions:   d.now(),
		})
	},
	"AttachmentsFound": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return AttachmentsFound.Encode(&structs.CSIAttachmentsFound{
			WriteOptions: d.now(),
			Attachments: []*structs.CSIAttachment{{
				Namespace:      structs.DefaultNamespace,
				VolumeID:       d.vol(),
				NodeID:         d.node(),
				ExternalNodeID: d.of("", "external"),
			}},
		})
	},
	"VolumeForce": func(d dice, tx *state.ReadTx) ([]byte, error) {
		req := &structs.CSIVolumeForceRequest{
			VolumeID:     d.vol(),
			NodeID:       d.node(),
			What:         "w",
			By:           "b",
			Reason:       "r",
			WriteOptions: d.now(),
		}
		if d.flip() {
			req.Claims = []structs.CSIClaimKey{{VolumeID: req.VolumeID, AllocID: d.alloc()}}
		}
		if a := csi.Attachment(tx, "default", req.VolumeID, req.NodeID); a != nil && d.flip() {
			req.Attachment = a.CreateIndex
		}
		return VolumeForce.Encode(req)
	},
	"CallNote": func(d dice, tx *state.ReadTx) ([]byte, error) {
		note := &structs.CSICallNote{
			VolumeID:     d.vol(),
			NodeID:       d.node(),
			WriteOptions: d.now(),
		}
		note.Call = &structs.CSICall{
			NodeID: d.node(),
			Op:     d.of("attach", "detach"),
			Time:   3,
		}
		if a := csi.Attachment(tx, "default", note.VolumeID, note.NodeID); a != nil {
			note.RowIndex = a.CreateIndex
		}
		if c := csi.Claim(tx, "default", note.VolumeID, d.alloc()); c != nil && d.flip() {
			note.AllocID, note.RowIndex = c.AllocID, c.CreateIndex
			note.Err = &structs.OperationError{Message: "busy", Attempts: 1}
		}
		if v := csi.Volume(tx, "default", note.VolumeID); v != nil && d.flip() {
			note.NodeID = ""
			note.AllocID = ""
			note.RowIndex = v.CreateIndex
		}
		return CallNote.Encode(note)
	},
}

// scaling returns an event of a group, or nil.
func (d dice) scaling() *structs.GroupScalingEvent {
	if d.flip() {
		return nil
	}
	e := &structs.ScalingEvent{Time: int64(d.upTo(9)), Error: d.flip(), Message: d.of("", "m")}
	if d.flip() {
		e.Count = new(int64(d.upTo(9)))
		e.Meta = map[string]any{"k": []any{"v", 1.5}}
	}
	return &structs.GroupScalingEvent{Group: d.of("g", "h"), Event: e}
}

// variable returns a write of one of a few variables, by one of a few holders or by nobody.
func (d dice) variable() *access.VariableChange {
	p := &access.VariableChange{
		Namespace: "default",
		Path:      d.of("a", "nomad/jobs/a"),
		Now:       d.now().Now,
	}
	if d.flip() {
		p.Sealed = &structs.Sealed{KeyID: d.of("k1", "k2", "k3"), Data: []byte(d.of("x", "y"))}
	}
	if d.flip() {
		p.Lock = &access.VariableLock{ID: d.of("one", "two"), TTL: 15e9, LockDelay: 15e9}
	}
	return p
}
