package endpoints

import (
	"context"

	"berth/state"
	"berth/structs"
)

// statuses serve Status, Operator and System.
type statuses struct{ *Endpoints }

func (s statuses) ping(*structs.Empty) {}

func (s statuses) leader(resp *structs.StatusLeaderResponse) {
	resp.Leader, _, _, _ = s.raft.Leader()
}

func (s statuses) peers(resp *structs.StatusPeersResponse) {
	for _, server := range s.raft.Configuration() {
		resp.Peers = append(resp.Peers, server.Address)
	}
}

func (s statuses) raftConfiguration(
	_ *state.ReadTx,
	_ *structs.QueryRequest,
	resp *structs.RaftConfigurationResponse,
) error {
	resp.Servers = s.raft.Configuration()
	return nil
}

func (s statuses) removePeer(
	_ context.Context,
	req *structs.RaftRemovePeerRequest,
	_ *structs.Empty,
) (uint64, error) {
	if (req.ID == "") == (req.Address == "") {
		return 0, structs.Invalidf(
			"removing a server: expected either its ID or its address")
	}
	return s.raft.RemovePeer(req.ID, req.Address)
}

func (s statuses) collectGarbage(
	ctx context.Context,
	_ *structs.WriteRequest,
	_ *structs.Empty,
) (uint64, error) {
	index, err := s.collect(ctx, s.raft)
	return max(index, s.store.Index()), err
}
