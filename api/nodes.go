package api

import "berth/structs"

var (
	nodeList        = list(structs.NodeList, nil, func(a *structs.NodeListResponse) []*structs.NodeListStub { return a.Nodes })
	nodeGet         = read(structs.NodeGet, bindNode, func(a *structs.NodeGetResponse) any { return a.Node })
	nodeAllocations = read(structs.NodeAllocs, bindNode, func(a *structs.AllocsResponse) any { return a.Allocs })
	nodeEvaluate    = write(structs.NodeEvaluate, bindNodeWrite, same[structs.NodeEvaluateResponse])
	nodeEligibility = write(structs.NodeEligibility, bindNodeEligibility, nodeWritten)
	nodePurge       = write(structs.NodeDeregister, bindNodePurge, nodeWritten)
)

// nodeWritten is the dialect's answer to a change of a node. berth makes the evaluations that follow
// from it inside the log entry, so it names none.
func nodeWritten(e *structs.Empty) any {
	return &structs.NodeEvaluateResponse{NodeModifyIndex: e.Index, WriteMeta: e.WriteMeta}
}

func bindNode(c *call, q *structs.NodeGetRequest) error {
	q.NodeID = c.id()
	return nil
}

func bindNodeWrite(c *call, req *structs.NodeGetWriteRequest) error {
	req.NodeID = c.id()
	return c.optionalBody(&dialectOptions{})
}

func bindNodePurge(c *call, req *structs.NodeDeregisterRequest) error {
	req.NodeIDs = []string{c.id()}
	return c.optionalBody(&dialectOptions{})
}

func bindNodeEligibility(c *call, req *structs.NodeEligibilityRequest) error {
	var b struct{ NodeID, Eligibility string }
	if err := c.body(&b); err != nil {
		return err
	}
	if b.Eligibility != structs.NodeEligible && b.Eligibility != structs.NodeIneligible {
		return structs.Errorf(structs.KindInvalid, "Eligibility: expected %q or %q, found %q", structs.NodeEligible, structs.NodeIneligible, b.Eligibility)
	}
	req.NodeID, req.Eligibility = c.id(), b.Eligibility
	return c.sameID("node", b.NodeID)
}
