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

// ping does nothing: an answer shows that the server is alive.
func (s statuses) ping(*structs.Empty) {}

// leader returns "" during an election.
func (s statuses) leader(resp *admin.StatusLeaderResponse) {
	resp.Leader, _, _, _ = s.Raft.Leader()
}

// peers lists the servers as the Raft configuration of this server has them, which may lag behind the
// leader's.
func (s statuses) peers(resp *admin.StatusPeersResponse) {
	for _, server := range s.Raft.Configuration() {
		resp.Peers = append(resp.Peers, server.Address)
	}
}

// raftConfiguration reads no row: the configuration is part of Raft, and not of the state.
func (s statuses) raftConfiguration(
	_ *state.ReadTx,
	_ *structs.QueryRequest,
	resp *admin.RaftConfigurationResponse,
) error {
	resp.Servers = s.Raft.Configuration()
	return nil
}

// removePeer rejects a request with an ID and an address: they could be of two servers.
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

// transferLeadership makes another server lead.
func (s statuses) transferLeadership(
	ctx context.Context,
	req *admin.RaftTransferRequest,
	_ *structs.Empty,
) (uint64, error) {
	if (req.ID == "") == (req.Address == "") {
		return 0, structs.Invalidf(
			"transferring the leadership: expected either the ID or the address of a server")
	}

	// No log entry belongs to it, so the index is that of the store.
	return s.Store.Index(), s.Raft.TransferLeadership(ctx, req.ID, req.Address)
}

// collectGarbage deletes what has ended. An operator orders it, so the age does not count.
func (s statuses) collectGarbage(
	ctx context.Context,
	_ *structs.WriteRequest,
	_ *structs.Empty,
) (uint64, error) {
	index, err := s.CollectGarbage(ctx, s.Raft)
	// Without a row to delete there is no entry, and the index is that of the store.
	return max(index, s.Store.Index()), err
}

// schedulerConfig returns the defaults while nobody has set a configuration.
func (statuses) schedulerConfig(
	tx *state.ReadTx,
	_ *structs.QueryRequest,
	resp *admin.SchedulerConfigResponse,
) error {
	resp.SchedulerConfig = state.SchedulerConfig(tx)
	return nil
}

// setSchedulerConfig stores a configuration, with CAS only if the stored one is still that of the request.
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
	// As in the dialect, a lost comparison is an answer and no error: its caller reads again.
	if req.CAS && structs.IsKind(err, structs.KindConflict) {
		return max(index, s.Store.Index()), nil // the answer says so
	}

	resp.Updated = err == nil
	return index, err
}
