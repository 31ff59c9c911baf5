package cluster

import (
	"berth/structs"
	"bytes"
)

// RevokeOperator is the role in the revocation of an operator.
const RevokeOperator = "operator"

// Revocation ends the use of certificates. It names a machine or an operator, or one certificate of any role
// by its serial number. Key: ID.
type Revocation struct {
	ID       string // node-ID, server-NAME, operator-NAME or serial-HEXADECIMAL
	Role     string // node, server or operator; "" with a serial number
	Name     string // the node ID, or the name of the server or of the operator
	Serial   string // of one certificate, in hexadecimal without leading zeros
	Reason   string
	Operator string // the identity of the operator that asked, "" if it is not known
	Time     int64  // UnixNano
	// NewKeyHash is the SHA-256 of the public key with which the machine has joined again since. Its
	// certificates of this key are valid. An operator has none: no record tells its keys.
	NewKeyHash []byte
	structs.Indexes
}

// CertificateRef has the facts of a certificate that decide whether it is revoked.
type CertificateRef struct {
	Role    string
	ID      string // a node ID, or the name of a server or an operator
	Serial  string // in hexadecimal without leading zeros
	KeyHash []byte // the SHA-256 of its public key
}

// RevocationIDs returns the IDs of the revocations that may cover the certificate: the one of its serial
// number first, then the one of its machine or operator.
func (c CertificateRef) RevocationIDs() [2]string {
	return [2]string{SerialRevocationID(c.Serial), MachineRevocationID(c.Role, c.ID)}
}

// MachineRevocationID returns the ID of the revocation of a machine or an operator.
func MachineRevocationID(role, id string) string { return role + "-" + id }

// SerialRevocationID returns the ID of the revocation of one certificate.
func SerialRevocationID(serial string) string { return "serial-" + serial }

// Covers reports whether a certificate is revoked. A revoked machine may have joined again: then its
// certificates of the new key are valid.
func (r *Revocation) Covers(c CertificateRef) bool {
	if r.Serial != "" {
		return r.Serial == c.Serial
	}
	return r.Role == c.Role && r.Name == c.ID &&
		(len(r.NewKeyHash) == 0 || !bytes.Equal(r.NewKeyHash, c.KeyHash))
}

// CertificateRevoke revokes the certificates of a machine or an operator, or one certificate.
var CertificateRevoke = structs.Write[CertificateRevokeRequest, CertificateRevokeResponse](
	"Certificate.Revoke")

// CertificateRevokeRequest names a holder by Role and Name, or one certificate by Serial (see Revocation).
type CertificateRevokeRequest struct {
	Role     string
	Name     string
	Serial   string
	Reason   string
	Operator string
	structs.WriteOptions
}

// CertificateRevokeResponse has the ID of the revocation.
type CertificateRevokeResponse struct {
	ID string
	structs.WriteMeta
}

// CertificateUnrevoke deletes a revocation.
var CertificateUnrevoke = structs.Write[CertificateUnrevokeRequest, structs.Empty]("Certificate.Unrevoke")

// CertificateUnrevokeRequest names the revocation.
type CertificateUnrevokeRequest struct {
	ID string
	structs.WriteOptions
}

// CertificateRevocations lists the revocations. Nodes read it, too.
var CertificateRevocations = structs.Read[structs.QueryRequest, CertificateRevocationsResponse](
	"Certificate.Revocations")

// CertificateRevocationsResponse has the revocations by ID, and the IDs of the authorities that the servers
// trust: the one that signs first, none if the servers sign no certificates.
type CertificateRevocationsResponse struct {
	Revocations []*Revocation
	Authorities []string
	structs.QueryMeta
}
