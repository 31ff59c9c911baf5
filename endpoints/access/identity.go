package access

import (
	"cmp"
	"context"
	"time"

	"berth/fsm"
	"berth/internal/idtoken"
	"berth/internal/keyring"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
)

// Identities serves the methods about workload identities: it signs them for nodes and lists the public keys.
// Package rights takes them as tokens of requests.
type Identities struct {
	Store     *state.Store
	Raft      fsm.Proposer
	Region    string
	Issuer    string // of tokens, "" for none
	Algorithm string // of identities that are for others
	Now       func() time.Time
	signers   *signers
}

// NewIdentities returns the procedures of a server. keys open the private parts of the signing keys.
func NewIdentities(p Identities, keys *keyring.Ring) Identities {
	p.Algorithm = cmp.Or(p.Algorithm, idtoken.DefaultSettings().Algorithm)
	p.signers = &signers{ring: keys}
	return p
}

// Sign signs the identities that a node asks for. The rows of the leader decide, so it takes no request that
// would do with the rows of another server.
func (p Identities) Sign(ctx context.Context, req *access.SignRequest) (*access.SignResponse, error) {
	if req.AllowStale {
		return nil, structs.Invalidf("identities are signed by the leader: repeat the request without AllowStale")
	}
	if n := len(req.Identities); n > access.MaxSignedIdentities {
		return nil, structs.Invalidf("the request names %d identities; at most %d are allowed",
			n, access.MaxSignedIdentities)
	}

	tx := p.Store.Read()
	resp := &access.SignResponse{Signed: make([]access.SignedIdentity, 0, len(req.Identities))}
	for _, w := range req.Identities {
		if ctx.Err() != nil {
			return nil, structs.Timeoutf("signing identities: %w", ctx.Err())
		}

		signed := access.SignedIdentity{WantedIdentity: w}
		order, err := p.order(tx, req.NodeID, w)
		if err == nil {
			err = p.sign(tx, order, &signed)
		}
		// A later request may succeed, so the whole request fails and the node repeats it.
		if structs.IsKind(err, structs.KindUnavailable) || structs.IsKind(err, structs.KindInternal) {
			return nil, err
		}
		if err != nil {
			signed.Rejection = err.Error()
		}
		resp.Signed = append(resp.Signed, signed)
	}
	resp.Index = max(1, tx.Applied())
	return resp, nil
}

// sign signs the claims of an order. The error is unavailable while no key signs.
func (p Identities) sign(tx *state.ReadTx, o *signOrder, to *access.SignedIdentity) error {
	key := trust.ActiveSigningKey(tx, o.algorithm)
	if key == nil {
		return structs.Unavailablef("the cluster has no signing key of %s yet: the leader makes it once there is "+
			"a root key; see berth operator root keyring list", o.algorithm)
	}
	signer, err := p.signers.of(key)
	if err != nil {
		return err
	}
	token, err := signer.Sign(o.claims)
	if err != nil {
		return err
	}

	to.JWT = structs.Secret(token)
	if o.claims.Expiry != nil {
		to.Expiration = o.claims.Expiry.Time().UnixNano()
	}
	return nil
}

// Keys lists the public keys, the signing ones first.
func (p Identities) Keys(tx *state.ReadTx, _ *structs.QueryRequest, resp *access.KeysResponse) error {
	resp.Issuer = p.Issuer
	resp.PublicKeys = []access.PublicKey{}
	for _, active := range []bool{true, false} {
		for k := range trust.SigningKeys(tx) {
			if (k.State == access.KeyActive) == active {
				resp.PublicKeys = append(resp.PublicKeys, k.Public())
			}
		}
	}
	return nil
}
