package join

import (
	"context"

	"berth/fsm"
	"berth/internal/pki"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// Revoke revokes the certificates of a machine or an operator, or one certificate. Each server acts on it
// when it applies the entry.
func (s Signing) Revoke(
	ctx context.Context,
	req *cluster.CertificateRevokeRequest,
	resp *cluster.CertificateRevokeResponse,
) (uint64, error) {
	resp.ID = cluster.MachineRevocationID(req.Role, req.Name)
	if req.Serial != "" {
		serial, err := pki.ParseSerial(req.Serial)
		if err != nil {
			return 0, err
		}
		resp.ID = cluster.SerialRevocationID(serial)
	}
	return fsm.Propose(ctx, s.Leader, fsm.Revoke, req)
}

// ListRevocations lists the revocations, and the authorities that are trusted: nodes follow both.
func (s Signing) ListRevocations(
	tx *state.ReadTx, _ *structs.QueryRequest, resp *cluster.CertificateRevocationsResponse,
) error {
	resp.Revocations = []*cluster.Revocation{}
	for r := range trust.Revocations(tx) {
		resp.Revocations = append(resp.Revocations, r)
	}
	for _, a := range s.trustedBy(tx) {
		resp.Authorities = append(resp.Authorities, a.ID)
	}
	return nil
}

// CheckRevoked returns an error if a node is revoked and has not joined again since. Its connections are
// closed, too, but a server may take one for a moment longer than the leader.
func CheckRevoked(tx state.Reader, nodeID string) error {
	r := trust.ShutOut(tx, nodeID)
	if r == nil {
		return nil
	}
	return structs.Deniedf("node %s is revoked: join it again with a new token and a new key, or delete the "+
		"revocation with `berth tls unrevoke %s`", nodeID, r.ID)
}
