package join

import (
	"context"
	"slices"
	"time"

	"berth/fsm"
	"berth/internal/pki"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// ReplaceAuthority makes a new authority, which signs once the log has it. The machines follow by themselves.
func (s Signing) ReplaceAuthority(
	ctx context.Context,
	_ *structs.WriteRequest,
	resp *cluster.AuthorityReplaceResponse,
) (uint64, error) {
	next, err := s.Next(s.Region)
	if err != nil {
		return 0, err
	}
	resp.ID = next.ID
	resp.FormerID = next.FormerID
	resp.TrustedUntil = next.Now + int64(trust.RenewWithin)
	return fsm.Propose(ctx, s.Leader, fsm.AuthoritySet, next)
}

// RemoveAuthority ends the trust in a retired authority.
func (s Signing) RemoveAuthority(
	ctx context.Context,
	req *cluster.AuthorityRemoveRequest,
	resp *cluster.AuthorityRemoveResponse,
) (uint64, error) {
	resp.JoinTokens = len(trust.TokensOfAuthority(s.Store.Read(), req.ID))
	return fsm.Propose(ctx, s.Leader, fsm.AuthorityRemove, req)
}

// ListAuthorities lists the authorities that are trusted, without their keys.
func (s Signing) ListAuthorities(
	tx *state.ReadTx, _ *structs.QueryRequest, resp *cluster.AuthorityListResponse,
) error {
	resp.Authorities = []*cluster.AuthorityStub{}
	for _, a := range s.trustedBy(tx) {
		certs, err := pki.ParseCertificates([]byte(a.CertPEM))
		if err != nil {
			return structs.Internalf("the authority %s %w", a.ID, err)
		}
		end := certs[0].NotAfter
		retires := time.Unix(0, a.RetireTime).Add(trust.RenewWithin)
		if a.RetireTime != 0 && retires.Before(end) {
			end = retires
		}
		resp.Authorities = append(resp.Authorities, &cluster.AuthorityStub{
			ID:           a.ID,
			Subject:      certs[0].Subject.String(),
			CertPEM:      a.CertPEM,
			CreateTime:   a.CreateTime,
			RetireTime:   a.RetireTime,
			TrustedUntil: end.UnixNano(),
		})
	}
	return nil
}

// trustedBy returns the authorities of a snapshot that are trusted now, the one that signs first.
func (s Signing) trustedBy(tx *state.ReadTx) []*cluster.Authority {
	return trust.TrustedAuthorities(slices.Collect(trust.Authorities(tx)), s.Now().UnixNano())
}
