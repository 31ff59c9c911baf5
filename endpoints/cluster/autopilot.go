package cluster

import (
	"context"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate"
)

// RaftStats is local: an operator compares the servers, so each answers for itself.
func (s Status) RaftStats(resp *cluster.RaftStats) {
	*resp = s.Autopilot.Stats()
	resp.Wall = time.Now().UnixNano()
}

// Health is known to the leader alone, which follows the other servers.
func (s Status) Health(context.Context, *structs.QueryRequest) (*cluster.AutopilotHealthResponse, error) {
	return s.Autopilot.Health()
}

// ReadClocks is known to the leader alone, which asks the other servers.
func (s Status) ReadClocks(ctx context.Context, _ *structs.QueryRequest) (*cluster.ClockResponse, error) {
	if s.Clocks == nil {
		return nil, structs.Unavailablef("this server does not lead")
	}
	return s.Clocks.ReadClocks(ctx), nil
}

// AcceptClock is the word of an operator that the clock of the leader is right.
func (s Status) AcceptClock(
	ctx context.Context,
	_ *cluster.ClockAcceptRequest,
	_ *structs.Empty,
) (uint64, error) {
	if s.Clocks == nil {
		return 0, structs.Unavailablef("this server does not lead")
	}
	return s.Clocks.AcceptClock(ctx)
}

// AutopilotConfig returns the defaults while nobody has set a configuration.
func (Status) AutopilotConfig(
	tx *state.ReadTx,
	_ *structs.QueryRequest,
	resp *cluster.AutopilotConfigResponse,
) error {
	resp.Config = state.AutopilotConfig(tx)
	return nil
}

// SetAutopilotConfig stores a configuration. With CAS it does so only if the index of the stored one is that
// of the request.
func (s Status) SetAutopilotConfig(
	ctx context.Context,
	req *cluster.AutopilotConfigRequest,
	resp *cluster.AutopilotConfigSetResponse,
) (uint64, error) {
	err := validate.AutopilotConfig(&req.Config)
	if err != nil {
		return 0, err
	}

	index, err := fsm.Propose(ctx, s.Raft, fsm.AutopilotConfigSet, req)
	// As in the dialect, a lost comparison is an answer and no error: its caller reads again.
	if req.CAS && structs.IsKind(err, structs.KindConflict) {
		return max(index, s.Store.Index()), nil // the answer says so
	}

	resp.Updated = err == nil
	return index, err
}
