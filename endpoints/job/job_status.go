package job

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/internal/mvcc"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// Statuses serves the method that reads the states of jobs with their allocations.
type Statuses struct{ *core.Server }

// List reads a page of states, the last changed job first. It reads the allocations of the jobs of the page
// alone, because the filter is over the rows of jobs.
func (Statuses) List(
	tx *state.ReadTx, req *structs.JobStatusesRequest, resp *structs.JobStatusesResponse,
) error {
	if len(req.Jobs) > structs.MaxJobStatuses {
		return structs.Invalidf("the request names %d jobs; at most %d are allowed",
			len(req.Jobs), structs.MaxJobStatuses)
	}
	if req.Sort != "" {
		return structs.Invalidf("sort is %q; the states of jobs have one order: expected none", req.Sort)
	}

	ordered := &structs.QueryRequest{QueryOptions: req.QueryOptions}
	ordered.Reverse = !req.Reverse
	all, err := statusRows(tx, req, ordered)
	if err != nil {
		return err
	}
	l := query.List[structs.Job, structs.Job]{
		Key:  statusKey,
		Stub: query.Whole[structs.Job],
		Keep: func(j *structs.Job) bool { return req.IncludeChildren || j.ParentID == "" },
	}
	jobs, err := l.Page(all, ordered, resp)
	if err != nil {
		return err
	}

	resp.Jobs = make([]*structs.JobStatus, 0, len(jobs))
	for _, j := range jobs {
		resp.Jobs = append(resp.Jobs, statusOf(tx, j))
	}
	if each := resp.Rows; each != nil {
		resp.Rows = func(do func(row any) error) error {
			return each(func(row any) error { return do(statusOf(tx, row.(*structs.Job))) })
		}
	}
	return nil
}

// statusKey is the position of a job in the list: a token has it, so the number is a text.
func statusKey(j *structs.Job) []string {
	return []string{fmt.Sprintf("%020d", j.ModifyIndex), j.Namespace, j.ID}
}

// statusRows yields the jobs that a request names, or all, of its namespaces, in the order of a list.
func statusRows(
	tx *state.ReadTx, req *structs.JobStatusesRequest, ordered *structs.QueryRequest,
) (iter.Seq[*structs.Job], error) {
	if len(req.Jobs) > 0 {
		compare := func(a, b *structs.Job) int { return slices.Compare(statusKey(a), statusKey(b)) }
		return query.Sorted(namedJobs(tx, req), compare, ordered), nil
	}

	at := state.Page{Reverse: ordered.Reverse}
	token, err := query.ParseToken(req.NextToken)
	if err != nil {
		return nil, err
	}
	if token != nil {
		index, err := strconv.ParseUint(token[0], 10, 64)
		if err != nil || len(token) != len(statusKey(&structs.Job{})) {
			return nil, structs.Invalidf("the page token %q is not one that this list gave",
				structs.Cut(req.NextToken, structs.MaxQuoted))
		}
		at.From = []string{mvcc.Ordered(index), token[1], token[2]}
	}
	ns := req.RequestNamespace()
	return schema.Filter(schema.JobsByChange.Range(tx, nil, at), func(j *structs.Job) bool {
		return schema.InNamespace(j.Namespace, ns) && strings.HasPrefix(j.ID, req.Prefix)
	}), nil
}

// namedJobs yields the jobs that a request names, each once.
func namedJobs(tx *state.ReadTx, req *structs.JobStatusesRequest) iter.Seq[*structs.Job] {
	ns := req.RequestNamespace()
	return func(yield func(*structs.Job) bool) {
		seen := map[structs.JobName]bool{}
		for _, name := range req.Jobs {
			name.Namespace = cmp.Or(name.Namespace, ns)
			// The right was asked for the namespaces of the request.
			if seen[name] || !schema.InNamespace(name.Namespace, ns) {
				continue
			}
			seen[name] = true
			j := state.Job(tx, name.Namespace, name.ID)
			if j != nil && !yield(j) {
				return
			}
		}
	}
}

func statusOf(tx *state.ReadTx, j *structs.Job) *structs.JobStatus {
	s := &structs.JobStatus{
		ID:               j.ID,
		Namespace:        j.Namespace,
		Name:             j.Name,
		Type:             j.Type,
		NodePool:         j.NodePool,
		Datacenters:      j.Datacenters,
		Priority:         j.Priority,
		Version:          j.Version,
		SubmitTime:       j.SubmitTime,
		ModifyIndex:      j.ModifyIndex,
		Status:           j.Status,
		Stop:             j.Stop,
		IsPack:           j.Meta["pack.name"] != "",
		ParentID:         j.ParentID,
		Allocs:           []*structs.AllocStatus{},
		LatestDeployment: latestDeployment(tx, j),
	}
	for _, g := range j.TaskGroups {
		s.GroupCountSum += g.Count
	}
	for a := range state.AllocsByJob(tx, j.Namespace, j.ID) {
		if a.CreateIndex >= j.CreateIndex {
			s.Allocs = append(s.Allocs, allocStatus(a))
		}
	}
	if j.StartsOthers() {
		s.ChildStatuses = []string{}
		for child := range state.ChildJobs(tx, j.Namespace, j.ID) {
			s.ChildStatuses = append(s.ChildStatuses, child.Status)
		}
	}
	return s
}

func allocStatus(a *structs.Allocation) *structs.AllocStatus {
	s := &structs.AllocStatus{
		ID:             a.ID,
		Group:          a.TaskGroup,
		ClientStatus:   a.ClientStatus,
		NodeID:         a.NodeID,
		JobVersion:     a.JobVersion,
		FollowupEvalID: a.FollowupEvalID,
	}
	if d := a.DeploymentStatus; d != nil {
		s.DeploymentStatus = structs.AllocHealth{Canary: d.Canary, Healthy: d.Healthy}
	}
	return s
}

// latestDeployment returns nil for a job without a deployment. That of an earlier job of the same ID is none.
func latestDeployment(tx *state.ReadTx, j *structs.Job) *structs.DeploymentSummary {
	d := state.LatestDeployment(tx, j.Namespace, j.ID)
	if d == nil || d.JobCreateIndex != j.CreateIndex {
		return nil
	}
	return &structs.DeploymentSummary{
		ID:                d.ID,
		IsActive:          d.Active(),
		JobVersion:        d.JobVersion,
		Status:            d.Status,
		StatusDescription: d.StatusDescription,
		AllAutoPromote:    d.AutoPromotes(),
		RequiresPromotion: d.Active() && d.AwaitsPromotion(),
	}
}
