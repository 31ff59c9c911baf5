package peertls

import (
	"crypto/x509"
	"time"

	"berth/internal/pki"
)

// longestNotice is the most time before the end of an authority from which on its servers warn of it.
const longestNotice = 60 * 24 * time.Hour

// authorityWarning warns of the end of the authority once a day. Servers alone warn, because an operator
// replaces the authority there.
type authorityWarning struct{ told time.Time }

func (w *authorityWarning) tell(k *Keys, now time.Time) {
	end, soon := k.authorityEnd(now)
	if !soon || now.Sub(w.told) < 24*time.Hour {
		return
	}

	w.told = now
	k.logger.Warn("the authority of the TLS certificates ends soon, and all certificates with it. "+
		"Where the servers sign, replace it with `berth tls ca replace`; otherwise make a new authority, "+
		"add it to ca_file of each agent, and give the agents new certificates",
		"expires", end)
}

// authorityEnd returns when the last authority of a server ends, and whether the notice of that has begun.
func (k *Keys) authorityEnd(now time.Time) (end time.Time, soon bool) {
	m := k.current.Load()
	if m.identity.Role != pki.RoleServer {
		return end, false
	}

	var last *x509.Certificate
	for _, a := range m.authorities {
		if last == nil || a.NotAfter.After(last.NotAfter) {
			last = a
		}
	}

	if last == nil {
		return end, false
	}

	return last.NotAfter, last.NotAfter.Sub(now) <= noticeOf(last)
}

func noticeOf(a *x509.Certificate) time.Duration {
	return min(a.NotAfter.Sub(a.NotBefore)/10, longestNotice)
}
