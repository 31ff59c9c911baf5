package join

import (
	"cmp"
	"context"

	"berth/internal/pki"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate/field"
)

// SignOperator signs the certificate of an operator. No row records it: a revocation names the operator, or
// the serial number, which the log has.
func (s Signing) SignOperator(
	_ context.Context,
	req *cluster.OperatorCertificateRequest,
	resp *cluster.OperatorCertificateResponse,
) (uint64, error) {
	csr, err := s.checkOperator(req)
	if err != nil {
		return 0, err
	}
	// No entry of the log fails on a former leader, whose rows may have a removed authority and lack a
	// revocation.
	err = s.Leader.VerifyLeader()
	if err != nil {
		return 0, err
	}
	err = checkOperatorRevoked(s.Store.Read(), csr.Identity.ID)
	if err != nil {
		return 0, err
	}
	signed, err := s.Signer.SignRequest(csr.Public, pki.Request{
		Identity: csr.Identity,
		Life:     cmp.Or(req.TTL, cluster.OperatorLife),
	})
	if err != nil {
		return 0, err
	}
	s.Logger.Info("signed the certificate of an operator", "identity", csr.Identity.String(),
		"serial", signed.Serial, "end", signed.End.UTC(), "caller", req.Operator)
	resp.Certificate = string(signed.PEM)
	resp.Authorities = s.Trusted()
	resp.Serial = signed.Serial
	resp.NotAfter = signed.End.UnixNano()
	return s.Store.Index(), nil
}

// checkOperator returns the signing request of an operator who may have the certificate: root may ask for any
// operator, and an operator for itself.
func (s Signing) checkOperator(req *cluster.OperatorCertificateRequest) (pki.CSR, error) {
	f := field.New("the certificate of an operator")
	f.Require(req.TTL >= 0 && req.TTL <= cluster.MaxOperatorLife,
		"TTL is %s; expected at most %s", req.TTL, cluster.MaxOperatorLife)
	err := f.Err()
	if err != nil {
		return pki.CSR{}, err
	}
	csr, err := pki.ParseCSR(req.CSR)
	if err != nil {
		return csr, err
	}
	id := csr.Identity
	switch {
	case id.Region != s.Region:
		return csr, structs.Deniedf("%s is of another region; this is region %q", id, s.Region)
	case id.Role != pki.RoleOperator:
		return csr, structs.Deniedf("%s: expected the identity of an operator; machines join with a token", id)
	case req.Operator != cluster.OperatorRoot && req.Operator != id.String():
		return csr, structs.Deniedf("the caller is %q, and the signing request is of %s: an operator gets a "+
			"certificate of its own name, and root gets one of each name over the operator socket of a server",
			structs.Cut(req.Operator, structs.MaxQuoted), id)
	case req.Operator != cluster.OperatorRoot && req.TTL > cluster.OperatorLife:
		return csr, structs.Deniedf("TTL is %s; an operator gets at most %s for itself: ask for less, or as root "+
			"over the operator socket of a server", req.TTL, cluster.OperatorLife)
	}
	return csr, nil
}

// checkOperatorRevoked returns an error if an operator is revoked. A server that forwards its request may
// have taken its connection a moment longer than the leader, and a certificate that root gets for it would be
// useless.
func checkOperatorRevoked(tx state.Reader, name string) error {
	r := trust.Revoked(tx, cluster.CertificateRef{Role: cluster.RevokeOperator, ID: name})
	if r == nil {
		return nil
	}
	return structs.Deniedf("the operator %s is revoked: take another name, or delete the revocation with "+
		"`berth tls unrevoke %s`", name, r.ID)
}
