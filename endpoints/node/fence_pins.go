package node

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// Pin changes the pins of a node. The text log names them without their values.
func (l Lost) Pin(
	ctx context.Context, req *cluster.NodeFencePinRequest, _ *structs.Empty,
) (uint64, error) {
	req.By = cmp.Or(req.By, "an operator")
	err := req.Validate()
	if err == nil && !req.Left {
		_, err = l.find(req.NodeID)
	}
	if err != nil {
		return 0, err
	}

	l.Logger.Info("operator changes the pins of a node",
		"node_id", req.NodeID,
		"by", req.By,
		"pins", strings.Join(slices.Sorted(maps.Keys(req.Pins)), " "),
		"removed", strings.Join(req.Remove, " "))
	return fsm.Propose(ctx, l.Raft, fsm.FencePins, req)
}

// Pins reads all pins, and warns of nodes that the devices of this server would not fence well.
func (l Lost) Pins(tx *state.ReadTx, _ *structs.QueryRequest, resp *cluster.NodeFencePinsResponse) error {
	resp.Pins = slices.AppendSeq([]*cluster.FencePin{}, state.FencePins(tx))
	if l.Fencing == nil {
		return nil
	}

	fault := func(t *state.FenceTarget) string {
		devices, others := l.Fencing.For(t, nil)
		if len(devices) > 0 || len(others) == 0 {
			return ""
		}
		return "no fence device matches it" + cluster.MismatchText(others)
	}
	for w := range state.FenceWarnings(tx, fault) {
		if len(resp.Warnings) == cluster.MaxFenceWarnings {
			resp.Unlisted++
			continue
		}
		resp.Warnings = append(resp.Warnings, w)
	}
	return nil
}
