package cluster

import (
	"context"

	"berth/endpoints/core"
	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate"
)

// Status serve Status, Operator and System.
type Status struct{ *core.Server }

// Ping does nothing: an answer shows that the server is alive.
func (s Status) Ping(*structs.Empty) {}

// Leader returns "" during an election.
func (s Status) Leader(resp *cluster.StatusLeaderResponse) {
	resp.Leader, _, _, _ = s.Raft.Leader()
}

// Peers lists the servers as the Raft configuration of this server has them, which may lag behind the
// Leader's.
func (s Status) Peers(resp *cluster.StatusPeersResponse) {
	for _, server := range s.Raft.Configuration() {
		resp.Peers = append(resp.Peers, server.Address)
	}
}

// RaftConfiguration reads no row: the configuration is part of Raft, and not of the state.
func (s Status) RaftConfiguration(
	_ *state.ReadTx,
	_ *structs.QueryRequest,
	resp *cluster.RaftConfigurationResponse,
) error {
	resp.Servers = s.Raft.Configuration()
	return nil
}

// RemovePeer rejects a request with an ID and an address: they could be of two servers.
func (s Status) RemovePeer(
	_ context.Context,
	req *cluster.RaftRemovePeerRequest,
	_ *structs.Empty,
) (uint64, error) {
	if (req.ID == "") == (req.Address == "") {
		return 0, structs.Invalidf(
			"removing a server: expected either its ID or its address")
	}
	return s.Raft.RemovePeer(req.ID, req.Address)
}

// TransferLeadership makes another server lead.
func (s Status) TransferLeadership(
	ctx context.Context,
	req *cluster.RaftTransferRequest,
	_ *structs.Empty,
) (uint64, error) {
	if (req.ID == "") == (req.Address == "") {
		return 0, structs.Invalidf(
			"transferring the leadership: expected either the ID or the address of a server")
	}

	// No log entry belongs to it, so the index is the store's.
	return s.Store.Index(), s.Raft.TransferLeadership(ctx, req.ID, req.Address)
}

// Collect deletes what has ended. An operator orders it, so the age does not count.
func (s Status) Collect(
	ctx context.Context,
	_ *structs.WriteRequest,
	_ *structs.Empty,
) (uint64, error) {
	index, err := s.CollectGarbage(ctx, s.Raft)
	// Without a row to delete there is no entry, and the index is the store's.
	return max(index, s.Store.Index()), err
}

// SchedulerConfig returns the defaults while nobody has set a configuration.
func (Status) SchedulerConfig(
	tx *state.ReadTx,
	_ *structs.QueryRequest,
	resp *cluster.SchedulerConfigResponse,
) error {
	resp.SchedulerConfig = state.SchedulerConfig(tx)
	return nil
}

// SetSchedulerConfig stores a configuration, with CAS only if the stored one still has its index.
func (s Status) SetSchedulerConfig(
	ctx context.Context,
	req *cluster.SchedulerConfigRequest,
	resp *cluster.SchedulerConfigSetResponse,
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
