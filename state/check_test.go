package state

import (
	"fmt"
	"strings"
	"testing"

	"berth/structs"
)

// TestCheckSees breaks one invariant at a time behind the back of the write functions.
func TestCheckSees(t *testing.T) {
	claimRow := func(tx *Write, alloc string) *structs.CSIClaim { return Claim(tx.Read, "default", "v", alloc).Copy() }
	attachmentRow := func(tx *Write) *structs.CSIAttachment { return Attachment(tx.Read, "default", "v", "n1").Copy() }
	for says, harm := range map[string]func(*Write){
		"granted beside that of a1": func(tx *Write) {
			c := claimRow(tx, "a2")
			c.State, c.GrantIndex = granted, tx.Index
			claims.put(tx, c)
		},
		"no such volume":     func(tx *Write) { volumes.delete(tx, Volume(tx.Read, "default", "v")) },
		"no such allocation": func(tx *Write) { allocs.delete(tx, Alloc(tx.Read, "a1")) },
		"it waits though the allocation is terminal": func(tx *Write) {
			a := Alloc(tx.Read, "a2").Copy()
			a.DesiredStatus = structs.AllocDesiredStop
			allocs.put(tx, a)
		},
		"claims of volume default/v": func(tx *Write) { claims.delete(tx, claimRow(tx, "a1")) },
		"waits though it is its turn": func(tx *Write) {
			dropClaim(tx, claimRow(tx, "a1"))
			attachments.delete(tx, attachmentRow(tx))
		},
		"no claim uses it": func(tx *Write) { claims.delete(tx, claimRow(tx, "a1")) },
		"detaching under a claim": func(tx *Write) {
			a := attachmentRow(tx)
			a.State = structs.AttachmentDetaching
			attachments.put(tx, a)
		},
		"has 2 attachments": func(tx *Write) {
			a := attachmentRow(tx)
			a.NodeID = "n2"
			attachments.put(tx, a)
		},
		"nothing refers to it": func(tx *Write) { plugins.put(tx, &structs.CSIPluginRow{ID: "stray"}) },
		"plugin p has no row":  func(tx *Write) { plugins.delete(tx, Plugin(tx.Read, "p")) },
		"the node is down": func(tx *Write) {
			n := Node(tx.Read, "n1").Copy()
			n.Status = structs.NodeDown
			nodes.put(tx, n)
		},
		"names plugin instances []": func(tx *Write) {
			n := edited(Node(tx.Read, "n1"))
			n.SetCSIInstances(nil)
			nodes.put(tx, n)
		},
		"are both ext-v of plugin p": func(tx *Write) {
			v := aVolume("second", "p")
			v.ExternalID, v.State = "ext-v", structs.VolumeReady
			volumes.put(tx, v)
		},
		"version 0 of job j is gone": func(tx *Write) { jobVersions.delete(tx, JobVersion(tx.Read, "default", "j", 0)) },
		"is running and should be": func(tx *Write) {
			j := aJob("idle", structs.JobService)
			j.Status = structs.JobRunning
			jobs.put(tx, j)
			jobVersions.put(tx, j.Copy())
			evals.put(tx, &structs.Evaluation{ID: "e", JobID: "idle", Namespace: "default", Status: structs.EvalComplete})
		},
		"slept through the waking of capacity": func(tx *Write) {
			evals.put(tx, &structs.Evaluation{ID: "e", JobID: "x", Status: structs.EvalBlocked, BlockedOn: []string{structs.WakeCapacity}})
		},
		"modified at 999": func(tx *Write) {
			n := aNode("n9")
			nodes.put(tx, n)
			n.ModifyIndex = 999
		},
	} {
		t.Run(says, func(t *testing.T) {
			w := threeNodes(t, true)
			w.claim(aClaim("v", "a1", wr, snw), aClaim("v", "a2", wr, snw))
			if faults := Check(w.s.Read()); faults != nil {
				t.Fatal(faults)
			}
			_ = w.s.Write(w.index+1, func(tx *Write) error { harm(tx); return nil })
			if faults := strings.Join(Check(w.s.Read()), "\n"); !strings.Contains(faults, says) {
				t.Errorf("it sees %q", faults)
			}
		})
	}
}

// TestCheck_BoundsItsAnswer damages many rows, and one with a long name.
func TestCheck_BoundsItsAnswer(t *testing.T) {
	w := threeNodes(t, true)
	_ = w.s.Write(w.index+1, func(tx *Write) error {
		plugins.put(tx, &structs.CSIPluginRow{ID: strings.Repeat("long", 1000)})
		for i := range mostFaults + 6 {
			plugins.put(tx, &structs.CSIPluginRow{ID: fmt.Sprintf("stray%d", i)})
		}
		return nil
	})
	faults := Check(w.s.Read())
	if len(faults) != mostFaults+1 || faults[mostFaults] != "and 7 more" {
		t.Errorf("it describes %d faults, and then says %q", len(faults), faults[len(faults)-1])
	}
	for _, fault := range faults {
		if len(fault) > mostFaultBytes+len("…") {
			t.Errorf("a fault has %d bytes", len(fault))
		}
	}
}
