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

// peers returns no peers while the configuration is not readable.
func (s statuses) peers(resp *structs.StatusPeersResponse) {
	servers, err := s.raft.Configuration()
	if err != nil {
		s.logger.Warn("the raft configuration cannot be read", "error", err)
	}
	for _, server := range servers {
		resp.Peers = append(resp.Peers, server.Address)
	}
}

func (s statuses) raftConfiguration(
	_ *state.ReadTx, _ *structs.QueryRequest, resp *structs.RaftConfigurationResponse,
) (err error) {
	resp.Servers, err = s.raft.Configuration()
	return err
}

func (s statuses) removePeer(
	ctx context.Context, req *structs.RaftRemovePeerRequest, _ *structs.Empty,
) (uint64, error) {
	if (req.ID == "") == (req.Address == "") {
		return 0, structs.Invalidf("removing a server: expected either its ID or its address")
	}
	return s.raft.RemovePeer(ctx, req.ID, req.Address)
}

func (s statuses) collectGarbage(
	ctx context.Context, _ *structs.WriteRequest, _ *structs.Empty,
) (uint64, error) {
	index, err := s.collect(ctx, s.raft)
	return max(index, s.store.Index()), err
}
