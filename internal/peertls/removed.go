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
	k.trust(&next)
	k.current.Store(&next)
	k.closeUntrusted()
}

// trust decides on the authorities of the files that this agent trusts.
func (k *Keys) trust(m *material) {
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
		return
	}

	_, err := k.check(m.cert, kept)
	if err != nil {
		k.logger.Warn("the servers have removed an authority of ca_file, and the certificate of this agent is of "+
			"it: replace both files (docs/operations/certificates.md)", "ca_file", k.cfg.CAFile, "error", err)
		return
	}
	m.roots = kept
	k.logger.Info("an authority of ca_file is no longer trusted: the servers have removed it",
		"ca_file", k.cfg.CAFile, "removed", dropped)
}
