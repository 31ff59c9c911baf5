// Package pki has the certificates of a cluster: the authority that signs them, and the role and the ID that
// each one gives to its holder. It also has the text of the tokens with which machines join (JoinToken). It
// opens no connections (see internal/peertls).
package pki

import (
	"crypto/x509"
	"net/url"
	"slices"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// Role is the part of the holder of a certificate in the cluster.
type Role string

const (
	RoleServer   Role = "server"   // a member of the cluster: Raft, and every remote procedure
	RoleNode     Role = "node"     // the agent of one node: the procedures of that node
	RoleOperator Role = "operator" // a person or a tool: the HTTP API
)

// Roles lists all roles.
var Roles = []Role{RoleServer, RoleNode, RoleOperator}

// scheme is the scheme of the URI that has an identity.
const scheme = "spiffe"

// Identity is the holder of a certificate. The certificate has it as the URI
// spiffe://<region>/<role>/<id>.
type Identity struct {
	Region string
	Role   Role
	ID     string // of a node: its node ID; of a server or an operator: a name
}

// String returns the URI of the identity.
func (id Identity) String() string { return id.URI().String() }

// URI returns the identity as the certificate has it.
func (id Identity) URI() *url.URL {
	return &url.URL{
		Scheme: scheme,
		Host:   id.Region,
		Path:   "/" + string(id.Role) + "/" + id.ID,
	}
}

// IdentityOf returns the identity of the holder of a certificate. The certificate has exactly one URI of the
// scheme, with a known role. It does not verify the certificate. The error is denied.
func IdentityOf(cert *x509.Certificate) (Identity, error) {
	var found []*url.URL
	for _, u := range cert.URIs {
		// Other programs may have put URIs of their own there. Two identities would be a choice for an
		// attacker.
		if u.Scheme == scheme {
			found = append(found, u)
		}
	}

	if len(found) != 1 {
		return Identity{}, structs.Deniedf("the certificate %q has %d identities of the form "+
			"spiffe://REGION/server|node|operator/ID; expected one: create it with `berth tls cert create`",
			cert.Subject.CommonName, len(found))
	}

	return parseIdentity(found[0])
}

func parseIdentity(u *url.URL) (Identity, error) {
	role, id, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	identity := Identity{
		Region: u.Host,
		Role:   Role(role),
		ID:     id,
	}

	// An ID with a slash would be another path, so each part is checked as the names of the cluster are.
	err := identity.Validate()
	if err != nil {
		return Identity{}, structs.Deniedf("the identity %s of a certificate: %w", u, err)
	}

	return identity, nil
}

// Validate returns an error that names the faults of an identity. The URI of a valid one reads back as the
// same identity.
func (id Identity) Validate() error {
	f := field.New("the identity")
	id.check(f)
	return f.Err()
}

func (id Identity) check(f field.Errors) {
	checkRegion(f, id.Region)
	f.CheckName("id", id.ID)
	if !slices.Contains(Roles, id.Role) {
		f.Addf("role %q; expected server, node or operator", id.Role)
	}
}
