package clitest

import (
	"context"
	"fmt"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/jobdiff"
)

// answerPlans plans jobs by their names: "big" finds no place, "calm" is updated in place, "high-N" displaces
// N allocations of N/5 jobs.
func (w *Cluster) answerPlans() {
	tags := map[uint64]*structs.JobVersionTag{}
	w.answerVersions(tags)
	w.answerTags(tags)
	apitest.On(w.Caller, structs.JobPlan, func(_ context.Context, r *structs.JobPlanRequest) (
		*structs.JobPlanResponse, error,
	) {
		old, err := w.job(r.Job.ID)
		resp := &structs.JobPlanResponse{
			Annotations: &structs.PlanAnnotations{
				DesiredTGUpdates: map[string]*structs.DesiredUpdates{"app": {Place: 2}},
			},
		}
		if err == nil {
			resp.JobModifyIndex = 17
			u := resp.Annotations.DesiredTGUpdates["app"]
			*u = structs.DesiredUpdates{Ignore: 2}
			if jobdiff.Compare(old, r.Job, false).Type != structs.DiffNone {
				*u = structs.DesiredUpdates{DestructiveUpdate: 2, Place: 1}
			}
		}

		if r.Job.ID == "big" {
			resp.FailedTGAllocs = evaluations()[1].FailedTGAllocs
			resp.Warnings = `group "app", volume "data": there is no volume "data" in namespace "default" yet`
		}

		if r.Job.ID == "batches" {
			*resp.Annotations.DesiredTGUpdates["app"] = structs.DesiredUpdates{
				Stop: 2, Migrate: 3, InPlaceUpdate: 4, DestructiveUpdate: 5,
			}
			resp.CreatedEvals = batchEvaluations()[1:]
		}

		if r.Job.ID == "calm" {
			*resp.Annotations.DesiredTGUpdates["app"] = structs.DesiredUpdates{InPlaceUpdate: 1, Ignore: 1}
		}

		var n uint64
		if _, err := fmt.Sscanf(r.Job.ID, "high-%d", &n); err == nil {
			u := resp.Annotations.DesiredTGUpdates["app"]
			*u = structs.DesiredUpdates{Canary: 1, Ignore: 2, Preemptions: n}
			resp.Annotations.PreemptedAllocs = displaced(int(n))
		}

		if r.Diff {
			resp.Diff = jobdiff.Compare(old, r.Job, true)
			for _, g := range resp.Diff.TaskGroups {
				g.Updates = map[string]uint64{structs.UpdateCreate: 2}
			}
		}

		return resp, nil
	})
}

// displaced are n allocations, five of each job.
func displaced(n int) (allocs []*structs.AllocListStub) {
	types := []string{structs.JobService, structs.JobBatch}
	for i := range n {
		allocs = append(allocs, &structs.AllocListStub{
			ID:        fmt.Sprintf("%08d-0000-0000-0000-000000000000", i),
			JobID:     fmt.Sprintf("low-%02d", i/5),
			Namespace: structs.DefaultNamespace,
			JobType:   types[i/5%2],
			TaskGroup: "app",
		})
	}
	return allocs
}

// answerVersions answers with two versions of each job, and the tags by the numbers of versions.
func (w *Cluster) answerVersions(tags map[uint64]*structs.JobVersionTag) {
	apitest.On(w.Caller, structs.JobVersions, func(_ context.Context, r *structs.JobGetRequest) (
		*structs.JobVersionsResponse, error,
	) {
		j, err := w.job(r.JobID)
		if err != nil {
			return nil, err
		}

		before := j.Copy()
		before.Version--
		before.Priority = 40
		resp := &structs.JobVersionsResponse{
			Versions:  []*structs.Job{j.Copy(), before},
			QueryMeta: jobMeta,
		}
		if r.Diffs {
			resp.Diffs = []*structs.JobDiff{jobdiff.Compare(before, j, true)}
		}
		for _, v := range resp.Versions {
			v.VersionTag = tags[v.Version]
		}
		if r.DiffTag != "" || r.DiffVersion != nil {
			resp.Diffs = append(resp.Diffs, jobdiff.Compare(before, before, true))
		}

		return resp, nil
	})
}

// answerTags keeps one tag for each number of a version, of whichever job.
func (w *Cluster) answerTags(tags map[uint64]*structs.JobVersionTag) {
	apitest.On(w.Caller, structs.JobTagApply, func(_ context.Context, r *structs.JobTagRequest) (
		*structs.JobTagResponse, error,
	) {
		_, err := w.job(r.JobID)
		if err != nil {
			return nil, err
		}
		tags[r.JobVersion] = &structs.JobVersionTag{Name: r.TagName, Description: r.Description}
		return &structs.JobTagResponse{Name: r.TagName, Description: r.Description}, nil
	})
	apitest.On(w.Caller, structs.JobTagRemove, func(_ context.Context, r *structs.JobUntagRequest) (
		*structs.Empty, error,
	) {
		for version, t := range tags {
			if t.Name == r.TagName {
				delete(tags, version)
				return &structs.Empty{}, nil
			}
		}
		return nil, structs.NotFoundf("no version of job %q has the tag %q", r.JobID, r.TagName)
	})
}
