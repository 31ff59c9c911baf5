package endpoints_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/internal/pki"
	"berth/rpc"
	"berth/structs"
)

// ofNodeItself are the methods that the certificate of a node opens for the node that it names. A method that
// joins them has to be named here.
var ofNodeItself = []string{
	"Alloc.Data", "Alloc.DataWaits", "Alloc.GetAlloc", "Alloc.GetAllocs", "Alloc.SignIdentities",
	"CSIVolume.Claim", "CSIVolume.GetClaim", "CSIVolume.ListClaims", "CSIVolume.NodeExpanded",
	"CSIVolume.Unpublish", "Certificate.Renew", "Node.DeriveSIToken", "Node.DrainStatus",
	"Node.GetClientAllocs", "Node.Leave", "Node.Register", "Node.UpdateAlloc", "Node.UpdateCSI",
	"Node.UpdateStatus", "Variables.List", "Variables.Read",
}

// ofAnyNode are the methods that the certificate of each node opens.
var ofAnyNode = []string{
	"ACL.Check", "Certificate.Revocations", "Keyring.ListPublic", "ServiceRegistration.GetService",
	"ServiceRegistration.List", "Status.Peers", "Status.Ping",
}

// The secret of a token opens no method of a node.
func TestMethods_OfNodesTakeNoTokens(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	s.Roles = true
	management := s.ManagementToken()
	for _, e := range s.List() {
		_, err := e.Serve(t.Context(), newRequest(e, management))
		if strings.HasPrefix(e.Needs, "the node itself") && !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s takes a management token: %v", e.Name, err)
		}
	}
}

// The certificate of a node opens no other method, whatever token comes with it, and acts for no other node.
func TestMethods_OfANodeAreThoseOfItsCertificate(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	s.Roles = true
	management := s.ManagementToken()
	node := rpc.WithPeer(t.Context(), pki.Identity{Role: pki.RoleNode, ID: "n1", Region: "global"})
	serve := func(e rpc.Endpoint, id string) (denied string) {
		req := newRequest(e, management)
		named := nameNode(req, id)
		if !named && slices.Contains(ofNodeItself, e.Name) {
			t.Errorf("%s: the request names no node", e.Name)
		}
		_, err := e.Serve(node, req)
		if !structs.IsKind(err, structs.KindDenied) {
			return ""
		}
		return err.Error()
	}
	var names []string
	for _, e := range s.List() {
		names = append(names, e.Name)
		itself := serve(e, "n1")
		other := serve(e, "n2")
		switch {
		case slices.Contains(ofAnyNode, e.Name):
			if strings.Contains(itself+other, "certificate") {
				t.Errorf("%s denies a certificate of a node: %s %s", e.Name, itself, other)
			}
		case slices.Contains(ofNodeItself, e.Name):
			if strings.Contains(itself, "certificate") {
				t.Errorf("%s denies the node itself: %s", e.Name, itself)
			}
			if !strings.Contains(other, "the certificate is that of node n1") {
				t.Errorf("%s takes the ID of another node: %s", e.Name, other)
			}
		case itself == "" || other == "":
			t.Errorf("%s (%s) takes the certificate of a node", e.Name, e.Needs)
		}
	}
	for _, name := range slices.Concat(ofNodeItself, ofAnyNode) {
		if !slices.Contains(names, name) {
			t.Errorf("there is no method %s", name)
		}
	}
}

// nameNode makes a request one of a node. It returns false for a request that names none.
func nameNode(req any, id string) bool {
	register, ok := req.(*structs.NodeRegisterRequest)
	if ok {
		register.Node = &structs.Node{ID: id}
		return true
	}
	field := reflect.ValueOf(req).Elem().FieldByName("NodeID")
	if !field.IsValid() {
		return false
	}
	field.SetString(id)
	return true
}
