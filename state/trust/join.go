package trust

import (
	"bytes"
	"cmp"
	"crypto/subtle"
	"iter"
	"slices"
	"time"

	"berth/internal/mvcc"
	"berth/state/clustertime"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
)

const (
	// RenewWithin is the time after the end of a certificate in which its holder may still renew it. A replaced
	// authority is trusted for as long.
	RenewWithin = 30 * 24 * time.Hour

	maxJoinTokens   = 1000
	maxTokenUses    = 100_000
	forgottenAtOnce = 8 // certificates of machines that are deleted with the record of another one
)

// JoinTokens yields the join tokens, also expired ones.
func JoinTokens(tx mvcc.Reader) iter.Seq[*cluster.JoinToken] { return schema.JoinTokens.Scan(tx) }

// JoinTokenPut stores a new join token, and deletes expired ones.
func JoinTokenPut(tx *mvcc.WriteTx, p *cluster.JoinTokenRequest) error {
	known := 0
	ended := clustertime.Earlier(tx, p.Now)
	for _, t := range slices.Collect(schema.JoinTokens.Scan(tx)) {
		if t.ExpireTime <= ended {
			schema.JoinTokens.Delete(tx, t)
			continue
		}
		known++
	}
	switch {
	case p.ID == "" || len(p.Hash) == 0:
		return structs.Invalidf("the join token has no ID or no hash")
	case p.Role != cluster.JoinNode && p.Role != cluster.JoinServer:
		return structs.Invalidf("Role is %q; expected %s or %s", p.Role, cluster.JoinNode, cluster.JoinServer)
	case p.Uses < 1 || p.Uses > maxTokenUses:
		return structs.Invalidf("Uses is %d; expected 1 to %d", p.Uses, maxTokenUses)
	case p.Authority != "" && schema.Authorities.Get(tx, p.Authority) == nil:
		return structs.Conflictf("the authority %s of the join token was removed meanwhile; make another token",
			structs.Cut(p.Authority, structs.MaxQuoted))
	case schema.JoinTokens.Get(tx, p.ID) != nil:
		return structs.Conflictf("there is a join token %s already", p.ID)
	case known >= maxJoinTokens:
		return structs.Preconditionf("there are %d join tokens; delete some of them before you make others", known)
	}
	schema.JoinTokens.Put(tx, &cluster.JoinToken{
		ID:         p.ID,
		Hash:       p.Hash,
		Role:       p.Role,
		NodeName:   p.NodeName,
		NodePool:   p.NodePool,
		Uses:       p.Uses,
		ExpireTime: p.ExpireTime,
		CreateTime: p.Now,
		Authority:  p.Authority,
	})
	return nil
}

// JoinTokenDelete deletes a join token. The error is not-found.
func JoinTokenDelete(tx *mvcc.WriteTx, p *cluster.JoinTokenDeleteRequest) error {
	t := schema.JoinTokens.Get(tx, p.ID)
	if t == nil {
		return structs.NotFoundf("there is no join token %q: it was used, has expired or never existed", p.ID)
	}
	schema.JoinTokens.Delete(tx, t)
	return nil
}

// MachineCertificate returns the record of the last certificate of a machine, nil if there is none.
func MachineCertificate(tx mvcc.Reader, role, id string) *cluster.MachineCertificate {
	return schema.Certificates.Get(tx, role, id)
}

// MachineCertificateSet records the certificate of a machine that joins with a token or renews. The
// certificate is given to the machine only afterwards.
func MachineCertificateSet(tx *mvcc.WriteTx, p *cluster.MachineCertificateRequest) error {
	row := &cluster.MachineCertificate{
		Role:     p.Role,
		ID:       p.ID,
		Serial:   p.Serial,
		KeyHash:  p.KeyHash,
		NotAfter: p.NotAfter,
	}
	err := CheckCertificate(tx, p)
	if err != nil {
		return err
	}
	if p.TokenID == "" {
		known := schema.Certificates.Get(tx, p.Role, p.ID)
		row.NodeName = known.NodeName
		row.NodePool = known.NodePool
	} else {
		useToken(tx, p, row)
		admitNewKey(tx, row)
	}
	schema.Certificates.Put(tx, row)
	forgetCertificates(tx, clustertime.Earlier(tx, p.Now))
	return nil
}

// CheckCertificate returns an error unless the token of a request, or the record of the machine for a
// renewal, allows it a certificate. The leader also checks it before it signs and writes an entry.
func CheckCertificate(tx mvcc.Reader, p *cluster.MachineCertificateRequest) error {
	known := schema.Certificates.Get(tx, p.Role, p.ID)
	if p.TokenID == "" {
		return renewable(tx, known, p)
	}
	err := checkToken(tx, p, known)
	if err == nil {
		err = checkOwner(tx, p, known)
	}
	return err
}

// renewable returns an error if the record of a machine does not allow its renewal. A revoked machine renews
// never.
func renewable(
	tx mvcc.Reader, known *cluster.MachineCertificate, p *cluster.MachineCertificateRequest,
) error {
	switch {
	case known == nil:
		return structs.Deniedf("the servers have signed no certificate for the %s %s: join with a new token",
			p.Role, p.ID)
	case !bytes.Equal(known.KeyHash, p.KeyHash):
		return structs.Deniedf("the certificate of the %s %s has another key: join with a new token", p.Role, p.ID)
	case lapsed(known, p.Now):
		return structs.Deniedf("the certificate of the %s %s ended at %s, more than %s ago: join with a new token",
			p.Role, p.ID, time.Unix(0, known.NotAfter).UTC().Format(time.RFC3339), RenewWithin)
	case revokedRecord(tx, known) != nil:
		return structs.Deniedf("the certificate of the %s %s is revoked: join with a new token and a new key",
			p.Role, p.ID)
	}
	return nil
}

// checkToken returns an error if the token of a request does not allow it. A machine whose certificate is
// revoked joins again with another key, and at once.
func checkToken(
	tx mvcc.Reader, p *cluster.MachineCertificateRequest, known *cluster.MachineCertificate,
) error {
	t := schema.JoinTokens.Get(tx, p.TokenID)
	sameKey := known != nil && bytes.Equal(known.KeyHash, p.KeyHash)
	revoked := known != nil && revokedRecord(tx, known) != nil
	switch {
	case t == nil || subtle.ConstantTimeCompare(t.Hash, p.TokenHash) != 1 || t.ExpireTime <= p.Now:
		return structs.Deniedf("the join token is not valid: it was used, has expired or was deleted; "+
			"make another one with `berth %s join-token create`", p.Role)
	case t.Role != p.Role:
		return structs.Deniedf("the join token is for a %s; make one with `berth %s join-token create`",
			t.Role, p.Role)
	case t.NodeName != "" && t.NodeName != p.NodeName:
		return structs.Deniedf("the join token is for the node %q, and this one is %q (-name)",
			t.NodeName, p.NodeName)
	case t.NodePool != "" && t.NodePool != p.NodePool:
		return structs.Deniedf("the join token is for the node pool %q, and this node is of %q (-node-pool)",
			t.NodePool, p.NodePool)
	case sameKey && revoked:
		return structs.Deniedf("the certificate of the %s %s is revoked, and its key with it: join with a new key",
			p.Role, p.ID)
	case known != nil && !sameKey && !revoked && !lapsed(known, p.Now):
		return structs.Deniedf("the %s %s has joined with another key, and is not away for long enough: "+
			"choose another ID (-id, or for a server -name), or if that key is lost with its disk, "+
			"run `berth tls revoke -%s %s` and join again",
			p.Role, p.ID, p.Role, p.ID)
	}
	return nil
}

// lapsed reports whether a machine has been away for too long to renew.
func lapsed(known *cluster.MachineCertificate, now int64) bool {
	return now > known.NotAfter+int64(RenewWithin)
}

// checkOwner returns an error if a token without a name would give its holder the ID of a registered node
// that no valid record binds to a key. The holder would read the allocations of that node.
func checkOwner(
	tx mvcc.Reader, p *cluster.MachineCertificateRequest, known *cluster.MachineCertificate,
) error {
	node := schema.Nodes.Get(tx, p.ID)
	bound := known != nil && (bytes.Equal(known.KeyHash, p.KeyHash) ||
		!lapsed(known, p.Now) && revokedRecord(tx, known) == nil)
	if p.Role != cluster.JoinNode || node == nil || bound {
		return nil
	}
	if schema.JoinTokens.Get(tx, p.TokenID).NodeName == node.Name {
		return nil
	}
	return structs.Deniedf("node %s is registered with the name %q, and the join token is not for that name: "+
		"join with one of `berth node join-token create -node-name %s`, or with another ID",
		p.ID, node.Name, node.Name)
}

// useToken uses a token once for a machine, whose limits row gets.
func useToken(tx *mvcc.WriteTx, p *cluster.MachineCertificateRequest, row *cluster.MachineCertificate) {
	t := schema.JoinTokens.Get(tx, p.TokenID)
	row.NodeName = t.NodeName
	row.NodePool = cmp.Or(t.NodePool, p.NodePool)
	if t.Uses == 1 {
		schema.JoinTokens.Delete(tx, t)
		return
	}
	used := *t
	used.Uses--
	schema.JoinTokens.Put(tx, &used)
}

// BindPool binds a node that registers to its pool, if it has joined without one. Later its own configuration
// does not move it to where other jobs and their secrets are.
func BindPool(tx *mvcc.WriteTx, n *structs.Node) {
	row := schema.Certificates.Get(tx, cluster.JoinNode, n.ID)
	if row == nil || row.NodePool != "" {
		return
	}
	bound := *row
	bound.NodePool = n.NodePool
	schema.Certificates.Put(tx, &bound)
}

// forgetCertificates deletes some records that no renewal needs any more.
func forgetCertificates(tx *mvcc.WriteTx, now int64) {
	var old []*cluster.MachineCertificate
	for c := range schema.CertificatesByEnd.Scan(tx) {
		if len(old) == forgottenAtOnce || c.NotAfter+int64(RenewWithin) >= now {
			break
		}
		old = append(old, c)
	}
	for _, c := range old {
		schema.Certificates.Delete(tx, c)
	}
}

// CheckJoins checks the authorities, the join tokens and the certificates of machines.
func CheckJoins(c *schema.Report) {
	checkAuthorities(c)
	for t := range schema.JoinTokens.Scan(c) {
		c.Want(t.Uses >= 1 && len(t.Hash) > 0, "join token %s: %d uses, a hash of %d bytes",
			t.ID, t.Uses, len(t.Hash))
	}
	checkRevocations(c)
	for m := range schema.Certificates.Scan(c) {
		c.Want(len(m.KeyHash) > 0, "the certificate of the %s %s: it has no key", m.Role, m.ID)
	}
}
