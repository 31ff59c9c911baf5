package endpoints

import (
	"cmp"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"berth/endpoints/query"
	"berth/state"
	"berth/structs"
)

// list says of each claim that does not let its allocation go on what it waits for as of now. Claims come volume by
// volume, each volume's in the order of its line.
func (c claims) list(tx *state.ReadTx, req *structs.CSIClaimListRequest, resp *structs.CSIClaimListResponse) (err error) {
	reason := state.Reasons(tx)
	if req.NodeID != "" || req.Reverse || req.Sort != "" { // not line by line
		reason = func(row *structs.CSIClaim) string { return state.ClaimBlocked(tx, row) }
	}
	l := query.List[structs.CSIClaim, structs.CSIClaim]{Key: lineKey, Stub: func(row *structs.CSIClaim) *structs.CSIClaim {
		stub := row.Copy()
		stub.Reason = reason(row)
		return stub
	}}
	l.Keep = func(row *structs.CSIClaim) bool {
		return inNamespace(row.Namespace, &req.QueryOptions) && (req.NodeID == "" || row.NodeID == req.NodeID) && strings.HasPrefix(row.VolumeID, req.Prefix)
	}
	rows, err := claimRows(tx, req, l.Keep)
	if err == nil {
		resp.Claims, err = l.Page(rows, &req.QueryOptions, &resp.QueryMeta)
	}
	return err
}

// claimRows are the rows that a page of claims looks at.
func claimRows(tx *state.ReadTx, req *structs.CSIClaimListRequest, keep func(*structs.CSIClaim) bool) (iter.Seq[*structs.CSIClaim], error) {
	q, ns := &req.QueryOptions, req.RequestNamespace()
	from, err := fromLineToken(q)
	if err != nil {
		return nil, err
	}
	w := query.WindowOf[structs.CSIClaim](q, compareLines)
	w.Keep = func(c *structs.CSIClaim) bool { return (from == nil || w.Compare(c, from) >= 0) && keep(c) }
	switch {
	case req.VolumeID != "":
		if rows, sorted := state.LineFrom(tx, ns, req.VolumeID, from, q.Reverse); sorted {
			return rows, nil
		}
		return w.Sorted(state.ClaimsOf(tx, ns, req.VolumeID), sameLine), nil
	case req.NodeID != "":
		return w.Sorted(state.ClaimsByNode(tx, req.NodeID), nil), nil
	}
	at := state.Page{Reverse: q.Reverse}
	if from != nil {
		at.From = []string{from.Namespace, from.VolumeID} // whose line is looked at as a whole
	}
	return w.Sorted(state.ClaimsFrom(tx, ns, req.Prefix, at), sameLine), nil
}

func sameLine(a, b *structs.CSIClaim) bool {
	return a.VolumeID == b.VolumeID && a.Namespace == b.Namespace
}

func compareLines(a, b *structs.CSIClaim) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.VolumeID, b.VolumeID),
		cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Seq, b.Seq))
}

// lineKey orders the claims of each volume by their place in its line.
func lineKey(c *structs.CSIClaim) []string {
	return []string{c.Namespace, c.VolumeID, fmt.Sprintf("%020d", c.CreateIndex), fmt.Sprintf("%09d", c.Seq)}
}

// fromLineToken is a claim in the place that a token names, nil for none.
func fromLineToken(q *structs.QueryOptions) (*structs.CSIClaim, error) {
	key, err := query.ParseToken(q.NextToken)
	if key == nil || err != nil || q.Sort != "" {
		return nil, err
	}
	c := &structs.CSIClaim{}
	if len(key) == 4 {
		c.Namespace, c.VolumeID = key[0], key[1]
		c.CreateIndex, err = strconv.ParseUint(key[2], 10, 64)
		if err == nil {
			c.Seq, err = strconv.Atoi(key[3])
		}
	}
	if len(key) != 4 || err != nil {
		return nil, structs.Errorf(structs.KindInvalid, "the page token %q is not one that a list of claims gave", q.NextToken)
	}
	return c, nil
}
