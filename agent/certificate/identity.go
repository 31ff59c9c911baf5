package certificate

import (
	"context"

	"berth/api"
	"berth/internal/pki"
	"berth/structs"
)

// Order asks for the certificate of the agent of a node.
type Order struct {
	NodeID string
	Renews bool // the agent renews its certificate: see peertls.Config.Renew
	Renew  bool // before the answer
}

// Identity describes the certificate of the agent. With Renew it has another one signed first, although none
// is due.
func (r Renewer) Identity(ctx context.Context, o Order) (*api.NodeIdentity, error) {
	switch {
	case r.Keys == nil:
		return nil, structs.Preconditionf("this agent has no TLS certificate, so its node proves no identity; " +
			"set tls { mode = \"require\" }, and join with a token of `berth node intro create` " +
			"(docs/operations/tls.md)")
	case o.Renew && !o.Renews:
		return nil, structs.Preconditionf("the servers do not renew the certificate of this agent " +
			"(tls { renew = true } lets them); put the next one into its cert_file, which the agent reads " +
			"within seconds (docs/operations/certificates.md)")
	case o.Renew:
		err := r.renew(ctx)
		r.Keys.NoteRenewal(err)
		if err != nil {
			return nil, err
		}
		r.Logger.Info("renewed the TLS certificate by request", "expires", r.Keys.Expires())
	}

	leaf := r.Keys.Certificate()
	claims := api.IdentityClaims{
		Subject:   r.Keys.Identity().String(),
		Issuer:    leaf.Issuer.String(),
		Serial:    pki.Serial(leaf),
		NotBefore: leaf.NotBefore.Unix(),
		Expires:   leaf.NotAfter.Unix(),
		NodeID:    o.NodeID,
		Names:     append([]string{}, leaf.DNSNames...),
	}
	for _, ip := range leaf.IPAddresses {
		claims.Names = append(claims.Names, ip.String())
	}
	if o.Renews {
		claims.RenewAt = r.Keys.RenewAt().Unix()
	}
	if fault := r.Keys.RenewalFault(); fault != nil {
		claims.RenewalFault = fault.Error()
	}
	return &api.NodeIdentity{Claims: claims}, nil
}
