package state_test

import (
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// TestCheck_FindsEachViolation breaks one invariant at a time, without the write functions.
func TestCheck_FindsEachViolation(t *testing.T) {
	claimRow := func(tx *state.WriteTx, alloc string) *structs.CSIClaim {
		return csi.Claim(tx.ReadTx, "default", "v", alloc).Copy()
	}
	attachmentRow := func(tx *state.WriteTx) *structs.CSIAttachment {
		return csi.Attachment(tx.ReadTx, "default", "v", "n1").Copy()
	}
	for says, violate := range map[string]func(*state.WriteTx){
		"granted although it conflicts with that of a1": func(tx *state.WriteTx) {
			c := claimRow(tx, "a2")
			c.State, c.GrantIndex = granted, tx.Index
			schema.Claims.Put(tx, c)
		},
		"no such volume":     func(tx *state.WriteTx) { schema.Volumes.Delete(tx, csi.Volume(tx.ReadTx, "default", "v")) },
		"no such allocation": func(tx *state.WriteTx) { schema.Allocs.Delete(tx, state.Alloc(tx.ReadTx, "a1")) },
		"it waits though the allocation is terminal": func(tx *state.WriteTx) {
			a := state.Alloc(tx.ReadTx, "a2").Copy()
			a.DesiredStatus = structs.AllocDesiredStop
			schema.Allocs.Put(tx, a)
		},
		"claims of volume default/v": func(tx *state.WriteTx) { schema.Claims.Delete(tx, claimRow(tx, "a1")) },
		"waits though it could be granted": func(tx *state.WriteTx) {
			csi.DropClaim(tx, claimRow(tx, "a1"))
			schema.Attachments.Delete(tx, attachmentRow(tx))
		},
		"no claim uses it": func(tx *state.WriteTx) { schema.Claims.Delete(tx, claimRow(tx, "a1")) },
		"detaching under a claim": func(tx *state.WriteTx) {
			a := attachmentRow(tx)
			a.State = structs.AttachmentDetaching
			schema.Attachments.Put(tx, a)
		},
		"has 2 attachments": func(tx *state.WriteTx) {
			a := attachmentRow(tx)
			a.NodeID = "n2"
			schema.Attachments.Put(tx, a)
		},
		"nothing refers to it": func(tx *state.WriteTx) { schema.Plugins.Put(tx, &structs.CSIPluginRow{ID: "stray"}) },
		"plugin p has no row":  func(tx *state.WriteTx) { schema.Plugins.Delete(tx, csi.Plugin(tx.ReadTx, "p")) },
		"the node is down": func(tx *state.WriteTx) {
			n := state.Node(tx.ReadTx, "n1").Copy()
			n.Status = structs.NodeDown
			schema.Nodes.Put(tx, n)
		},
		"names plugin instances []": func(tx *state.WriteTx) {
			n := state.ShallowCopy(state.Node(tx.ReadTx, "n1"))
			n.SetCSIInstances(nil)
			schema.Nodes.Put(tx, n)
		},
		"are both ext-v of plugin p": func(tx *state.WriteTx) {
			v := aVolume("second", "p")
			v.ExternalID, v.State = "ext-v", structs.VolumeReady
			schema.Volumes.Put(tx, v)
		},
		"version 0 of job j is gone": func(tx *state.WriteTx) {
			schema.JobVersions.Delete(tx, state.JobVersion(tx.ReadTx, "default", "j", 0))
		},
		"source of job default/gone: version 0 is gone": func(tx *state.WriteTx) {
			schema.JobSubmissions.Put(tx, &structs.JobSubmission{Namespace: "default", JobID: "gone"})
		},
		"a namespace has no name": func(tx *state.WriteTx) { schema.Namespaces.Put(tx, &cluster.Namespace{}) },
		`node pool "all": a built-in pool`: func(tx *state.WriteTx) {
			schema.NodePools.Put(tx, &cluster.NodePool{Name: structs.AllNodePools})
		},
		"is running and should be": func(tx *state.WriteTx) {
			j := aJob("idle", structs.JobService)
			j.Status = structs.JobRunning
			schema.Jobs.Put(tx, j)
			schema.JobVersions.Put(tx, j.Copy())
			schema.Evals.Put(tx, &structs.Evaluation{
				ID:        "e",
				JobID:     "idle",
				Namespace: "default",
				Status:    structs.EvalComplete,
			})
		},
		"missed the unblock of capacity": func(tx *state.WriteTx) {
			schema.Evals.Put(tx, &structs.Evaluation{
				ID:        "e",
				JobID:     "x",
				Status:    structs.EvalBlocked,
				BlockedOn: []string{structs.WakeCapacity},
			})
		},
		"allocation a1 has one of its devices": func(tx *state.WriteTx) {
			a := state.Alloc(tx.ReadTx, "a1").Copy()
			a.Devices = map[string][]*structs.AllocatedDeviceResource{"t": {{Type: "gpu", DeviceIDs: []string{"0"}}}}
			schema.Allocs.Put(tx, a)
			twin := a.Copy()
			twin.ID = "twin"
			schema.Allocs.Put(tx, twin)
		},
		"allocation a1: allocation twin has one of its ports": func(tx *state.WriteTx) {
			a := state.Alloc(tx.ReadTx, "a1").Copy()
			a.Ports = []structs.AllocatedPort{{Label: "x", Value: 80, HostIP: "10.0.0.1"}}
			schema.Allocs.Put(tx, a)
			twin := a.Copy()
			twin.ID = "twin"
			schema.Allocs.Put(tx, twin)
		},
		"use of node n1: counted {apart:0 all:{cpu:300": func(tx *state.WriteTx) {
			state.Alloc(tx, "a1").Resources = &structs.Resources{CPU: 200} // in place, which no writer may do
		},
		"allocations of evaluation {e1 default j}: counted 1, kept 0": func(tx *state.WriteTx) {
			a := state.Alloc(tx.ReadTx, "a1").Copy()
			a.EvalID = "e1"
			schema.Allocs.Put(tx, a)
			by := schema.PlacedBy{EvalID: "e1", Namespace: "default", JobID: "j"}
			schema.EvalAllocs.Delete(tx, &schema.EvalAllocsRow{PlacedBy: by})
		},
		"tokens of auth method ci: counted 1, kept 0": func(tx *state.WriteTx) {
			schema.ACLTokens.Put(tx, &access.Token{AccessorID: "t", AuthMethod: "ci"})
			schema.ACLMethodTokens.Delete(tx, &schema.MethodTokens{Method: "ci"})
		},
		"scaling events of group \"g\": job default/gone is gone": func(tx *state.WriteTx) {
			schema.ScalingEvents.Put(tx, &structs.ScalingEvents{Namespace: "default", JobID: "gone", Group: "g"})
		},
		"of job default/j: there are 0": func(tx *state.WriteTx) {
			schema.ScalingEvents.Put(tx, &structs.ScalingEvents{Namespace: "default", JobID: "j", Group: "g"})
		},
		"modified at 999": func(tx *state.WriteTx) {
			n := aNode("n9")
			schema.Nodes.Put(tx, n)
			n.ModifyIndex = 999
		},
	} {
		t.Run(says, func(t *testing.T) {
			w := threeNodes(t, true)
			w.Claim(aClaim("v", "a1", wr, snw), aClaim("v", "a2", wr, snw))
			if faults := state.Check(w.Store.Read()); faults != nil {
				t.Fatal(faults)
			}
			_ = w.Store.Write(w.Index+1, func(tx *state.WriteTx) error {
				violate(tx)
				return nil
			})
			if faults := strings.Join(state.Check(w.Store.Read()), "\n"); !strings.Contains(faults, says) {
				t.Errorf("got faults %q, want %q", faults, says)
			}
		})
	}
}
