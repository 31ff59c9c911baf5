package outside

import (
	"context"

	"berth/rpc"
	"berth/structs"
	"berth/structs/identity"
)

// Signer has the servers sign the identities for logins. A login is rare, so no token is kept for another
// one.
type Signer struct {
	Region   string
	NodeID   string
	SecretID string
	Servers  rpc.Caller
}

// Identity implements Identities.
func (s *Signer) Identity(ctx context.Context, w identity.WantedIdentity) (structs.Secret, error) {
	req := &identity.SignRequest{
		Identities: []identity.WantedIdentity{w},
		NodeID:     s.NodeID,
		SecretID:   s.SecretID,
	}
	req.Region = s.Region
	resp, err := rpc.Call(ctx, s.Servers, identity.Sign, req)
	switch {
	case err != nil:
		return "", err
	case len(resp.Signed) != 1:
		return "", structs.Internalf("the servers answered without the identity %s", w.Name)
	case resp.Signed[0].Rejection != "":
		return "", structs.Preconditionf("the servers do not sign the identity %s: %s", w.Name,
			structs.Cut(resp.Signed[0].Rejection, structs.MaxReason))
	}
	return resp.Signed[0].JWT, nil
}
