package peertls

import (
	"bytes"
	"crypto/x509"
	"slices"
	"time"

	"berth/internal/boottime"
	"berth/internal/files"
	"berth/internal/pki"
	"berth/structs"
)

// RenewAt returns the time at which the certificate is to be replaced.
func (k *Keys) RenewAt() time.Time {
	leaf := k.current.Load().cert.Leaf
	life := LifeOf(leaf)
	return leaf.NotAfter.Add(boottime.LifeAtRenewal(life, true) - life)
}

// LifeOf returns the life of a certificate from its signature on. One that the servers have signed begins
// earlier, with the one that it has replaced. That one has ended a month before at most.
func LifeOf(leaf *x509.Certificate) time.Duration {
	const longest = 40 * 24 * time.Hour
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	if life < longest {
		return min(life, pki.MachineLife)
	}
	return life
}

// formerSuffix is the end of the name of the file with the certificate that the present one has replaced.
const formerSuffix = ".former"

// NoteRenewal notes the error of an attempt to renew the certificate, nil for none. The warnings of the end
// of the certificate name it.
func (k *Keys) NoteRenewal(err error) {
	if err == nil {
		k.renewFault.Store(nil)
		return
	}
	k.renewFault.Store(&err)
}

// RenewalFault returns the error of the last attempt to renew the certificate, nil if it did not fail.
func (k *Keys) RenewalFault() error {
	err := k.renewFault.Load()
	if err == nil {
		return nil
	}
	return *err
}

// Lapsed reports whether the certificate of this agent is not valid at a time: it has ended, or it was
// signed under a clock that was ahead, and has not begun.
func (k *Keys) Lapsed(now time.Time) bool {
	leaf := k.current.Load().cert.Leaf
	return now.After(leaf.NotAfter) || now.Before(leaf.NotBefore)
}

// Validity returns what a person reads of a certificate that is not valid at a time: "ended at ...".
func (k *Keys) Validity(now time.Time) string {
	leaf := k.current.Load().cert.Leaf
	if now.Before(leaf.NotBefore) {
		return "begins at " + leaf.NotBefore.Format(time.RFC3339)
	}
	return "ended at " + leaf.NotAfter.Format(time.RFC3339)
}

// Premature reports whether the certificate in the file has not begun at a time. The agent may use the former
// one meanwhile.
func (k *Keys) Premature(now time.Time) bool { return now.Before(k.current.Load().begins) }

// Names returns the names in the certificate of this agent beside its role's.
func (k *Keys) Names() []string {
	m := k.current.Load()
	return pki.NamesOf(m.cert.Leaf, m.identity)
}

// CSR returns a request, in DER, for a certificate with the key and the identity of the present one.
func (k *Keys) CSR() ([]byte, error) {
	m := k.current.Load()
	key, err := pki.KeyOf(m.cert.PrivateKey)
	if err != nil {
		return nil, err
	}
	return key.CSR(m.identity)
}

// Replace writes a new certificate of the same key and its authorities to the files of the agent, and
// takes them up. It writes each file atomically. Until the certificate is written, the former authorities
// stay beside the new ones, so that the files are valid at any time. If it rejects the certificate, it writes
// nothing.
func (k *Keys) Replace(cert, authorities []byte) error {
	k.writing.Lock() // an operator may renew beside the agent
	defer k.writing.Unlock()
	m := k.current.Load()
	certs, err := pki.ParseCertificates(cert)
	if err != nil {
		return structs.Internalf("the new certificate %w", err)
	}

	if !bytes.Equal(pki.KeyHash(certs[0].PublicKey), pki.KeyHash(m.cert.Leaf.PublicKey)) {
		return structs.Internalf("the new certificate has another key than this agent")
	}

	trusted, err := pki.ParseCertificates(authorities)
	if err != nil {
		return structs.Internalf("the answer %w", err)
	}

	err = k.checkNext(certs, trusted)
	if err != nil {
		return err
	}

	others := !bytes.Equal(authorities, m.raw[0])
	if others {
		err = files.WriteDurable(k.cfg.CAFile, slices.Concat(authorities, m.raw[0]))
	}

	if err == nil && !k.Premature(time.Now()) {
		// The former one stays beside, for the case that the clock is wrong now.
		err = files.WriteDurable(k.cfg.CertFile+formerSuffix, m.raw[1])
	}
	if err == nil {
		err = files.WriteDurable(k.cfg.CertFile, cert)
	}

	if err == nil && others {
		err = files.WriteDurable(k.cfg.CAFile, authorities)
	}
	if err != nil {
		return structs.Internalf("writing the renewed TLS certificate: %w", err)
	}

	_, err = k.Reload()
	return err
}

// checkNext verifies the new certificate of this agent by the authorities that come with it. A node also
// verifies it by its present ones, with the cross certificates: nobody else may change its trust. A server
// has signed for itself, from its own rows, and follows them: after the restore of an archive of another
// cluster no cross certificate leads to the new authority.
func (k *Keys) checkNext(chain, trusted []*x509.Certificate) error {
	next := x509.NewCertPool()
	for _, authority := range trusted {
		next.AddCert(authority)
	}

	err := verifyChain(chain, next, x509.ExtKeyUsageAny)
	if err != nil {
		return structs.Internalf("the authorities of the answer have not signed the new certificate: %w", err)
	}

	m := k.current.Load()
	if m.identity.Role == pki.RoleServer {
		return nil
	}

	err = verifyChain(chain, m.roots, x509.ExtKeyUsageAny)
	if err != nil {
		return structs.Deniedf("no authority in ca_file %s leads to the new certificate: the servers have another "+
			"authority, or somebody else has answered; the files of this agent stay as they are. If the servers "+
			"are the right ones, join again with a new token (docs/operations/tls.md): %w", k.cfg.CAFile, err)
	}

	return nil
}
