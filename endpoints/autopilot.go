package endpoints

import (
	"context"

	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/admin"
	"berth/structs/validate"
)

func (s statuses) raftStats(resp *admin.RaftStats) {
	*resp = s.Autopilot.Stats()
}

func (s statuses) health(context.Context, *structs.QueryRequest) (*admin.AutopilotHealthResponse, error) {
	return s.Autopilot.Health()
}

func (statuses) autopilotConfig(
	tx *state.ReadTx,
	_ *structs.QueryRequest,
	resp *admin.AutopilotConfigResponse,
) error {
	resp.Config = state.AutopilotConfig(tx)
	return nil
}

func (s statuses) setAutopilotConfig(
	ctx context.Context,
	req *admin.AutopilotConfigRequest,
	resp *admin.AutopilotConfigSetResponse,
) (uint64, error) {
	err := validate.AutopilotConfig(&req.Config)
	if err != nil {
		return 0, err
	}
	index, err := fsm.Propose(ctx, s.Raft, fsm.AutopilotConfigSet, req)
	if req.CAS && structs.IsKind(err, structs.KindConflict) {
		return max(index, s.Store.Index()), nil // the answer says so
	}
	resp.Updated = err == nil
	return index, err
}
