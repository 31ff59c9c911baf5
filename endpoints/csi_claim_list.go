package endpoints

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"berth/state"
	"berth/structs"
)

// list says of each claim that does not let its allocation go on what it waits for as of now. Claims come volume by
// volume, each volume's in the order of its line.
func (c claims) list(tx *state.Read, req *structs.CSIClaimListRequest, resp *structs.CSIClaimListResponse) (err error) {
	reason := state.Reasons(tx)
	if req.NodeID != "" || req.Reverse { // not line by line
		reason = func(row *structs.CSIClaim) string { return state.ClaimBlocked(tx, row) }
	}
	l := listing[structs.CSIClaim, structs.CSIClaim]{Key: lineKey, Stub: func(row *structs.CSIClaim) *structs.CSIClaim {
		stub := row.Copy()
		stub.Reason = reason(row)
		return stub
	}}
	l.Keep = func(row *structs.CSIClaim) bool {
		return inNamespace(row.Namespace, &req.QueryOptions) && (req.NodeID == "" || row.NodeID == req.NodeID) && strings.HasPrefix(row.VolumeID, req.Prefix)
	}
	rows, err := claimRows(tx, req, l.Keep)
	if err == nil {
		resp.Claims, err = l.page(rows, &req.QueryOptions, &resp.QueryMeta)
	}
	return err
}

// claimRows are the rows that a page of claims looks at.
func claimRows(tx *state.Read, req *structs.CSIClaimListRequest, keep func(*structs.CSIClaim) bool) (iter.Seq[*structs.CSIClaim], error) {
	q, ns := &req.QueryOptions, req.RequestNamespace()
	from, err := fromLineToken(q.NextToken)
	if err != nil {
		return nil, err
	}
	w := window{from: from, keep: keep, back: q.Reverse}
	if q.PerPage > 0 && q.Filter == "" && !q.Stream {
		w.most = int(q.PerPage) + 1 // and the first of the next page
	}
	switch {
	case req.VolumeID != "":
		if rows, sorted := state.LineFrom(tx, ns, req.VolumeID, from, q.Reverse); sorted {
			return rows, nil
		}
		return w.inLines(state.ClaimsOf(tx, ns, req.VolumeID)), nil
	case req.NodeID != "":
		return w.inOrder(state.ClaimsByNode(tx, req.NodeID)), nil
	}
	at := state.Start{Reverse: q.Reverse}
	if from != nil {
		at.Key = []string{from.Namespace, from.VolumeID} // whose line is looked at as a whole
	}
	return w.inLines(state.ClaimsFrom(tx, ns, req.Prefix, at)), nil
}

// window puts claims into line order and keeps, of those that are to be kept, as many as a page needs.
type window struct {
	from *structs.CSIClaim // where the page begins, nil is the beginning
	keep func(*structs.CSIClaim) bool
	back bool
	most int // 0 is all
	rows []*structs.CSIClaim
}

func (w *window) compare(a, b *structs.CSIClaim) int {
	order := cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.VolumeID, b.VolumeID),
		cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Seq, b.Seq))
	if w.back {
		return -order
	}
	return order
}

func (w *window) add(c *structs.CSIClaim) {
	if w.from != nil && w.compare(c, w.from) < 0 || !w.keep(c) {
		return
	}
	if w.rows = append(w.rows, c); w.most > 0 && len(w.rows) >= 4*w.most {
		w.sort()
	}
}

func (w *window) sort() {
	slices.SortFunc(w.rows, w.compare)
	if w.most > 0 {
		w.rows = w.rows[:min(len(w.rows), w.most)]
	}
}

// take gives what is in the window away.
func (w *window) take(yield func(*structs.CSIClaim) bool) bool {
	w.sort()
	for _, c := range w.rows {
		if !yield(c) {
			return false
		}
	}
	w.rows = w.rows[:0]
	return true
}

// inOrder is for claims that come in any order.
func (w window) inOrder(rows iter.Seq[*structs.CSIClaim]) iter.Seq[*structs.CSIClaim] {
	return func(yield func(*structs.CSIClaim) bool) {
		own := w
		for c := range rows {
			own.add(c)
		}
		own.take(yield)
	}
}

// inLines is for claims of which those of each volume come together: one volume's at a time.
func (w window) inLines(rows iter.Seq[*structs.CSIClaim]) iter.Seq[*structs.CSIClaim] {
	return func(yield func(*structs.CSIClaim) bool) {
		own := w
		var last *structs.CSIClaim
		for c := range rows {
			if last != nil && (last.VolumeID != c.VolumeID || last.Namespace != c.Namespace) && !own.take(yield) {
				return
			}
			last = c
			own.add(c)
		}
		own.take(yield)
	}
}

// lineKey orders the claims of each volume by their place in its line.
func lineKey(c *structs.CSIClaim) []string {
	return []string{c.Namespace, c.VolumeID, fmt.Sprintf("%020d", c.CreateIndex), fmt.Sprintf("%09d", c.Seq)}
}

// fromLineToken is a claim in the place that a token names, nil for none.
func fromLineToken(token string) (*structs.CSIClaim, error) {
	key, err := fromToken(token)
	if key == nil || err != nil {
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
		return nil, structs.Errorf(structs.KindInvalid, "the page token %q is not one that a list of claims gave", token)
	}
	return c, nil
}
