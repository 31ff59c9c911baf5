package access

import (
	"context"

	"berth/fsm"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// RemoveKey deletes a root key that no secret needs, or a signing key that does not sign any more. The
// tokens of a removed signing key are denied from then on. The error is precondition for a key in use.
func (p Identities) RemoveKey(
	ctx context.Context, req *cluster.RootKeyRemoveRequest, _ *structs.Empty,
) (uint64, error) {
	k := trust.SigningKey(p.Store.Read(), req.KeyID)
	if k == nil {
		return fsm.Propose(ctx, p.Raft, fsm.RootKeyRemove, req)
	}
	if k.State == access.KeyActive {
		return 0, structs.Preconditionf("signing key %s signs identities; make another one first: "+
			"berth operator root keyring rotate, and wait for %s", k.KeyID, access.KeyPublishTime)
	}
	return fsm.Propose(ctx, p.Raft, fsm.SigningKeyRemove, &access.KeyRemoveRequest{KeyID: k.KeyID})
}
