package clitest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/cluster"
)

// answerChanges answers the changes of the job fleet, once it is registered, and the dispatches and launches
// of the jobs that are stored.
func (w *Cluster) answerChanges() {
	c := w.Caller
	control := w.Agent.Control
	w.Agent.Control = func(act string) error {
		words := strings.Fields(act)
		if !strings.HasPrefix(act, "restart") || !strings.Contains(act, "f0f0f0f") {
			return control(act)
		}

		id := slices.IndexFunc(words, func(s string) bool { return strings.HasPrefix(s, "f0f0f0f") })
		return w.restartFleet(words[id])
	}

	w.answerScale()
	key := &cluster.RootKeyMeta{KeyID: "k2"}
	apitest.Answer(c, cluster.KeyringRotate, cluster.KeyringRotateResponse{Key: key})
	apitest.On(c, structs.JobRevert, func(_ context.Context, r *structs.JobRevertRequest) (
		*structs.JobRegisterResponse, error,
	) {
		return w.changeFleet(r.JobID, func(j *structs.Job) error {
			prior := r.EnforcePriorVersion
			if prior != nil && *prior != j.Version {
				return structs.Conflictf("enforcing version %d: job %q is at version %d", *prior, j.ID, j.Version)
			}

			if r.JobVersion != 0 {
				return structs.NotFoundf("there is no version %d of job %q", r.JobVersion, j.ID)
			}

			return nil
		})
	})

	apitest.On(c, structs.JobEvaluate, func(_ context.Context, r *structs.JobEvaluateRequest) (
		*structs.JobRegisterResponse, error,
	) {
		_, err := w.job(r.JobID)
		switch {
		case r.ForceReschedule:
			return &structs.JobRegisterResponse{EvalID: eval1}, err
		case r.JobID == "big":
			return &structs.JobRegisterResponse{EvalID: eval2}, err
		}
		return &structs.JobRegisterResponse{EvalID: eval3}, err
	})

	apitest.On(c, structs.JobDispatch, w.dispatch)
	apitest.On(c, structs.PeriodicForce, func(_ context.Context, r *structs.PeriodicForceRequest) (
		*structs.PeriodicForceResponse, error,
	) {
		_, err := w.job(r.JobID)
		return &structs.PeriodicForceResponse{EvalID: eval1}, err
	})
}

func (w *Cluster) dispatch(_ context.Context, r *structs.JobDispatchRequest) (
	*structs.JobDispatchResponse, error,
) {
	if _, err := w.job(r.JobID); err != nil {
		return nil, err
	}

	if r.Meta["who"] == "" {
		return nil, structs.Invalidf("Meta: job %q requires a value for %q", r.JobID, "who")
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads["dispatch "+r.IdempotencyToken]++
	resp := &structs.JobDispatchResponse{
		DispatchedJobID: fmt.Sprintf("%s/dispatch-%s%d-%d",
			r.JobID, r.IDPrefixTemplate, len(r.Payload), r.Priority),
		EvalID: eval1,
	}

	if r.IdempotencyToken != "" && w.reads["dispatch "+r.IdempotencyToken] > 1 {
		resp.EvalID = ""
	}

	return resp, nil
}

// answerScale changes the counts of groups, and keeps the events.
func (w *Cluster) answerScale() {
	c := w.Caller
	scaled := map[string][]*structs.ScalingEvent{} // by job and group
	apitest.On(c, structs.JobScale, func(_ context.Context, r *structs.JobScaleRequest) (
		*structs.JobRegisterResponse, error,
	) {
		return w.changeFleet(r.JobID, func(j *structs.Job) error {
			g := j.Group(r.Group)
			if g == nil {
				return structs.NotFoundf("job %q has no group %q", j.ID, r.Group)
			}

			key := r.JobID + "/" + g.Name
			all := scaled[key]
			e := &structs.ScalingEvent{
				Time:          time.Date(2026, 1, 2, 3, 4, len(all), 0, time.UTC).UnixNano(),
				PreviousCount: int64(g.Count),
				Count:         r.Count,
				Message:       r.Message,
				EvalID:        new(eval1),
			}

			scaled[key] = append([]*structs.ScalingEvent{e}, all...)
			g.Count = int(*r.Count)
			return nil
		})
	})

	apitest.On(c, structs.JobScaleStatus, func(_ context.Context, r *structs.JobGetRequest) (
		*structs.JobScaleStatusResponse, error,
	) {
		job, err := w.job(r.JobID)
		if err != nil {
			return nil, err
		}

		out := &structs.JobScaleCounts{JobID: job.ID, TaskGroups: map[string]*structs.TaskGroupScaleStatus{}}
		for _, g := range job.TaskGroups {
			events := scaled[job.ID+"/"+g.Name]
			out.TaskGroups[g.Name] = &structs.TaskGroupScaleStatus{Desired: g.Count, Events: events}
		}

		return &structs.JobScaleStatusResponse{JobScaleStatus: out}, nil
	})
}

// changeFleet makes a new version of the job fleet, at once with all its allocations.
func (w *Cluster) changeFleet(id string, change func(*structs.Job) error) (
	*structs.JobRegisterResponse, error,
) {
	old, err := w.job(id)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	j := old.Copy()
	j.TaskGroups = []*structs.TaskGroup{new(*old.TaskGroups[0])}
	err = change(j)
	if err != nil {
		return nil, err
	}
	j.Version++
	w.jobs[id] = j
	return &structs.JobRegisterResponse{EvalID: eval1}, nil
}

// restartFleet restarts an allocation of the job fleet: it runs again from its second read on. The third one
// cannot restart. None can while another one does not run yet.
func (w *Cluster) restartFleet(id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case strings.HasPrefix(id, "f0f0f0f2"):
		return structs.Preconditionf("the task does not run")
	case w.restarting != "":
		return structs.Conflictf("allocation %s does not run yet", w.restarting)
	}
	w.restarting = id
	return nil
}

// fleet returns the allocations of the job fleet. One that is stopped has a successor, which runs from its
// second read on.
func (w *Cluster) fleet() (all []*structs.Allocation) {
	job := w.jobs["fleet"]
	if job == nil {
		return nil
	}

	for i := range job.TaskGroups[0].Count {
		a := w.fleetAlloc(job, fmt.Sprintf("f0f0f0f%d-0000-0000-0000-000000000000", i), i)
		all = append(all, a)
		if w.reads["stop "+a.ID] == 0 {
			continue
		}

		next := w.fleetAlloc(job, strings.Replace(a.ID, "f0f0", "f1f1", 1), i)
		a.DesiredStatus = structs.AllocDesiredStop
		a.ClientStatus = structs.AllocComplete
		a.NextAllocation = next.ID
		w.reads["read "+next.ID]++
		if w.reads["read "+next.ID] == 1 {
			next.ClientStatus = structs.AllocPending
		}

		all = append(all, next)
	}

	return all
}

func (w *Cluster) fleetAlloc(job *structs.Job, id string, i int) *structs.Allocation {
	g := job.TaskGroups[0]
	if w.restarting == id {
		w.reads["restarting"]++
		if w.reads["restarting"]%2 == 0 {
			w.restarting = ""
			w.reads["restart "+id]++
		}
	}

	restarts := time.Duration(w.reads["restart "+id])
	started := Today.Add(-time.Hour + restarts*time.Second)
	return &structs.Allocation{
		ID:            id,
		Namespace:     "default",
		Name:          structs.AllocName(job.ID, g.Name, i),
		NodeID:        Node1,
		NodeName:      "one",
		JobID:         job.ID,
		Job:           job,
		JobVersion:    job.Version,
		TaskGroup:     g.Name,
		DesiredStatus: structs.AllocDesiredRun,
		ClientStatus:  structs.AllocRunning,
		CreateTime:    nanosBefore(time.Hour),
		ModifyTime:    nanosBefore(time.Hour),
		TaskStates: map[string]*structs.TaskState{
			"server": {State: structs.TaskRunning, StartedAt: started},
			"init":   {State: structs.TaskDead, StartedAt: started},
		},
	}
}
