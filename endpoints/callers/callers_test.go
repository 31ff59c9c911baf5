package callers

import (
	"context"
	"testing"

	"berth/internal/pki"
	"berth/rpc"
	"berth/structs"
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
	read := func(id, secret string) *structs.NodeGetRequest {
		return &structs.NodeGetRequest{NodeID: id, SecretID: secret}
	}
	for name, c := range map[string]struct {
		ctx     context.Context
		method  string
		req     any
		allowed bool
	}{
		"itself":                   {as(pki.RoleNode), structs.NodeHeartbeat.Name, of("n1"), true},
		"another node":             {as(pki.RoleNode), structs.NodeHeartbeat.Name, of("n2"), false},
		"no node":                  {as(pki.RoleNode), structs.NodeHeartbeat.Name, of(""), false},
		"a row of another node":    {as(pki.RoleNode), structs.NodeGet.Name, read("n2", ""), true},
		"as another node":          {as(pki.RoleNode), structs.NodeGet.Name, read("n2", "s"), false},
		"a method of operators":    {as(pki.RoleNode), structs.JobRegister.Name, &structs.JobRegisterRequest{}, false},
		"a list of operators":      {as(pki.RoleNode), structs.NodeList.Name, &structs.QueryRequest{}, false},
		"a registration of nobody": {as(pki.RoleNode), structs.NodeRegister.Name, &structs.NodeRegisterRequest{}, false},
		"the claims of all nodes":  {as(pki.RoleNode), structs.CSIClaimList.Name, &structs.CSIClaimListRequest{}, false},
		"an operator":              {as(pki.RoleOperator), structs.NodeHeartbeat.Name, of("n1"), false},
		"a server":                 {as(pki.RoleServer), structs.NodeHeartbeat.Name, of("n2"), true},
		"this process":             {context.Background(), structs.NodeHeartbeat.Name, of("n2"), true},
	} {
		err := Check(c.ctx, c.method, c.req)
		if (err == nil) != c.allowed || err != nil && !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
