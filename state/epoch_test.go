package state_test

import (
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

func inEpoch(epoch uint64) structs.NodeEpoch { return structs.NodeEpoch{Epoch: epoch} }

// A call that a node sent before its loss may arrive after its return. Others may have its work by then.
func TestEpoch_ALateCallIsRejected(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	early := w.Epoch("n1")
	w.Status(structs.NodeDown, "n1")
	w.Status(structs.NodeReady, "n1")
	now := w.Epoch("n1")

	const secret = "secret-n1"
	calls := map[string]func(epoch uint64) error{
		"claim": func(epoch uint64) error {
			return try(w, csi.VolumeClaim,
				&structs.CSIVolumeClaimRequest{NodeID: "n1", SecretID: secret, NodeEpoch: inEpoch(epoch)})
		},
		"unpublish": func(epoch uint64) error {
			return try(w, state.VolumeUnpublish,
				&structs.CSIVolumeUnpublishRequest{NodeID: "n1", SecretID: secret, NodeEpoch: inEpoch(epoch)})
		},
		"expansion": func(epoch uint64) error {
			return try(w, csi.NodeExpanded,
				&structs.CSINodeExpandOutcome{NodeID: "n1", SecretID: secret, NodeEpoch: inEpoch(epoch)})
		},
		"allocations": func(epoch uint64) error {
			return try(w, state.AllocsClientUpdate,
				&structs.AllocsClientUpdateRequest{NodeID: "n1", SecretID: secret, NodeEpoch: inEpoch(epoch)})
		},
		"plugins": func(epoch uint64) error {
			return try(w, state.NodeUpdateCSI,
				&structs.NodeUpdateCSIRequest{NodeID: "n1", SecretID: secret, NodeEpoch: inEpoch(epoch)})
		},
		"leave": func(epoch uint64) error {
			return try(w, state.NodeLeave,
				&structs.NodeLeaveRequest{NodeID: "n1", SecretID: secret, NodeEpoch: inEpoch(epoch)})
		},
	}
	for name, call := range calls {
		for epoch, want := range map[uint64]structs.Cause{
			early:     structs.CauseStaleEpoch,
			now:       "",
			now + 100: "", // the servers were restored to an older state
			0:         "", // the node knows no epochs
		} {
			err := call(epoch)
			if structs.CauseOf(err) != want || want == "" && err != nil {
				t.Errorf("%s of epoch %d, and the node has %d: %v, want the cause %q", name, epoch, now, err, want)
			}
		}
	}
}

// Until it is back, a node that is down may report: nothing of it is new to others.
func TestEpoch_ALostNodeMayReport(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	epoch := w.Epoch("n1")
	w.Status(structs.NodeDown, "n1")
	do(w, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{NodeID: "n1", NodeEpoch: inEpoch(epoch)})
}
