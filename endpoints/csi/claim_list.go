package csi

import (
	"cmp"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"berth/endpoints/query"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// ListAll lists claims with their causes.
func (c Claims) ListAll(
	tx *state.ReadTx,
	req *structs.VolumeClaimListRequest,
	resp *structs.VolumeClaimListResponse,
) error {
	inner := &structs.CSIClaimListRequest{
		VolumeID:     req.VolumeID,
		NodeID:       req.NodeID,
		QueryOptions: req.QueryOptions,
	}
	rows, err := claimRows(tx, inner)
	if err != nil {
		return err
	}

	// The stub reads the rows that explain a claim, for the claims of the page alone.
	l := query.List[structs.CSIClaim, structs.VolumeClaimStub]{
		Key:  claimKey,
		Stub: claimStub(tx),
		Keep: func(row *structs.CSIClaim) bool {
			return selectsClaim(req, row) && inNamespace(row.Namespace, req)
		},
	}
	resp.Claims, err = l.Page(rows, req, resp)
	return err
}

// List returns why each claim of a waiting allocation waits, as of now. Claims come volume by volume, and
// within a volume in the order of its queue.
func (c Claims) List(
	tx *state.ReadTx,
	req *structs.CSIClaimListRequest,
	resp *structs.CSIClaimListResponse,
) error {
	// In the order of the queues one pass explains all claims. In another order each claim costs a pass over
	// its queue.
	reason := csi.Reasons(tx)
	if req.NodeID != "" || req.Reverse || req.Sort != "" { // not queue by queue
		reason = func(row *structs.CSIClaim) string {
			return csi.ClaimBlocked(tx, row)
		}
	}

	l := query.List[structs.CSIClaim, structs.CSIClaim]{
		Key: claimKey,
		Stub: func(row, stub *structs.CSIClaim) {
			*stub = *row
			stub.Reason = reason(row)
		},

		Keep: func(row *structs.CSIClaim) bool {
			onNode := req.NodeID == "" || row.NodeID == req.NodeID
			return onNode &&
				inNamespace(row.Namespace, req) &&
				strings.HasPrefix(row.VolumeID, req.Prefix)
		},
	}

	rows, err := claimRows(tx, req)
	if err != nil {
		return err
	}

	resp.Claims, err = l.Page(rows, req, resp)
	// The node is looked for only now, since an ended one may have claims still.
	if err == nil && len(resp.Claims) == 0 && req.NodeID != "" && state.Node(tx, req.NodeID) == nil {
		// A node would take an empty list for the loss of all its claims.
		return structs.NotFoundf("there is no node %q, and no claim of it", req.NodeID)
	}
	return err
}

// claimRows returns the rows that a page of claims reads, in the order of the list.
func claimRows(
	tx *state.ReadTx,
	req *structs.CSIClaimListRequest,
) (iter.Seq[*structs.CSIClaim], error) {
	ns := req.RequestNamespace()
	q := &req.QueryOptions
	from, err := claimOfToken(q)
	if err != nil {
		return nil, err
	}

	switch {
	// A token begins in the middle of a queue, which can hold thousands of claims.
	case req.VolumeID != "":
		page := csi.QueuePage{From: from, Reverse: q.Reverse}
		rows, inOrder := csi.QueueFrom(tx, ns, req.VolumeID, page)
		if inOrder {
			return rows, nil
		}

		// The index of classes lacks some claims of this volume, so all are read and sorted.
		rows = csi.ClaimsOf(tx, ns, req.VolumeID)
		return query.Sorted(rows, compareClaims, q), nil

	case req.NodeID != "":
		rows := csi.ClaimsByNode(tx, req.NodeID)
		return query.Sorted(rows, compareClaims, q), nil
	}

	// Whole queues are read one after the other, so the largest queue bounds the memory for a page.
	page := state.Page{Reverse: q.Reverse}
	if from != nil {
		page.From = []string{from.Namespace, from.VolumeID} // the queue of this volume is read completely
	}

	rows := csi.ClaimsFrom(tx, ns, req.Prefix, page)
	return query.SortedGroups(rows, sameVolume, compareClaims, q), nil
}

// sameVolume tells the groups of SortedGroups.
func sameVolume(a, b *structs.CSIClaim) bool {
	return a.VolumeID == b.VolumeID && a.Namespace == b.Namespace
}

// compareClaims is the order of the queues: Seq orders the claims of one log entry.
func compareClaims(a, b *structs.CSIClaim) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.VolumeID, b.VolumeID),
		cmp.Compare(a.CreateIndex, b.CreateIndex),
		cmp.Compare(a.Seq, b.Seq),
	)
}

// claimKey orders the claims of each volume by their position in its queue. The numbers have a fixed length,
// so as texts they have the order of the numbers.
func claimKey(c *structs.CSIClaim) []string {
	return []string{
		c.Namespace,
		c.VolumeID,
		fmt.Sprintf("%020d", c.CreateIndex),
		fmt.Sprintf("%09d", c.Seq),
	}
}

// claimOfToken returns a claim at the position that a token names, nil for no token.
func claimOfToken(q *structs.QueryOptions) (*structs.CSIClaim, error) {
	key, err := query.ParseToken(q.NextToken)
	// A token of another order names no position in a queue.
	if key == nil || err != nil || q.Sort != "" {
		return nil, err
	}

	c := &structs.CSIClaim{}
	complete := len(key) == 4
	if complete {
		c.Namespace = key[0]
		c.VolumeID = key[1]
		c.CreateIndex, err = strconv.ParseUint(key[2], 10, 64)
		if err == nil {
			c.Seq, err = strconv.Atoi(key[3])
		}
	}

	// A token of another list has other parts.
	if !complete || err != nil {
		return nil, structs.Invalidf(
			"the page token %q is not one that a list of claims gave", q.NextToken)
	}

	return c, nil
}

// A request without a namespace is about the default one.
func inNamespace(ns string, req query.ReadRequest) bool {
	q := req.Query()
	return q.Namespace == structs.AllNamespaces ||
		q.RequestNamespace() == ns
}
