package node_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// registers returns the request of a node that shows the ID of a cluster.
func registers(id, cluster string) *structs.NodeRegisterRequest {
	return &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:       id,
			SecretID: endpointstest.SecretOf(id),
			Name:     "name-" + id,
		},
		ClusterID: cluster,
	}
}

func TestNodeRegister_TellsTheCluster(t *testing.T) {
	s := endpointstest.New(t)
	first := endpointstest.Must(s, structs.NodeRegister, registers("n1", "")).ClusterID
	if first == "" || first != trust.ClusterID(s.Store.Read()) {
		t.Fatalf("the cluster is %q, its row has %q", first, trust.ClusterID(s.Store.Read()))
	}
	for _, node := range []string{"n1", "n2"} {
		if got := endpointstest.Must(s, structs.NodeRegister, registers(node, "")).ClusterID; got != first {
			t.Errorf("%s: the cluster is %q, then %q", node, first, got)
		}
	}
	endpointstest.Must(s, structs.NodeRegister, registers("n3", first))
}

func TestNodeRegister_RejectsANodeOfAnotherCluster(t *testing.T) {
	s := endpointstest.New(t) // new and empty
	for range 2 {             // also once it has an ID
		err := endpointstest.Rejected(s, structs.KindConflict, structs.NodeRegister, registers("n1", "another"))
		endpointstest.WantText(t, err, "node name-n1 belongs to cluster another")
		endpointstest.WantText(t, err, "remove the file cluster-id")
	}
	if state.Node(s.Store.Read(), "n1") != nil {
		t.Error("the node has a row")
	}
	endpointstest.Must(s, structs.NodeRegister, registers("n1", "")) // an operator has removed the file
}

// Otherwise an operator of new and empty servers sees no node, and not why.
func TestForeignNodes_AreListedUntilTheyJoin(t *testing.T) {
	s := endpointstest.New(t)
	list := func() []*cluster.ForeignNode {
		return endpointstest.Must(s, cluster.NodeForeignList, &structs.QueryRequest{}).Nodes
	}
	if got := list(); got == nil || len(got) > 0 {
		t.Errorf("got %v, want an empty list", got)
	}

	req := registers("n1", "another")
	req.Node.HTTPAddr = "10.0.0.9:4646"
	req.Allocs = 5
	req.Inventory = &structs.NodeInventory{Held: []structs.CSIHeldClaim{
		{CSIClaimKey: structs.CSIClaimKey{Namespace: "default", VolumeID: "v", AllocID: "a"}},
	}}
	err := endpointstest.Rejected(s, structs.KindConflict, structs.NodeRegister, req)
	want := cluster.ForeignNode{
		ID:        "n1",
		Name:      "name-n1",
		HTTPAddr:  "10.0.0.9:4646",
		ClusterID: "another",
		Allocs:    5,
		Volumes:   1,
		Asked:     s.Now().UnixNano(),
		Reason:    err.Error(),
	}
	if got := list(); len(got) != 1 || *got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}

	endpointstest.Must(s, structs.NodeRegister, registers("n1", ""))
	if got := list(); len(got) > 0 {
		t.Errorf("a node that has joined is listed: %+v", got[0])
	}
}

// Servers that were restored from an archive of the node's cluster are that cluster.
func TestNodeRegister_TakesANodeThatItKnows(t *testing.T) {
	s := endpointstest.New(t)
	first := endpointstest.Must(s, structs.NodeRegister, registers("n1", "")).ClusterID
	if got := endpointstest.Must(s, structs.NodeRegister, registers("n1", "another")).ClusterID; got != first {
		t.Errorf("the node joins %q, want %q", got, first)
	}
}

// A node takes an empty list of its claims for their loss, and kills the allocations that use the volumes.
func TestClaimList_OfAnUnknownNodeIsNoEmptyList(t *testing.T) {
	s := endpointstest.New(t)
	req := &structs.CSIClaimListRequest{NodeID: "n1"}
	endpointstest.Rejected(s, structs.KindNotFound, structs.CSIClaimList, req)
	endpointstest.Must(s, structs.NodeRegister, registers("n1", ""))
	endpointstest.Must(s, structs.CSIClaimList, req)
}
