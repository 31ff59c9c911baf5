package job

import (
	"cmp"
	"context"
	"slices"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/endpoints/rights"
	"berth/fsm"
	"berth/internal/loadshed"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// Allocs serve Alloc.
type Allocs struct {
	*core.Server
	dataPages loadshed.Permits // of pages of data that go from node to node
}

// NewAllocs makes the procedures of allocations.
func NewAllocs(s *core.Server) Allocs {
	return Allocs{Server: s, dataPages: make(loadshed.Permits, maxDataPages)}
}

// noAlloc is the error of each method for an allocation that does not exist, or is deleted already.
func noAlloc(id string) error {
	return structs.NotFoundf("there is no allocation %q", id)
}

// allocKey is the position of an allocation in a page: the next page begins after it.
func allocKey(a *structs.Allocation) []string {
	return []string{a.ID}
}

func compareAllocs(a, b *structs.Allocation) int {
	return cmp.Compare(a.ID, b.ID)
}

// allocStubList lists allocations as stubs with the types of their jobs. Stubs have no job: a list of many
// allocations would repeat it in each.
type allocStubList = query.List[structs.Allocation, structs.AllocListStub]

func newAllocStubList(tx *state.ReadTx) allocStubList {
	return allocStubList{
		Key:  allocKey,
		Stub: state.AllocStubs(tx),
	}
}

// allocList lists whole allocations with their jobs.
type allocList = query.List[structs.Allocation, structs.Allocation]

func newAllocList(tx *state.ReadTx) allocList {
	return allocList{
		Key: allocKey,
		Stub: func(a, whole *structs.Allocation) {
			*whole = *state.AllocWithJob(tx, a)
		},
	}
}

// Get reads an allocation with its job, and the volumes that an ended one still holds. The error is
// not-found. An agent asks for the held volumes of the allocation that its own one waits for.
func (a Allocs) Get(
	tx *state.ReadTx,
	req *structs.AllocGetRequest,
	resp *structs.AllocGetResponse,
) error {
	row := state.Alloc(tx, req.AllocID)
	if row == nil {
		return noAlloc(req.AllocID)
	}

	// The rows that allow it are read outside tx: a change of them must not end the wait of the node.
	err := rights.CheckAllocReader(a.Store.Read(), req.NodeID, row)
	if err != nil {
		return err
	}

	resp.Alloc = state.AllocWithJob(tx, row)
	// A successor does not wait for a node that is lost: its claim waits for the release of the volume
	// anyway.
	if row.ClientTerminal() && !state.Node(tx, row.NodeID).Lost() {
		for c := range csi.ClaimsByAlloc(tx, row.ID) {
			resp.HeldVolumes = append(resp.HeldVolumes, c.VolumeID)
		}
	}

	return nil
}

// GetMany leaves out allocations that do not exist and, for a node, another node's. The middleware has
// rejected a wrong secret. An operator may name a node without its secret to narrow the answer. An allocation
// that the request names twice is in the answer once, because each comes with its whole job.
func (a Allocs) GetMany(
	tx *state.ReadTx,
	req *structs.AllocsGetRequest,
	resp *structs.AllocsResponse,
) (err error) {
	// Each comes with its whole job, so the bound is one on the size of the answer.
	if n := len(req.AllocIDs); n > structs.MaxAllocIDs {
		return structs.Invalidf("the request names %d allocations; at most %d are allowed",
			n, structs.MaxAllocIDs)
	}

	// The order makes pages possible, and duplicates neighbours.
	ids := slices.Sorted(slices.Values(req.AllocIDs))
	var rows []*structs.Allocation
	for _, id := range slices.Compact(ids) {
		row := state.Alloc(tx, id)

		if row == nil ||
			// No error: a node asks for a list that it has read before, and some of it may be deleted since.
			req.NodeID != "" && row.NodeID != req.NodeID {
			continue
		}

		rows = append(rows, row)
	}

	resp.Allocs, err = newAllocList(tx).Page(slices.Values(rows), req, resp)
	return err
}

// List lists the allocations of the namespaces of a request by their IDs, as stubs.
func (a Allocs) List(
	tx *state.ReadTx,
	req *structs.QueryRequest,
	resp *structs.AllocListResponse,
) (err error) {
	rows := state.AllocsFrom(tx,
		req.RequestNamespace(),
		req.Prefix,
		query.Start(req))
	resp.Allocations, err = newAllocStubList(tx).Page(rows, req, resp)
	return err
}

// OfNode lists a node's allocations with their jobs, by ID.
func (Allocs) OfNode(
	tx *state.ReadTx,
	req *structs.NodeGetRequest,
	resp *structs.AllocsResponse,
) (err error) {
	// The node is a row of its own: a node without allocations has an empty list, and an unknown one has
	// none.
	if state.Node(tx, req.NodeID) == nil {
		return structs.NotFoundf("there is no node %q", req.NodeID)
	}

	rows := state.AllocsByNode(tx, req.NodeID)
	// The index of nodes is in no order of IDs, which pages need.
	rows = query.Sorted(rows, compareAllocs, req)
	resp.Allocs, err = newAllocList(tx).Page(rows, req, resp)
	return err
}

// Stop requests an evaluation that stops an allocation. The error is not-found, or a precondition if its job
// is gone. The scheduler stops it in the plan that places the replacement.
func (a Allocs) Stop(
	ctx context.Context,
	req *structs.AllocStopRequest,
	resp *structs.AllocStopResponse,
) (uint64, error) {
	tx := a.Store.Read()
	row := state.Alloc(tx, req.AllocID)
	if row == nil {
		return 0, noAlloc(req.AllocID)
	}

	job := state.Job(tx, row.Namespace, row.JobID)
	// As with other triggers the evaluation is of the job, and decides about all of its allocations.
	if job == nil { // it is deleted, but an evaluation stops its allocations
		job = state.AllocWithJob(tx, row).Job
	}

	if job == nil {
		return 0, structs.Preconditionf(
			"the job of allocation %s is gone; it is being stopped already", req.AllocID)
	}

	req.Eval = evaluationOf(job, structs.TriggerAllocStop, req.Now)
	resp.EvalID = req.Eval.ID
	return fsm.Propose(ctx, a.Raft, fsm.AllocStop, req)
}
