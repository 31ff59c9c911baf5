package rights

import (
	"context"

	"berth/internal/pki"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/nodecalls"
)

// nodeMethods are the methods that the certificate of a node allows. The request of most names the node,
// and it is the one in the certificate. The value of the others is true: templates of a node read services,
// which have addresses and no secrets, and each node reads the addresses of the servers.
var nodeMethods = map[string]bool{
	structs.NodeRegister.Name:          false,
	structs.NodeHeartbeat.Name:         false,
	structs.NodeUpdateCSI.Name:         false,
	structs.NodeLeave.Name:             false,
	structs.NodeUpdateAllocs.Name:      false,
	structs.NodeClientAllocs.Name:      false,
	access.NodeDeriveSIToken.Name:      false,
	structs.AllocsGet.Name:             false,
	nodecalls.AllocData.Name:           false,
	nodecalls.AllocDataWaits.Name:      false,
	structs.CSIVolumeClaim.Name:        false,
	structs.CSIVolumeUnpublish.Name:    false,
	structs.CSIVolumeNodeExpanded.Name: false,
	structs.CSIClaimGet.Name:           false,
	structs.CSIClaimList.Name:          false,
	structs.NodeDrainStatus.Name:       false,
	structs.AllocGet.Name:              false,
	access.VariableGet.Name:            false,
	access.VariableList.Name:           false,
	access.IdentitySign.Name:           false,
	cluster.CertificateRenew.Name:      false,
	structs.ServiceGet.Name:            true,
	structs.ServiceList.Name:           true,
	cluster.StatusPing.Name:            true,
	cluster.StatusPeers.Name:           true,
	// The agent of a node answers others that verify identities.
	access.SigningKeys.Name: true,
	// Nodes reject revoked certificates on their own ports.
	cluster.CertificateRevocations.Name: true,
	// The agent of a node asks for the rights of the callers of its HTTP API, by their tokens.
	access.Check.Name: true,
}

// CheckCertificate returns an error if the certificate of the caller does not give it a method. A node acts
// for itself alone. The server that takes a request from a node checks it: for the others the caller is that
// server. Operators call the HTTP API. A caller without a certificate is of this process.
func CheckCertificate(ctx context.Context, method string, req any) error {
	peer, secured := rpc.PeerFrom(ctx)
	if !secured || peer.Role == pki.RoleServer {
		return nil
	}

	ofAny, allowed := nodeMethods[method]
	id := namedNode(req)
	switch {
	case peer.Role != pki.RoleNode || !allowed || id == "" && !ofAny:
		return structs.Deniedf("%s: the certificate of %s does not allow it; call the HTTP API of a server with "+
			"the certificate of an operator", method, peer)
	case id != peer.ID && !ofAny:
		return structs.Deniedf("%s: the certificate is that of node %s, and the request is one of node %q",
			method, peer.ID, structs.Cut(id, structs.MaxQuoted))
	}
	return nil
}

// PassesOn reports whether a node may have passed on the request of one of its tasks: it names no node, and
// the caller has the certificate of nodeID.
func PassesOn(ctx context.Context, req any) (nodeID string, is bool) {
	peer, secured := rpc.PeerFrom(ctx)
	if !secured || peer.Role != pki.RoleNode || namedNode(req) != "" {
		return "", false
	}
	return peer.ID, true
}

// CheckGrant returns an error for a request whose answer gives its caller the rights of a machine or of an
// operator, in each mode of TLS: a certificate from a time with `prefer` counts with `require`, too. With the
// join token of a server its holder gets the key-encryption key. The HTTP API checks its callers before it
// calls a method in this process.
func CheckGrant(ctx context.Context, req any) error {
	peer, secured := rpc.PeerFrom(ctx)
	trusted := !rpc.FromOutside(ctx) && (!secured || peer.Role == pki.RoleServer)
	switch r := req.(type) {
	case *cluster.JoinTokenCreateRequest:
		if !trusted {
			return structs.Deniedf("a join token needs the certificate of an operator, or the operator socket of the "+
				"server that leads: run `berth %s join-token create` there", roleOf(r))
		}
	case *cluster.CertificateSignRequest:
		if !trusted {
			return structs.Deniedf("servers alone ask for the signature of a machine's certificate; a machine joins " +
				"with its token: run `berth tls join`")
		}
	case *cluster.OperatorCertificateRequest:
		if !trusted {
			return structs.Deniedf("the certificate of an operator needs the former one of the same name, or the " +
				"operator socket of the server that leads: run `berth tls cert request` there")
		}
	}
	return nil
}

// roleOf returns the role for which a join token is asked.
func roleOf(r *cluster.JoinTokenCreateRequest) string {
	if r.Role == cluster.JoinServer {
		return cluster.JoinServer
	}
	return cluster.JoinNode
}

// GivesTrust reports whether an answer of a method says which authorities its reader trusts from then on: a
// join token names one, and operators write the list of them to their files. A
// server forwards such a request with TLS alone, in each mode: somebody between two servers could forge the
// answer, and with it decide which servers a machine or an operator takes.
func GivesTrust(method string) bool {
	switch method {
	case cluster.CertificateSign.Name, cluster.CertificateRenew.Name, cluster.OperatorCertificate.Name,
		cluster.JoinTokenCreate.Name, cluster.AuthorityList.Name:
		return true
	}
	return false
}

// namedNode returns the node that a request names as its sender.
func namedNode(req any) (nodeID string) {
	switch r := req.(type) {
	case *structs.NodeRegisterRequest:
		if r.Node != nil {
			return r.Node.ID
		}
	case *structs.CSIClaimListRequest:
		return r.NodeID
	case *structs.AllocGetRequest:
		return r.NodeID
	case interface {
		Credentials() (nodeID, secretID string)
	}:
		nodeID, _ = r.Credentials()
	}
	return nodeID
}
