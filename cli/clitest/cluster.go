// Package clitest has what tests of commands share: the HTTP API of a fake cluster, and runs of command
// lines.
package clitest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"berth/api"
	"berth/api/apitest"
	"berth/api/show"
	"berth/internal/snaparchive"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// The IDs of the fake cluster.
const (
	Node1  = "11111111-aaaa-0000-0000-000000000001"
	Node2  = "1122bbbb-bbbb-0000-0000-000000000002"
	Alloc1 = "a1a1a1a1-0000-0000-0000-000000000001"
	Alloc2 = "a2a2a2a2-0000-0000-0000-000000000002"
	Alloc3 = "a3a3a3a3-0000-0000-0000-000000000003"
	eval1  = "e1e1e1e1-0000-0000-0000-000000000001"
	eval2  = "e2e2e2e2-0000-0000-0000-000000000002"
	eval3  = "e3e3e3e3-0000-0000-0000-000000000003"
	eval4  = "e4e4e4e4-0000-0000-0000-000000000004"
	eval5  = "e5e5e5e5-0000-0000-0000-000000000005"
)

// Cluster has two nodes, two jobs, a plugin and two volumes. The name of a registered job selects how the
// job behaves.
type Cluster struct {
	Caller *apitest.Caller
	Agent  *apitest.Agent

	mu         sync.Mutex
	jobs       map[string]*structs.Job
	from       map[string]*structs.JobSubmission // the sources of the jobs
	reads      map[string]int                    // the number of reads of a thing
	Slow       chan string                       // the first volume whose deletion never ends
	restarting string                            // the allocation of the job fleet that restarts, or ""
	Drains     []*structs.NodeDrainRequest       // that were sent
	pluginConf storage.PluginSettings            // of all plugins
}

func nanosBefore(d time.Duration) int64 {
	return Today.Add(-d).UnixNano()
}

// NewCluster returns the fake cluster. Its agent writes logs and files below a folder.
func NewCluster(logs string) *Cluster {
	w := &Cluster{
		Caller: &apitest.Caller{},
		reads:  map[string]int{},
		from:   map[string]*structs.JobSubmission{},
		Slow:   make(chan string, 1),
	}

	w.jobs = map[string]*structs.Job{
		"web": webJob(),
		"web-old": {
			ID:       "web-old",
			Type:     "batch",
			Status:   "dead",
			Priority: 40,
		},
	}

	w.Agent = NewAgent(logs)
	w.answerJobs()
	w.answerValidation()
	w.answerPlans()
	w.answerScaling()
	w.answerCluster()
	w.answerJoinTokens()
	w.answerRevocations()
	w.answerAuthorities()
	w.answerAccess()
	w.answerAdmission()
	w.answerStorage()
	w.answerChanges()
	return w
}

func webJob() *structs.Job {
	return &structs.Job{
		ID:          "web",
		Name:        "web",
		Namespace:   "default",
		Type:        "service",
		Priority:    50,
		Datacenters: []string{"*"},
		Status:      "running",
		Version:     2,
		SubmitTime:  nanosBefore(time.Hour),
		TaskGroups: []*structs.TaskGroup{{
			Name:  "app",
			Count: 2,
			Volumes: map[string]*structs.VolumeRequest{
				"data": {
					Name:           "data",
					Type:           "csi",
					Source:         "data",
					AccessMode:     structs.CSISingleNodeWriter,
					AttachmentMode: structs.CSIFileSystem,
				},
			},
			Tasks: []*structs.Task{{Name: "server", Driver: "exec"}},
		}},
	}
}

// NewAgent returns the agent of the fake cluster. It writes logs and files below a folder.
func NewAgent(logs string) *apitest.Agent {
	member := func(name, addr string) *cluster.AgentMember {
		return &cluster.AgentMember{
			Name:   name,
			Addr:   addr,
			Port:   4748,
			Status: "alive",
			Tags: map[string]string{
				"region": "global",
				"dc":     "dc1",
				"port":   "4747",
				"build":  "0.1.0",
			},
		}
	}
	var archive bytes.Buffer
	state := strings.Repeat("state", 1000)
	meta := snaparchive.Meta{
		Index:   42,
		Term:    3,
		Berth:   "0.1.0",
		Region:  "global",
		Created: Today.Add(-time.Minute),
	}
	err := snaparchive.Write(&archive, meta, int64(len(state)), strings.NewReader(state))
	if err != nil {
		panic(err)
	}
	return &apitest.Agent{
		MetricsAre: apitest.Metrics{
			JSON: map[string]int{"Gauges": 1},
			Text: "berth_gauge 1\n",
		},
		SelfIs: &api.AgentSelf{
			Member: member("s1.global", "10.0.0.1"),
			Stats:  map[string]map[string]string{"client": {"node_id": Node1}},
		},
		MembersAs: []*cluster.AgentMember{member("s1.global", "10.0.0.1"), member("s2.global", "10.0.0.2")},
		HealthIs:  &api.AgentHealth{},
		Snapshot:  archive.Bytes(),
		Node:      Node1,
		StatsAre:  statsOne(),
		UsageIs:   map[string]*nodecalls.AllocResourceUsage{Alloc1: usageOne()},
		Files: func(allocID string) (api.Dir, error) {
			if allocID != Alloc1 {
				return api.Dir{}, structs.NotFoundf("allocation %s is not here", show.ShortID(allocID))
			}
			dir := filepath.Join(logs, "files")
			return api.Dir{Path: dir, Ended: closedChannel()}, makeFiles(dir)
		},
		LogsEnd: closedChannel(),
		Control: func(act string) error {
			if strings.Contains(act, "nope") {
				return structs.Invalidf("there is no task %q", "nope")
			}
			return nil
		},
		Logs: func(allocID, task, kind string) (string, error) {
			dir := filepath.Join(logs, "logs")
			if allocID != Alloc1 || task != "server" {
				return "", structs.Errorf(structs.KindInvalid, "allocation %s has no task %q",
					show.ShortID(allocID), task)
			}
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return "", err
			}
			text := kind + " one\n" + kind + " two\n"
			return dir, os.WriteFile(filepath.Join(dir, task+"."+kind+".0"), []byte(text), 0o600)
		},
	}
}

// allocs returns all allocations.
func (w *Cluster) allocs() []*structs.Allocation {
	web := webJob()
	claimWait := &structs.TaskEvent{
		Type:           structs.TaskEventHookMessage,
		Time:           nanosBefore(time.Minute),
		DisplayMessage: "volume data: claim waits",
	}
	all := []*structs.Allocation{
		{
			ID:         Alloc1,
			Namespace:  "default",
			Name:       "web.app[0]",
			NodeID:     Node1,
			NodeName:   "one",
			EvalID:     eval1,
			JobID:      "web",
			JobVersion: 2,
			Job:        web,
			TaskGroup:  "app",
			Devices: map[string][]*structs.AllocatedDeviceResource{
				"server": {{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{"0"}}},
			},
			Ports: []structs.AllocatedPort{
				{Label: "http", Value: 20001, To: 80, HostIP: "10.0.0.1"},
				{Label: "admin", Value: 8080, HostIP: "fd00::1"},
			},
			DesiredStatus: "run",
			ClientStatus:  "running",
			CreateTime:    nanosBefore(time.Hour),
			ModifyTime:    nanosBefore(50 * time.Minute),
			Indexes:       structs.Indexes{CreateIndex: 10},
			TaskStates: map[string]*structs.TaskState{"server": {
				State:       "running",
				StartedAt:   Today.Add(-50 * time.Minute),
				Restarts:    1,
				LastRestart: Today.Add(-51 * time.Minute),
				Events: []*structs.TaskEvent{
					{
						Type:           "Received",
						Time:           nanosBefore(time.Hour),
						DisplayMessage: "Task received by client",
					},
					{
						Type:           "Started",
						Time:           nanosBefore(50 * time.Minute),
						DisplayMessage: "Task started by client",
					},
				},
			}},
		},
		{
			ID:            Alloc2,
			Namespace:     "default",
			Name:          "web.app[1]",
			NodeID:        Node2,
			NodeName:      "two",
			EvalID:        eval1,
			JobID:         "web",
			JobVersion:    2,
			Job:           web,
			TaskGroup:     "app",
			DesiredStatus: "run",
			ClientStatus:  "pending",
			CreateTime:    nanosBefore(time.Hour),
			ModifyTime:    nanosBefore(time.Hour),
			Indexes:       structs.Indexes{CreateIndex: 10},
			TaskStates: map[string]*structs.TaskState{"server": {
				State:  "pending",
				Events: []*structs.TaskEvent{claimWait},
			}},
		},
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all = append(all, w.fleet()...)
	if job := w.jobs["new"]; job != nil {
		all = append(all, w.newAlloc(job, "running"))
	}
	for _, id := range []string{"waits", "stuck"} {
		if job := w.jobs[id]; job != nil {
			a := w.newAlloc(job, "pending")
			if id == "waits" && w.reads[id] > 2 {
				a.ClientStatus = "running"
			}
			all = append(all, a)
		}
	}
	if job := w.jobs["plug"]; job != nil {
		a := w.newAlloc(job, "running")
		healthy := []*structs.TaskEvent{{Type: structs.TaskEventPluginHealthy}}
		a.TaskStates = map[string]*structs.TaskState{"plugin": {Events: healthy}}
		all = append(all, a)
	}
	if job := w.jobs["broken"]; job != nil {
		a := w.newAlloc(job, "failed")
		a.TaskStates = map[string]*structs.TaskState{
			"server": {Events: []*structs.TaskEvent{{
				Type:           "Driver Failure",
				DisplayMessage: "no such file: /bin/nope",
			}}},
		}
		all = append(all, a)
	}
	return all
}

// newAlloc returns the allocation of a registered job. It is pending at the first read and has the status end
// afterwards. It is complete after the stop of the job.
func (w *Cluster) newAlloc(job *structs.Job, end string) *structs.Allocation {
	w.reads[job.ID]++
	a := &structs.Allocation{
		ID:            Alloc3,
		Namespace:     "default",
		Name:          job.ID + ".app[0]",
		NodeID:        Node1,
		NodeName:      "one",
		JobID:         job.ID,
		Job:           job,
		TaskGroup:     "app",
		JobVersion:    job.Version,
		DesiredStatus: "run",
		ClientStatus:  "pending",
		Indexes:       structs.Indexes{CreateIndex: 20},
	}

	if w.reads[job.ID] > 1 {
		a.ClientStatus = end
	}

	if job.Stop {
		a.DesiredStatus = "stop"
		a.ClientStatus = "complete"
	}

	return a
}

func (w *Cluster) findAllocs(keep func(*structs.Allocation) bool) (found []*structs.AllocListStub) {
	for _, a := range w.allocs() {
		if keep(a) {
			found = append(found, a.Stub())
		}
	}
	return found
}

func (w *Cluster) job(id string) (*structs.Job, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[id]; j != nil {
		return j, nil
	}
	return nil, NotFound("job", id)
}

// answerValidation rejects tasks with the driver exce, as servers of an earlier version do, and warns of vn.
func (w *Cluster) answerValidation() {
	apitest.On(w.Caller, structs.JobValidate, func(_ context.Context, r *structs.JobValidateRequest) (
		*structs.JobValidateResponse, error,
	) {
		resp := &structs.JobValidateResponse{}
		for _, g := range r.Job.TaskGroups {
			for _, t := range g.Tasks {
				if t.Driver == "exce" {
					resp.ValidationErrors = append(resp.ValidationErrors, fmt.Sprintf(
						"job %q: group %q: task %q: driver \"exce\" is on no node that is up",
						r.Job.ID, g.Name, t.Name))
				}

				switch t.Driver {
				case "vn":
					resp.Warnings = `job "j": group "g": task "t": driver "vn" is on no node that is up`
				case "vm":
					resp.Warnings = "no node is up, so the drivers of the tasks are not checked"
				}
			}
		}
		return resp, nil
	})
}

func (w *Cluster) answerJobs() {
	c := w.Caller
	apitest.On(c, structs.JobRegister, func(_ context.Context, r *structs.JobRegisterRequest) (
		*structs.JobRegisterResponse, error,
	) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if r.EnforceIndex {
			return nil, structs.Errorf(structs.KindConflict, "job %q has JobModifyIndex 17, not %d",
				r.Job.ID, r.JobModifyIndex)
		}

		w.jobs[r.Job.ID] = r.Job
		w.from[r.Job.ID] = r.Submission
		return &structs.JobRegisterResponse{
			EvalID: map[string]string{
				"big":     eval2,
				"new":     eval3,
				"broken":  eval3,
				"batches": eval4,
			}[r.Job.ID],
		}, nil
	})

	apitest.On(c, structs.JobDeregister, func(_ context.Context, r *structs.JobDeregisterRequest) (
		*structs.JobDeregisterResponse, error,
	) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.jobs[r.JobID] == nil {
			return nil, NotFound("job", r.JobID)
		}
		if r.JobID == "storage" && !r.Force {
			return nil, structs.Preconditionf(`job "storage" runs plugin hostpath, which its users need`)
		}

		stopped := w.jobs[r.JobID].Copy()
		stopped.Stop = true
		w.jobs[r.JobID] = stopped
		return &structs.JobDeregisterResponse{EvalID: eval3}, nil
	})

	w.answerJobReads()
	w.answerEvals()
}

// jobMeta is the metadata of reads of jobs and evaluations.
var jobMeta = structs.QueryMeta{Index: 42, KnownLeader: true}

func (w *Cluster) answerJobReads() {
	c := w.Caller
	apitest.On(c, structs.JobGet, func(_ context.Context, r *structs.JobGetRequest) (
		*structs.JobGetResponse, error,
	) {
		j, err := w.job(r.JobID)
		return &structs.JobGetResponse{Job: j, QueryMeta: jobMeta}, err
	})
	apitest.On(c, structs.JobSubmissionGet, func(_ context.Context, r *structs.JobSubmissionRequest) (
		*structs.JobSubmissionResponse, error,
	) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.from[r.JobID] == nil {
			return nil, NotFound("source of job", r.JobID)
		}
		return &structs.JobSubmissionResponse{Submission: w.from[r.JobID]}, nil
	})
	apitest.On(c, structs.JobList, func(_ context.Context, r *structs.QueryRequest) (
		*structs.JobListResponse, error,
	) {
		resp := &structs.JobListResponse{QueryMeta: jobMeta}
		for _, id := range []string{"web", "web-old", "new", "fleet"} {
			j, err := w.job(id)
			if err == nil && strings.HasPrefix(id, r.Prefix) {
				stub := &structs.JobListStub{
					ID:         j.ID,
					Type:       j.Type,
					Priority:   j.Priority,
					Status:     j.Status,
					Stop:       j.Stop,
					SubmitTime: j.SubmitTime,
				}
				stub.JobSummary = &structs.JobSummary{
					Summary: map[string]structs.TaskGroupSummary{"app": {Running: 1}},
				}
				resp.Jobs = append(resp.Jobs, stub)
			}
		}
		return resp, nil
	})
	answerWhy(c)
	apitest.Answer(c, structs.JobSummaryGet, structs.JobSummaryResponse{
		JobSummary: &structs.JobSummary{
			Summary: map[string]structs.TaskGroupSummary{"app": {
				Running:  1,
				Starting: 1,
				Failed:   3,
			}},
		},
	})
	apitest.On(c, structs.JobAllocations, func(_ context.Context, r *structs.JobGetRequest) (
		*structs.AllocListResponse, error,
	) {
		return &structs.AllocListResponse{
			QueryMeta:   jobMeta,
			Allocations: w.allocsOf(r.JobID),
		}, nil
	})
	apitest.On(c, structs.JobEvaluations, func(_ context.Context, r *structs.JobGetRequest) (
		*structs.EvalListResponse, error,
	) {
		var evals []*structs.Evaluation
		for _, e := range evaluations() {
			if e.JobID == r.JobID {
				evals = append(evals, e)
			}
		}
		return &structs.EvalListResponse{Evaluations: evals, QueryMeta: jobMeta}, nil
	})
}

// Today is the time of the fixed clock.
var Today = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
