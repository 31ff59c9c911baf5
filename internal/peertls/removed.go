package peertls

import (
	"crypto/x509"
	"slices"

	"berth/internal/pki"
)

// SetRemoved ends the trust in some authorities, given by their IDs, also while ca_file has them: the servers
// have removed them, and this agent does not or cannot renew. It closes the connections with certificates of
// them. While the certificate of this agent is of one of them, all of ca_file stays trusted: it needs a new
// certificate, and others reject it until then.
func (k *Keys) SetRemoved(ids []string) {
	k.reading.Lock()
	defer k.reading.Unlock()
	if slices.Equal(ids, k.removed) {
		return
	}
	k.removed = ids
	next := *k.current.Load()
	err := k.trust(&next)
	if err != nil {
		k.logger.Warn("the servers have removed an authority of ca_file, and the certificate of this agent is of "+
			"it: replace both files (docs/operations/certificates.md)", "ca_file", k.cfg.CAFile, "error", err)
	}
	k.current.Store(&next)
	k.closeUntrusted()
}

// trust decides on the authorities of the files that this agent trusts. The error says why it trusts a
// removed one. It does not log: the files are read every few seconds.
func (k *Keys) trust(m *material) error {
	all, kept := x509.NewCertPool(), x509.NewCertPool()
	dropped := 0
	for _, authority := range m.authorities {
		all.AddCert(authority)
		if slices.Contains(k.removed, pki.AuthorityID(authority)) {
			dropped++
			continue
		}
		kept.AddCert(authority)
	}
	m.roots = all
	if dropped == 0 {
		return nil
	}

	_, err := k.check(m.cert, kept)
	if err == nil {
		m.roots = kept
	}
	return err
}
