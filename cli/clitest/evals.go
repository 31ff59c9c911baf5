package clitest

import (
	"context"
	"slices"
	"strings"
	"time"

	"berth/api/apitest"
	"berth/structs"
)

func evaluations() []*structs.Evaluation {
	rejected := map[string]*structs.AllocMetric{
		"app": {
			NodesEvaluated:    2,
			CoalescedFailures: 1,
			Rejections: []*structs.PlacementRejection{
				{Filter: "resources", Reason: "cpu: 9000 MHz asked for, 1200 MHz free at most", Nodes: 1},
				{Filter: "csi-plugin", Reason: "plugin hostpath is not healthy there", Nodes: 1},
			},
		},
	}
	return []*structs.Evaluation{
		{
			ID:          eval1,
			JobID:       "web",
			Type:        "service",
			Priority:    50,
			TriggeredBy: "job-register",
			Status:      "complete",
			CreateTime:  nanosBefore(time.Hour),
			ModifyTime:  nanosBefore(time.Hour),
			Indexes:     structs.Indexes{CreateIndex: 9},
		},
		{
			ID:                eval2,
			JobID:             "big",
			Type:              "service",
			Priority:          50,
			TriggeredBy:       "job-register",
			Status:            "complete",
			BlockedEval:       "b2b2b2b2-0",
			FailedTGAllocs:    rejected,
			QueuedAllocations: map[string]int{"app": 2},
			CreateTime:        nanosBefore(time.Minute),
			Indexes:           structs.Indexes{CreateIndex: 12},
		},
		{
			ID:          "b2b2b2b2-0000-0000-0000-000000000002",
			JobID:       "big",
			Type:        "service",
			TriggeredBy: "queued-allocs",
			Status:      "blocked",
			BlockedOn:   []string{"capacity", "csi-plugin:hostpath"},
			CreateTime:  nanosBefore(time.Minute),
			Indexes:     structs.Indexes{CreateIndex: 12},
		},
		{
			ID:          eval3,
			JobID:       "new",
			Type:        "service",
			TriggeredBy: "job-register",
			Status:      "complete",
			Indexes:     structs.Indexes{CreateIndex: 15},
		},
	}
}

// batchEvaluations returns the evaluations of an update of a system job.
func batchEvaluations() []*structs.Evaluation {
	return []*structs.Evaluation{
		{
			ID:          eval4,
			JobID:       "batches",
			Type:        "system",
			TriggeredBy: "job-register",
			Status:      "complete",
			NextEval:    eval5,
			Indexes:     structs.Indexes{CreateIndex: 16},
		},
		{
			ID:           eval5,
			JobID:        "batches",
			Type:         "system",
			TriggeredBy:  "rolling-update",
			Status:       "complete",
			PreviousEval: eval4,
			CreateTime:   nanosBefore(0),
			WaitUntil:    nanosBefore(-30 * time.Second),
			Indexes:      structs.Indexes{CreateIndex: 16},
		},
	}
}

func (w *Cluster) answerEvals() {
	c := w.Caller
	fakeDeployments(c)
	apitest.On(c, structs.EvalGet, func(_ context.Context, r *structs.EvalGetRequest) (
		*structs.EvalGetResponse, error,
	) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.reads[r.EvalID]++
		for _, e := range slices.Concat(evaluations(), batchEvaluations()) {
			if e.ID == r.EvalID {
				if (e.ID == eval3 || e.ID == eval5) && w.reads[e.ID] == 1 {
					e.Status = "pending"
				}
				return &structs.EvalGetResponse{Eval: e, QueryMeta: jobMeta}, nil
			}
		}
		return nil, NotFound("evaluation", r.EvalID)
	})
	apitest.On(c, structs.EvalList, func(_ context.Context, r *structs.EvalListRequest) (
		*structs.EvalListResponse, error,
	) {
		evals := slices.DeleteFunc(evaluations(),
			func(e *structs.Evaluation) bool {
				return !strings.HasPrefix(e.ID, r.Prefix) ||
					r.JobID != "" && r.JobID != e.JobID || r.Status != "" && r.Status != e.Status
			})
		resp := &structs.EvalListResponse{Evaluations: evals, QueryMeta: jobMeta}
		if n := int(r.PerPage); n > 0 && n < len(evals) && r.NextToken == "" {
			resp.Evaluations = evals[:n]
			resp.NextToken = "bmV4dA"
		}
		return resp, nil
	})
	apitest.On(c, structs.EvalDelete, func(_ context.Context, r *structs.EvalDeleteRequest) (
		*structs.EvalDeleteResponse, error,
	) {
		if r.Filter != "" {
			return &structs.EvalDeleteResponse{Count: 7}, nil
		}
		return &structs.EvalDeleteResponse{Count: len(r.EvalIDs)}, nil
	})
	apitest.On(c, structs.EvalAllocs, func(_ context.Context, r *structs.EvalGetRequest) (
		*structs.AllocListResponse, error,
	) {
		found := w.findAllocs(func(a *structs.Allocation) bool {
			return a.EvalID == r.EvalID
		})
		return &structs.AllocListResponse{Allocations: found}, nil
	})
	apitest.On(c, structs.AllocList, func(_ context.Context, r *structs.QueryRequest) (
		*structs.AllocListResponse, error,
	) {
		found := w.findAllocs(func(a *structs.Allocation) bool {
			return strings.HasPrefix(a.ID, r.Prefix)
		})
		return &structs.AllocListResponse{Allocations: found}, nil
	})
	apitest.On(c, structs.AllocGet, func(_ context.Context, r *structs.AllocGetRequest) (
		*structs.AllocGetResponse, error,
	) {
		for _, a := range w.allocs() {
			if a.ID == r.AllocID {
				w.mu.Lock()
				defer w.mu.Unlock()
				if a.JobID == "fleet" {
					return &structs.AllocGetResponse{Alloc: a, QueryMeta: jobMeta}, nil
				}
				if w.reads["stop"] > 0 {
					w.reads["stop"]++
				}
				if w.reads["stop"] > 2 {
					a.ClientStatus = "complete"
				}
				return &structs.AllocGetResponse{Alloc: a, QueryMeta: jobMeta}, nil
			}
		}
		return nil, NotFound("allocation", r.AllocID)
	})
	apitest.On(c, structs.AllocStop, func(_ context.Context, r *structs.AllocStopRequest) (
		*structs.AllocStopResponse, error,
	) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.reads["stop"] = 1
		w.reads["stop "+r.AllocID] = 1
		return &structs.AllocStopResponse{EvalID: eval3}, nil
	})
}
