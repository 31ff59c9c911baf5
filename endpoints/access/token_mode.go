package access

import (
	"context"
	"slices"

	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// Mode reads the modes of access control of the cluster and of this server.
func (p Tokens) Mode(tx *state.ReadTx, _ *access.ModeGetRequest, resp *access.ModeGetResponse) error {
	resp.Mode, _ = state.ACLMode(tx)
	resp.Server = p.Name
	resp.Here = p.Gate.Mode()
	return nil
}

// SetMode stores the mode of the cluster. A looser one than the configuration of a server is rejected: that
// server would tighten it again at once.
func (p Tokens) SetMode(
	ctx context.Context, req *access.ModeSetRequest, _ *structs.Empty,
) (uint64, error) {
	if !slices.Contains(access.Modes, req.Mode) {
		return 0, structs.Invalidf("the mode is %q; expected off, log or enforce",
			structs.Cut(req.Mode, structs.MaxQuoted))
	}
	if req.Mode != access.ModeOff && state.ACLBootstrapped(p.Store.Read()) == 0 {
		return 0, structs.Preconditionf("there is no token yet, so nobody could call the cluster: " +
			"make the first one with berth acl bootstrap")
	}
	for _, s := range p.Servers() {
		if access.StricterMode(req.Mode, s.Mode) != req.Mode {
			return 0, structs.Preconditionf("the configuration of server %s has the acl mode %s: change its acl "+
				"block first, and restart that server", s.Name, s.Mode)
		}
	}
	change := &access.ModeChange{Mode: req.Mode, Loosen: true}
	return fsm.Propose(ctx, p.Raft, fsm.ACLMode, change)
}
