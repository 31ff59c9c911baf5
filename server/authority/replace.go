package authority

import (
	"time"

	"berth/internal/pki"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

const (
	// newLife is the life of an authority that the servers make.
	newLife = 5 * 365 * 24 * time.Hour
	// crossLife is the life of a cross certificate: a day longer than the former authority is trusted.
	crossLife = trust.RenewWithin + 24*time.Hour
)

// Next makes the authority that replaces the one that signs. The error is precondition if a trusted one does
// not allow as many authorities below it.
func (s Signer) Next(region string) (*cluster.AuthorityRequest, error) {
	active, err := s.Active()
	if err != nil {
		return nil, err
	}

	if err := s.checkPaths(); err != nil {
		return nil, err
	}

	now := s.Now()
	next, cross, err := active.Replace(pki.Successor{
		Region: region,
		From:   now,
		Life:   newLife,
		Cross:  crossLife,
	})
	if err != nil {
		return nil, err
	}

	keyPEM, err := next.KeyPEM()
	if err != nil {
		return nil, err
	}

	id := pki.AuthorityID(next.Cert)

	// The key leaves this function in encrypted form only.
	sealed, err := s.Keys.Seal(cluster.AuthorityPlace(id), keyPEM)
	if err != nil {
		return nil, err
	}

	return &cluster.AuthorityRequest{
		ID:       id,
		CertPEM:  string(next.CertPEM()),
		Key:      sealed,
		FormerID: pki.AuthorityID(active.Cert),
		CrossPEM: string(cross),
		Now:      now.UnixNano(),
	}, nil
}

// checkPaths returns an error if a trusted authority does not allow another one below it.
func (s Signer) checkPaths() error {
	// A machine that trusts the oldest one verifies a chain with all that came after it, and the next one.
	for i, row := range s.trusted() {
		certs, err := pki.ParseCertificates([]byte(row.CertPEM))
		if err != nil {
			return structs.Internalf("the authority %s %w", row.ID, err)
		}

		if !pki.AllowsBelow(certs[0], i+1) {
			return structs.Preconditionf("the authority %s (%s) has the path length %d, and %d is needed: "+
				"its machines would reject the certificates of another one; begin with an authority "+
				"without a path length, as `berth tls init` makes it", row.ID, certs[0].Subject, certs[0].MaxPathLen, i+1)
		}
	}

	return nil
}
