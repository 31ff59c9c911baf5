package endpoints_test

import (
	"context"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/internal/pki"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// TestNodes_PassOnTheRequestsOfTheirTasks has nodes send requests with tokens. The gate decides on those of
// their own tasks. The node itself gets nothing more.
func TestNodes_PassOnTheRequestsOfTheirTasks(t *testing.T) {
	s := endpointstest.New(t)
	s.AddSigningKeys()
	s.AddWorkload()
	token := s.TaskIdentity()
	s.Guard()
	s.Roles = true
	as := func(node string) context.Context {
		return rpc.WithPeer(t.Context(), pki.Identity{Role: pki.RoleNode, ID: node, Region: "global"})
	}
	for name, c := range map[string]struct {
		node, token, path string
		kind              structs.Kind
	}{
		"its own variable":         {"n1", token, "nomad/jobs/job-a1", structs.KindNotFound},
		"that of another job":      {"n1", token, "nomad/jobs/other", structs.KindDenied},
		"of a task of another one": {"n2", token, "nomad/jobs/job-a1", structs.KindDenied},
		"of nobody":                {"n1", "", "nomad/jobs/job-a1", structs.KindDenied},
		"of a person":              {"n1", s.ManagementToken(), "nomad/jobs/job-a1", structs.KindDenied},
	} {
		req := &access.VariableGetRequest{Path: c.path}
		req.Namespace = "default"
		req.AuthToken = c.token
		_, err := rpc.Call(as(c.node), s.RPC, access.VariableGet, req)
		if !structs.IsKind(err, c.kind) {
			t.Errorf("%s: got %v, want %v", name, err, c.kind)
		}
	}

	list := &structs.QueryRequest{QueryOptions: structs.QueryOptions{AuthToken: token}}
	_, err := rpc.Call(as("n1"), s.RPC, structs.NodeList, list)
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("the list of nodes, which the task may not see: got %v", err)
	}

	// A method that needs no token is for those who reach a server themselves.
	first := &access.BootstrapRequest{WriteOptions: structs.WriteOptions{AuthToken: token}}
	_, err = rpc.Call(as("n1"), s.RPC, access.Bootstrap, first)
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("a bootstrap: got %v", err)
	}
}
