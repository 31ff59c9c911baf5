// Package callers decides which methods the certificate of a caller allows.
package callers

import (
	"context"

	"berth/internal/pki"
	"berth/rpc"
	"berth/structs"
)

// nodeMethods are the methods that the certificate of a node allows. The request of most names the node,
// and it is the one in the certificate. For the others the value is true: a node reads the allocation
// before its own, the node of that one, the services that its templates name, and the servers.
var nodeMethods = map[string]bool{
	structs.NodeRegister.Name:          false,
	structs.NodeHeartbeat.Name:         false,
	structs.NodeUpdateCSI.Name:         false,
	structs.NodeLeave.Name:             false,
	structs.NodeUpdateAllocs.Name:      false,
	structs.NodeClientAllocs.Name:      false,
	structs.NodeDeriveSIToken.Name:     false,
	structs.AllocsGet.Name:             false,
	structs.AllocData.Name:             false,
	structs.AllocDataWaits.Name:        false,
	structs.CSIVolumeClaim.Name:        false,
	structs.CSIVolumeUnpublish.Name:    false,
	structs.CSIVolumeNodeExpanded.Name: false,
	structs.CSIClaimGet.Name:           false,
	structs.CSIClaimList.Name:          false,
	structs.NodeDrainStatus.Name:       true,
	structs.AllocGet.Name:              true,
	structs.NodeGet.Name:               true,
	structs.ServiceGet.Name:            true,
	structs.ServiceList.Name:           true,
	structs.StatusPing.Name:            true,
	structs.StatusPeers.Name:           true,
}

// Check returns an error if the certificate of the caller does not give it a method. A node acts for itself
// alone. The server that takes a request from a node checks it: for the others the caller is that server.
// Operators call the HTTP API. A caller without a certificate is of this process.
func Check(ctx context.Context, method string, req any) error {
	peer, secured := rpc.PeerFrom(ctx)
	if !secured || peer.Role == pki.RoleServer {
		return nil
	}

	ofAny, allowed := nodeMethods[method]
	if peer.Role != pki.RoleNode || !allowed {
		return structs.Deniedf("%s: the certificate of %s does not allow it; call the HTTP API of a server with "+
			"the certificate of an operator", method, peer)
	}

	id, secret := subject(req)
	if id != peer.ID && (!ofAny || secret != "") {
		return structs.Deniedf("%s: the certificate is that of node %s, and the request is one of node %q",
			method, peer.ID, id)
	}
	return nil
}

// subject returns the node that a request names as its sender, with the secret of that node.
func subject(req any) (nodeID, secretID string) {
	switch r := req.(type) {
	case *structs.NodeRegisterRequest:
		if r.Node == nil {
			return "", ""
		}
		return r.Node.ID, r.Node.SecretID
	case *structs.CSIClaimListRequest:
		return r.NodeID, ""
	case interface {
		Credentials() (nodeID, secretID string)
	}:
		return r.Credentials()
	}
	return "", ""
}
