package trust

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/internal/pki"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
)

const (
	// MaxRevocations is the most revocations: each agent holds all of them in memory.
	MaxRevocations = 10_000
	// maxRevocationReason is the most bytes of a reason.
	maxRevocationReason = 1024
)

// revocableRoles are the roles of which a revocation names one holder.
var revocableRoles = []string{cluster.JoinNode, cluster.JoinServer, cluster.RevokeOperator}

// Revocations yields the revocations by ID.
func Revocations(tx mvcc.Reader) iter.Seq[*cluster.Revocation] { return schema.Revocations.Scan(tx) }

// Revoked returns the revocation of a certificate, nil if it is not revoked.
func Revoked(tx mvcc.Reader, c cluster.CertificateRef) *cluster.Revocation {
	for _, id := range c.RevocationIDs() {
		r := schema.Revocations.Get(tx, id)
		if r != nil && r.Covers(c) {
			return r
		}
	}
	return nil
}

// ShutOut returns the revocation of a node that has not joined again since, nil if there is none.
func ShutOut(tx mvcc.Reader, nodeID string) *cluster.Revocation {
	r := schema.Revocations.Get(tx, cluster.MachineRevocationID(cluster.JoinNode, nodeID))
	if r == nil || len(r.NewKeyHash) > 0 {
		return nil
	}
	return r
}

// Revoke puts a revocation. One of a machine that has joined again ends its new key, too.
func Revoke(tx *mvcc.WriteTx, p *cluster.CertificateRevokeRequest) error {
	row, err := newRevocation(p)
	if err != nil {
		return err
	}
	if schema.Revocations.Get(tx, row.ID) == nil {
		known := 0
		for range schema.Revocations.Scan(tx) {
			known++
		}
		if known >= MaxRevocations {
			return structs.Preconditionf("there are %d revocations; at most that many are allowed: delete those "+
				"whose certificates have ended, with `berth tls unrevoke ID`", known)
		}
	}
	schema.Revocations.Put(tx, row)
	return nil
}

// newRevocation returns the row of a request.
func newRevocation(p *cluster.CertificateRevokeRequest) (*cluster.Revocation, error) {
	row := &cluster.Revocation{
		Reason:   p.Reason,
		Operator: p.Operator,
		Time:     p.Now,
	}
	if len(p.Reason) > maxRevocationReason || len(p.Operator) > maxRevocationReason {
		return nil, structs.Invalidf("Reason and Operator have at most %d bytes", maxRevocationReason)
	}
	if p.Serial != "" {
		if p.Role != "" || p.Name != "" {
			return nil, structs.Invalidf("Serial and Role or Name are given; expected Serial alone, or both others")
		}
		serial, err := pki.ParseSerial(p.Serial)
		row.Serial = serial
		row.ID = cluster.SerialRevocationID(serial)
		return row, err
	}

	if !slices.Contains(revocableRoles, p.Role) {
		return nil, structs.Invalidf("Role is %q; expected %s, or a Serial",
			structs.Cut(p.Role, structs.MaxQuoted), strings.Join(revocableRoles, " or "))
	}
	if p.Name == "" || len(p.Name) > structs.MaxName {
		return nil, structs.Invalidf("Name has %d bytes; expected 1 to %d: a node ID, or the name of a server or an operator", len(p.Name), structs.MaxName)
	}
	row.Role = p.Role
	row.Name = p.Name
	row.ID = cluster.MachineRevocationID(p.Role, p.Name)
	return row, nil
}

// Unrevoke deletes a revocation. The error is not-found.
func Unrevoke(tx *mvcc.WriteTx, p *cluster.CertificateUnrevokeRequest) error {
	r := schema.Revocations.Get(tx, p.ID)
	if r == nil {
		return structs.NotFoundf("there is no revocation %q", structs.Cut(p.ID, structs.MaxQuoted))
	}
	schema.Revocations.Delete(tx, r)
	return nil
}

// revokedRecord returns the revocation of the last certificate of a machine, nil if it is not revoked.
func revokedRecord(tx mvcc.Reader, c *cluster.MachineCertificate) *cluster.Revocation {
	return Revoked(tx, cluster.CertificateRef{
		Role:    c.Role,
		ID:      c.ID,
		Serial:  c.Serial,
		KeyHash: c.KeyHash,
	})
}

// admitNewKey makes the certificates of a revoked machine valid that have the key with which it joins again.
func admitNewKey(tx *mvcc.WriteTx, c *cluster.MachineCertificate) {
	r := schema.Revocations.Get(tx, cluster.MachineRevocationID(c.Role, c.ID))
	if r == nil || bytes.Equal(r.NewKeyHash, c.KeyHash) {
		return
	}
	joined := *r
	joined.NewKeyHash = c.KeyHash
	schema.Revocations.Put(tx, &joined)
}

// KeepRevocations keeps the revocations that the replaced state has, and deletes the join tokens of the
// restored one: some may have been used since. It also keeps the records of certificates of the replaced
// state, which are later: machines renew with the keys in them.
func KeepRevocations(tx *mvcc.WriteTx, before mvcc.Reader) {
	for was := range schema.Revocations.Scan(before) {
		r := schema.Revocations.Get(tx, was.ID)
		if r == nil || r.Time <= was.Time {
			schema.Revocations.Put(tx, new(*was))
		}
	}

	for _, t := range slices.Collect(schema.JoinTokens.Scan(tx)) {
		schema.JoinTokens.Delete(tx, t)
	}
	for was := range schema.Certificates.Scan(before) {
		schema.Certificates.Put(tx, new(*was))
	}
}

// checkRevocations checks the revocations.
func checkRevocations(c *schema.Report) {
	for r := range schema.Revocations.Scan(c) {
		id := cluster.MachineRevocationID(r.Role, r.Name)
		if r.Serial != "" {
			id = cluster.SerialRevocationID(r.Serial)
		}
		c.Want(r.ID == id, "revocation %s: it is of %s", r.ID, id)
	}
}
