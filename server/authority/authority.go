// Package authority signs the certificates of the machines of the cluster. The key of the authority is a row,
// encrypted with a root key, so that each server can sign.
//
// Each call reads the rows and decrypts the key anew. So another authority signs from the entry on that makes
// it the active one, on every server that has applied it, and no plain key stays in memory between calls.
package authority

import (
	"crypto"
	"slices"
	"strings"
	"time"

	"berth/internal/keyring"
	"berth/internal/pki"
	"berth/state"
	"berth/state/clustertime"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// Life is the life of a certificate that the servers sign.
const Life = pki.MachineLife

// Signer signs with the authority of the rows.
type Signer struct {
	Rows func() []*cluster.Authority
	Keys *keyring.Ring
	Now  func() time.Time
	// Agreed returns the time an hour before which a certificate begins at the latest: see AgreedOf. nil: Now.
	Agreed func() time.Time
}

// RowsOf returns the function that reads the authorities of a store.
func RowsOf(store *state.Store) func() []*cluster.Authority {
	return func() []*cluster.Authority { return slices.Collect(trust.Authorities(store.Read())) }
}

// AgreedOf returns the function that reads the earlier one of a clock and the cluster time of a store.
func AgreedOf(store *state.Store, now func() time.Time) func() time.Time {
	return func() time.Time { return time.Unix(0, clustertime.Earlier(store.Read(), now().UnixNano())) }
}

// Active returns the authority that signs. The error is precondition if the cluster has none, or if this
// server has not opened its key.
func (s Signer) Active() (*pki.Authority, error) {
	rows := s.Rows()

	// The rows have one such authority at most: the entry of its successor retires it.
	i := slices.IndexFunc(rows, func(a *cluster.Authority) bool { return a.RetireTime == 0 })
	if i < 0 {
		return nil, structs.Preconditionf("the servers have no certificate authority: " +
			"start one of them with the files of `berth tls init`, all of them with one keyring, " +
			"and let that one lead (docs/operations/tls.md)")
	}

	row := rows[i]
	key, err := s.Keys.Open(cluster.AuthorityPlace(row.ID), row.Key)
	if err != nil {
		return nil, err
	}

	return pki.ParseAuthority([]byte(row.CertPEM), key)
}

// Trusted returns the certificates of the authorities that machines trust, in PEM: the one that signs, and
// those that it has replaced lately.
func (s Signer) Trusted() string {
	var pem strings.Builder
	for _, a := range s.trusted() {
		pem.WriteString(a.CertPEM)
	}
	return pem.String()
}

func (s Signer) trusted() []*cluster.Authority {
	return trust.TrustedAuthorities(s.Rows(), s.Now().UnixNano())
}

// crosses returns the cross certificates, in PEM, by which holders of the authorities before the one that
// signs verify its certificates.
func crosses(trusted []*cluster.Authority) (pem []byte) {
	for i, a := range trusted {
		if i+1 < len(trusted) { // the one that has signed it is trusted
			pem = append(pem, a.CrossPEM...)
		}
	}
	return pem
}

// Signed is a certificate with its end.
type Signed struct {
	PEM    []byte // the certificate, then the cross certificates
	Serial string
	End    time.Time
}

// Sign signs a certificate for the holder of a key, with some names beside its role's. It lives for a
// day, or until its authority ends.
func (s Signer) Sign(pub crypto.PublicKey, id pki.Identity, names ...string) (Signed, error) {
	return s.SignRequest(pub, pki.Request{
		Identity: id,
		Names:    names,
		Life:     Life,
	})
}

// Renew signs a certificate for a machine that has one, which ends at a time, zero for none. It begins no
// later than the former: a server whose clock is ahead makes none that begins only tomorrow, with which the
// machine would be locked out once the clock is right.
func (s Signer) Renew(pub crypto.PublicKey, id pki.Identity, end time.Time, names ...string) (Signed, error) {
	r := pki.Request{
		Identity: id,
		Names:    names,
		Life:     Life,
	}
	if !end.IsZero() {
		r.Begin = end.Add(-Life)
	}
	return s.SignRequest(pub, r)
}

// begin returns the begin of a certificate that is signed at a time. While the clock of this server is ahead,
// a certificate that begins by it would be of no use once the clock is right. The cluster time is far behind
// after a long time off, and no certificate begins so early: see peertls.LifeOf.
func (s Signer) begin(now time.Time) time.Time {
	begin := now
	if s.Agreed != nil {
		begin = s.Agreed()
	}
	if earliest := now.Add(-trust.RenewWithin); begin.Before(earliest) {
		begin = earliest
	}
	return begin.Add(-pki.ClockSkew)
}

// SignRequest signs a certificate for the holder of a key, from now on. It does not outlive its authority.
func (s Signer) SignRequest(pub crypto.PublicKey, r pki.Request) (Signed, error) {
	authority, err := s.Active()
	if err != nil {
		return Signed{}, err
	}

	r.From = s.Now()
	if begin := s.begin(r.From); r.Begin.IsZero() || begin.Before(r.Begin) {
		r.Begin = begin
	}
	r.Life = min(r.Life, authority.Cert.NotAfter.Sub(r.From))
	pem, err := authority.Sign(pub, r)
	if err != nil {
		return Signed{}, err
	}

	// The serial number is read back, because the certificate is what others see.
	certs, err := pki.ParseCertificates(pem)
	if err != nil {
		return Signed{}, structs.Internalf("the new certificate %w", err)
	}

	return Signed{
		PEM:    append(pem, crosses(s.trusted())...),
		Serial: pki.Serial(certs[0]),
		End:    certs[0].NotAfter,
	}, nil
}
