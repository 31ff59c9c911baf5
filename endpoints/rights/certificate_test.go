package rights

import (
	"context"
	"testing"

	"berth/internal/pki"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/nodecalls"
)

// as returns the context of a caller with the certificate of a role and of n1.
func as(role pki.Role) context.Context {
	return rpc.WithPeer(context.Background(), pki.Identity{
		Region: "global",
		Role:   role,
		ID:     "n1",
	})
}

func TestCheck_ANodeActsForItselfAlone(t *testing.T) {
	of := func(id string) *structs.NodeHeartbeatRequest {
		return &structs.NodeHeartbeatRequest{NodeID: id, SecretID: "s"}
	}
	alloc := func(node string) *structs.AllocGetRequest {
		return &structs.AllocGetRequest{AllocID: "a", NodeID: node}
	}
	for name, c := range map[string]struct {
		ctx     context.Context
		method  string
		req     any
		allowed bool
	}{
		"itself":                  {as(pki.RoleNode), structs.NodeHeartbeat.Name, of("n1"), true},
		"another node":            {as(pki.RoleNode), structs.NodeHeartbeat.Name, of("n2"), false},
		"no node":                 {as(pki.RoleNode), structs.NodeHeartbeat.Name, of(""), false},
		"its own allocations":     {as(pki.RoleNode), structs.AllocGet.Name, alloc("n1"), true},
		"as another node":         {as(pki.RoleNode), structs.AllocGet.Name, alloc("n2"), false},
		"an allocation as nobody": {as(pki.RoleNode), structs.AllocGet.Name, alloc(""), false},
		"services":                {as(pki.RoleNode), structs.ServiceGet.Name, &structs.ServiceGetRequest{}, true},
		"the revocations": {
			as(pki.RoleNode), cluster.CertificateRevocations.Name, &structs.QueryRequest{}, true},
		"the right of a caller": {as(pki.RoleNode), access.Check.Name, &access.CheckRequest{}, true},
		"a revocation": {as(pki.RoleNode), cluster.CertificateRevoke.Name,
			&cluster.CertificateRevokeRequest{}, false},
		"a new authority": {
			as(pki.RoleNode), cluster.AuthorityReplace.Name, &structs.WriteRequest{}, false},
		"the authorities": {as(pki.RoleNode), cluster.AuthorityList.Name, &structs.QueryRequest{}, false},
		"a removal of one": {
			as(pki.RoleNode), cluster.AuthorityRemove.Name, &cluster.AuthorityRemoveRequest{}, false},
		"a method of operators": {
			as(pki.RoleNode), structs.JobRegister.Name, &structs.JobRegisterRequest{}, false},
		"a list of operators": {as(pki.RoleNode), structs.NodeList.Name, &structs.QueryRequest{}, false},
		"a registration of nobody": {
			as(pki.RoleNode), structs.NodeRegister.Name, &structs.NodeRegisterRequest{}, false},
		"the claims of all nodes": {
			as(pki.RoleNode), structs.CSIClaimList.Name, &structs.CSIClaimListRequest{}, false},
		"an operator":  {as(pki.RoleOperator), structs.NodeHeartbeat.Name, of("n1"), false},
		"a server":     {as(pki.RoleServer), structs.NodeHeartbeat.Name, of("n2"), true},
		"this process": {context.Background(), structs.NodeHeartbeat.Name, of("n2"), true},
	} {
		err := CheckCertificate(c.ctx, c.method, c.req)
		if (err == nil) != c.allowed || err != nil && !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The token of a server gives the key-encryption key, and the certificate for one of a node counts with
// `require`, too. So a token needs a certificate in each mode of TLS.
func TestCheckGrant_NeedsACertificateForAToken(t *testing.T) {
	server := &cluster.JoinTokenCreateRequest{Role: cluster.JoinServer}
	node := &cluster.JoinTokenCreateRequest{Role: cluster.JoinNode}
	outside := rpc.WithoutPeer(context.Background())
	for name, c := range map[string]struct {
		ctx     context.Context
		req     any
		allowed bool
	}{
		"from outside":               {outside, server, false},
		"by a node":                  {as(pki.RoleNode), server, false},
		"by an operator over RPC":    {as(pki.RoleOperator), server, false},
		"of a node, from outside":    {outside, node, false},
		"of a node, by a node":       {as(pki.RoleNode), node, false},
		"of a node, by a server":     {as(pki.RoleServer), node, true},
		"another request":            {outside, &structs.QueryRequest{}, true},
		"forwarded by a server":      {as(pki.RoleServer), server, true},
		"of the API in this process": {context.Background(), server, true},
	} {
		err := CheckGrant(c.ctx, c.req)
		if (err == nil) != c.allowed || err != nil && !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The certificate of an operator is for the callers that the HTTP API of a server has checked.
func TestCheckGrant_NeedsAServerForTheCertificateOfAnOperator(t *testing.T) {
	req := &cluster.OperatorCertificateRequest{Operator: cluster.OperatorRoot}
	for name, c := range map[string]struct {
		ctx     context.Context
		allowed bool
	}{
		"from outside":               {rpc.WithoutPeer(context.Background()), false},
		"of a node":                  {as(pki.RoleNode), false},
		"of an operator":             {as(pki.RoleOperator), false},
		"forwarded by a server":      {as(pki.RoleServer), true},
		"of the API in this process": {context.Background(), true},
	} {
		err := CheckGrant(c.ctx, req)
		if (err == nil) != c.allowed || err != nil && !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The hash of a token is enough for a signature, and the log of each server has it.
func TestCheckGrant_NeedsAServerForASignature(t *testing.T) {
	req := &cluster.CertificateSignRequest{}
	outside := rpc.WithoutPeer(context.Background())
	for name, c := range map[string]struct {
		ctx     context.Context
		allowed bool
	}{
		"from outside":               {outside, false},
		"of a node":                  {as(pki.RoleNode), false},
		"of an operator":             {as(pki.RoleOperator), false},
		"forwarded by a server":      {as(pki.RoleServer), true},
		"of the port of machines":    {rpc.Inside(outside), true},
		"of this process for a node": {rpc.Inside(as(pki.RoleNode)), true},
	} {
		err := CheckGrant(c.ctx, req)
		if (err == nil) != c.allowed || err != nil && !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// attacks are the requests of a node that its certificate must not allow, by what they would reach.
func attacks() map[string]struct {
	method string
	req    any
} {
	const n2, s = "n2", "the secret of n2"
	type attack = struct {
		method string
		req    any
	}
	return map[string]attack{
		"a registration": {structs.NodeRegister.Name,
			&structs.NodeRegisterRequest{Node: &structs.Node{ID: n2, SecretID: s}}},
		"a heartbeat": {structs.NodeHeartbeat.Name, &structs.NodeHeartbeatRequest{NodeID: n2, SecretID: s}},
		"a plugin":    {structs.NodeUpdateCSI.Name, &structs.NodeUpdateCSIRequest{NodeID: n2, SecretID: s}},
		"a leave":     {structs.NodeLeave.Name, &structs.NodeLeaveRequest{NodeID: n2, SecretID: s}},
		"a report": {structs.NodeUpdateAllocs.Name,
			&structs.AllocsClientUpdateRequest{NodeID: n2, SecretID: s}},
		"a token": {access.NodeDeriveSIToken.Name,
			&access.DeriveSITokenRequest{NodeID: n2, SecretID: s}},
		"its allocations": {structs.NodeClientAllocs.Name, &structs.NodeGetRequest{NodeID: n2, SecretID: s}},
		"allocations":     {structs.AllocsGet.Name, &structs.AllocsGetRequest{NodeID: n2, SecretID: s}},
		"an allocation":   {structs.AllocGet.Name, &structs.AllocGetRequest{NodeID: n2, AllocID: "a2"}},
		"any allocation":  {structs.AllocGet.Name, &structs.AllocGetRequest{AllocID: "a2"}},
		"data":            {nodecalls.AllocData.Name, &nodecalls.AllocDataRequest{NodeID: n2, SecretID: s}},
		"waits for data": {
			nodecalls.AllocDataWaits.Name, &nodecalls.AllocDataWaitsRequest{NodeID: n2, SecretID: s}},
		"an identity": {access.IdentitySign.Name, &access.SignRequest{NodeID: n2, SecretID: s}},
		"a claim":     {structs.CSIVolumeClaim.Name, &structs.CSIVolumeClaimRequest{NodeID: n2, SecretID: s}},
		"a release": {structs.CSIVolumeUnpublish.Name,
			&structs.CSIVolumeUnpublishRequest{NodeID: n2, SecretID: s}},
		"an expansion": {structs.CSIVolumeNodeExpanded.Name,
			&structs.CSINodeExpandOutcome{NodeID: n2, SecretID: s}},
		"a secret": {structs.CSIClaimGet.Name, &structs.CSIClaimGetRequest{NodeID: n2, SecretID: s}},
		"claims":   {structs.CSIClaimList.Name, &structs.CSIClaimListRequest{NodeID: n2}},
		"a drain":  {structs.NodeDrainStatus.Name, &structs.NodeGetRequest{NodeID: n2}},
		"the node": {structs.NodeGet.Name, &structs.NodeGetRequest{NodeID: n2}},
		"a variable": {access.VariableGet.Name,
			&access.VariableGetRequest{NodeID: n2, SecretID: s, Path: "nomad/jobs"}},
		"variables": {access.VariableList.Name, &access.VariableListRequest{NodeID: n2, SecretID: s}},
		"a certificate": {cluster.CertificateRenew.Name,
			&cluster.CertificateRenewRequest{NodeID: n2}},
		"the certificate of an operator": {cluster.OperatorCertificate.Name,
			&cluster.OperatorCertificateRequest{Operator: cluster.OperatorRoot}},
		"a policy": {access.PolicyPut.Name, &access.PolicyPutRequest{}},
		"a login":  {access.TokenPut.Name, &access.TokenPutRequest{}},
		"a job":    {structs.JobGet.Name, &structs.JobGetRequest{}},
		"a volume": {structs.CSIVolumeGet.Name, &structs.CSIVolumeGetRequest{}},
		// Logs and call-backs: a server calls the node of a connection, and no node calls another one.
		"the log of a task": {nodecalls.ClientAllocData.Name, &nodecalls.AllocDataRequest{NodeID: n2, SecretID: s}},
		"a call-back":       {nodecalls.ClientCSINodeDetach.Name, &nodecalls.ClientCSINodeDetachRequest{}},
	}
}

// The certificate of n1 is of no use against n2, also with the secret of n2.
func TestCheck_AStolenCertificateIsWorthItsNodeAlone(t *testing.T) {
	tried := map[string]bool{}
	for name, a := range attacks() {
		tried[a.method] = true
		err := CheckCertificate(as(pki.RoleNode), a.method, a.req)
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s of another node: %v", name, err)
		}
	}
	for method, ofAny := range nodeMethods {
		if !ofAny && !tried[method] {
			t.Errorf("no attack tries %s", method)
		}
	}
}
