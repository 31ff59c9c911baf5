package endpoints

import (
	"context"

	"berth/endpoints/core"
	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/admin"
	"berth/structs/validate"
)

// statuses serve Status, Operator and System.
type statuses struct{ *core.Server }

func (s statuses) ping(*structs.Empty) {}

func (s statuses) leader(resp *admin.StatusLeaderResponse) {
	resp.Leader, _, _, _ = s.Raft.Leader()
}

func (s statuses) peers(resp *admin.StatusPeersResponse) {
	for _, server := range s.Raft.Configuration() {
		resp.Peers = append(resp.Peers, server.Address)
	}
}

func (s statuses) raftConfiguration(
	_ *state.ReadTx,
	_ *structs.QueryRequest,
	resp *admin.RaftConfigurationResponse,
) error {
	resp.Servers = s.Raft.Configuration()
	return nil
}

func (s statuses) removePeer(
	_ context.Context,
	req *admin.RaftRemovePeerRequest,
	_ *structs.Empty,
) (uint64, error) {
	if (req.ID == "") == (req.Address == "") {
		return 0, structs.Invalidf(
			"removing a server: expected either its ID or its address")
	}
	return s.Raft.RemovePeer(req.ID, req.Address)
}

func (s statuses) transferLeadership(
	ctx context.Context,
	req *admin.RaftTransferRequest,
	_ *structs.Empty,
) (uint64, error) {
	if (req.ID == "") == (req.Address == "") {
		return 0, structs.Invalidf(
			"transferring the leadership: expected either the ID or the address of a server")
	}
	return s.Store.Index(), s.Raft.TransferLeadership(ctx, req.ID, req.Address)
}

func (s statuses) collectGarbage(
	ctx context.Context,
	_ *structs.WriteRequest,
	_ *structs.Empty,
) (uint64, error) {
	index, err := s.CollectGarbage(ctx, s.Raft)
	return max(index, s.Store.Index()), err
}

func (statuses) schedulerConfig(
	tx *state.ReadTx,
	_ *structs.QueryRequest,
	resp *admin.SchedulerConfigResponse,
) error {
	resp.SchedulerConfig = state.SchedulerConfig(tx)
	return nil
}

func (s statuses) setSchedulerConfig(
	ctx context.Context,
	req *admin.SchedulerConfigRequest,
	resp *admin.SchedulerConfigSetResponse,
) (uint64, error) {
	req.Config.Canonicalize()
	err := validate.SchedulerConfig(&req.Config)
	if err != nil {
		return 0, err
	}
	index, err := fsm.Propose(ctx, s.Raft, fsm.SchedulerConfigSet, req)
	if req.CAS && structs.IsKind(err, structs.KindConflict) {
		return max(index, s.Store.Index()), nil // the answer says so
	}
	resp.Updated = err == nil
	return index, err
}
