package cluster_test

import (
	"testing"

	"berth/structs"
	rows "berth/structs/cluster"
	"berth/test/cluster"
)

func transferLeadership(s *cluster.Server, req *rows.RaftTransferRequest) error {
	_, err := callWithin(s, cluster.Patience, rows.OperatorTransfer, req)
	return err
}

// transferTo has a server lead. It repeats the request while that server does not take over in time or seems
// to have failed, as on a busy machine, and while the outcome is unknown: the leader may change before it
// answers.
func transferTo(
	t *testing.T, c *cluster.Cluster, at, want *cluster.Server, req *rows.RaftTransferRequest,
) {
	t.Helper()
	c.Await(want.Name+" is to lead", func() bool {
		err := transferLeadership(at, req)
		again := structs.IsKind(err, structs.KindUnavailable) || structs.IsKind(err, structs.KindTimeout) ||
			structs.IsKind(err, structs.KindPrecondition)
		if err != nil && !again {
			t.Fatal(err)
		}
		return err == nil
	})
	checkLeads(t, c, want)
}

// checkLeads fails the test unless a server leads once the transfer has succeeded, without an election by
// timeout: the answer comes after the new leader is known.
func checkLeads(t *testing.T, c *cluster.Cluster, want *cluster.Server) {
	t.Helper()
	c.Await(want.Name+" leads", func() bool {
		_, isMe, known, _ := want.Current().Leader()
		return known && isMe
	})
}

func TestTransferLeadership_MakesTheServerLead(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections)
	leader := c.Leader()
	first := c.Others(leader)[0]
	second := c.Others(leader)[1]
	awaitAllVote(t, c)

	// A follower forwards the request to the leader.
	id := peerOf(t, leader, first, "").ID
	transferTo(t, c, second, first, &rows.RaftTransferRequest{ID: id})
	address := second.Current().RPCAddr()
	transferTo(t, c, first, second, &rows.RaftTransferRequest{Address: address})
	if err := transferLeadership(first, &rows.RaftTransferRequest{Address: address}); err != nil {
		t.Errorf("the server leads already: %v", err)
	}
	checkError(t, transferLeadership(first, &rows.RaftTransferRequest{ID: "nobody"}),
		structs.KindNotFound, "nobody", id)
	checkError(t, transferLeadership(first, &rows.RaftTransferRequest{}), structs.KindInvalid, "either")
	checkError(t, transferLeadership(first, &rows.RaftTransferRequest{ID: id, Address: address}),
		structs.KindInvalid, "either")

	dead := killAndAwaitFailed(c, t, leader, second)
	checkError(t, transferLeadership(first, &rows.RaftTransferRequest{ID: dead}),
		structs.KindPrecondition, leader.Name, "is not alive")
	checkLeads(t, c, second)
}
