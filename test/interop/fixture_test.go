package interop

import (
	"context"
	"io"
	"testing"
	"time"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/defaults"
	"berth/structs/validate"
)

func checkNoError(t *testing.T, what string, err error) bool {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	return err == nil
}

func readAll(t *testing.T, r io.ReadCloser) string {
	t.Helper()
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("reading: %v", err)
	}
	return string(b)
}

// recordJob returns a handler that stores the registered job.
func recordJob(job **structs.Job) func(context.Context,
	*structs.JobRegisterRequest) (*structs.JobRegisterResponse, error) {
	return func(_ context.Context, req *structs.JobRegisterRequest) (*structs.JobRegisterResponse, error) {
		*job = req.Job
		return &structs.JobRegisterResponse{EvalID: "e1", JobModifyIndex: 7,
			WriteMeta: structs.WriteMeta{Index: 9}}, nil
	}
}

// recordVolumes returns a handler that stores a put of volumes and answers with the volumes.
func recordVolumes(put **structs.CSIVolumeRegisterRequest) func(context.Context,
	*structs.CSIVolumeRegisterRequest) (*structs.CSIVolumeRegisterResponse, error) {
	return func(_ context.Context, req *structs.CSIVolumeRegisterRequest) (*structs.CSIVolumeRegisterResponse,
		error) {
		*put = req
		return &structs.CSIVolumeRegisterResponse{Volumes: req.Volumes}, nil
	}
}

// setAnswers gives every procedure an answer with a value in each field.
func setAnswers(c *apitest.Caller) {
	meta := structs.QueryMeta{
		Index:       42,
		LastContact: 3 * time.Millisecond,
		KnownLeader: true,
	}
	indexes := structs.Indexes{CreateIndex: 5, ModifyIndex: 8}
	apitest.Answer(c, cluster.NamespaceList, cluster.NamespaceListResponse{
		Namespaces: []*cluster.Namespace{{Name: "default", Indexes: indexes}},
		QueryMeta:  meta,
	})
	job := &structs.Job{
		ID:         "web/one",
		Name:       "web",
		Namespace:  "default",
		Type:       "service",
		Version:    3,
		Status:     "running",
		SubmitTime: at.UnixNano(),
		Indexes:    indexes,
		TaskGroups: []*structs.TaskGroup{{
			Name:  "g",
			Count: 1,
			Tasks: []*structs.Task{{Name: "app", KillTimeout: time.Second}},
		}},
	}
	summary := &structs.JobSummary{
		JobID:   "web/one",
		Summary: map[string]structs.TaskGroupSummary{"g": {Running: 1}},
	}
	metrics := &structs.AllocMetric{
		NodesEvaluated: 3,
		Rejections:     []*structs.PlacementRejection{{Filter: "csi-plugin", Nodes: 3}},
		AllocationTime: time.Second,
	}
	alloc := &structs.Allocation{
		ID:           "a1",
		Namespace:    "default",
		Name:         "web/one.g[0]",
		NodeID:       "n1",
		JobID:        "web/one",
		Job:          job,
		JobVersion:   3,
		TaskGroup:    "g",
		Resources:    &structs.Resources{CPU: 100},
		ClientStatus: "running",
		Metrics:      metrics,
		Indexes:      indexes,
		RescheduleTracker: &structs.RescheduleTracker{Events: []*structs.RescheduleEvent{{
			PrevAllocID:    "a0",
			RescheduleTime: at.UnixNano(),
			Delay:          time.Second,
		}}},
		TaskStates: map[string]*structs.TaskState{"app": {
			State:     "running",
			StartedAt: at,
			Events: []*structs.TaskEvent{
				{
					Type:    "Started",
					Time:    at.UnixNano(),
					Details: map[string]string{"a": "b"},
				}},
		}},
	}
	eval := &structs.Evaluation{
		ID:             "e1",
		JobID:          "web/one",
		Status:         "complete",
		WaitUntil:      at.UnixNano(),
		FailedTGAllocs: map[string]*structs.AllocMetric{"g": metrics},
		Indexes:        indexes,
	}
	info := &structs.CSIInfo{
		PluginID:       "p",
		Healthy:        true,
		UpdateTime:     at.UnixNano(),
		Provider:       "prov",
		ControllerInfo: &structs.CSIControllerInfo{SupportsExpand: true},
		NodeInfo: &structs.CSINodeInfo{
			MaxVolumes:         5,
			AccessibleTopology: &structs.CSITopology{Segments: map[string]string{"z": "1"}},
		},
	}
	infos := map[string]*structs.CSIInfo{"p": info}
	drivers := map[string]*structs.DriverInfo{"exec": {
		Detected:   true,
		Healthy:    true,
		UpdateTime: at,
	}}
	driverEvent := &structs.NodeEvent{
		Message:   "driver exec is healthy",
		Subsystem: "Driver",
		Details:   map[string]string{"driver": "exec"},
		Timestamp: at,
	}
	node := &structs.NodeDetail{
		CSIControllerPlugins: infos,
		CSINodePlugins:       infos,
		Node: structs.Node{
			ID:                "n1",
			Name:              "one",
			Drivers:           drivers,
			NodeResources:     &structs.NodeResources{CPU: structs.NodeCPUResources{CpuShares: 4000}},
			ReservedResources: &structs.NodeReservedResources{},
			Events:            []*structs.NodeEvent{driverEvent},
			StatusUpdatedAt:   at.Unix(),
			Indexes:           indexes,
		},
	}
	vol := structs.CSIVolume{
		ID: "a/b", Namespace: "default", Indexes: indexes,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID:     "p",
			ExternalID:   "ext",
			Secrets:      structs.Secrets{"k": "v"},
			MountOptions: &structs.CSIMountOptions{MountFlags: []string{"secret"}},
			RequestedCapabilities: []*structs.CSIVolumeCapability{{AccessMode: "single-node-writer",
				AttachmentMode: "file-system"}},
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{
			State:      "ready",
			Capacity:   1 << 20,
			CreateTime: at.UnixNano(),
			Topologies: []*structs.CSITopology{{Segments: map[string]string{"z": "1"}}},
		},
		CSIVolumeStatus: structs.CSIVolumeStatus{
			LastError: &structs.OperationError{
				Message:  "once",
				Kind:     "unavailable",
				Attempts: 1,
			},
		},
	}
	detail := &structs.CSIVolumeDetail{
		CSIVolume:    vol,
		Schedulable:  true,
		Provider:     "prov",
		NodesHealthy: 1,
		Allocations:  []*structs.AllocListStub{alloc.Stub()},
		WriteAllocs:  map[string]*structs.AllocListStub{"a1": alloc.Stub()},
		Claims:       []*structs.CSIClaim{{AllocID: "a1"}},
		Attachments:  []*structs.CSIAttachment{{NodeID: "n1"}},
	}
	stubs := []*structs.AllocListStub{alloc.Stub()}

	apitest.Answer(c, structs.JobGet,
		structs.JobGetResponse{Job: job, QueryMeta: meta})
	apitest.Answer(c, structs.JobList,
		structs.JobListResponse{Jobs: []*structs.JobListStub{{
			ID:         job.ID,
			JobSummary: summary,
			SubmitTime: 1,
		}}, QueryMeta: meta})
	apitest.Answer(c, structs.JobSummaryGet,
		structs.JobSummaryResponse{JobSummary: summary, QueryMeta: meta})
	apitest.Answer(c, structs.JobVersions, structs.JobVersionsResponse{
		Versions:  []*structs.Job{job},
		QueryMeta: meta,
	})
	apitest.Answer(c, structs.JobAllocations,
		structs.AllocListResponse{Allocations: stubs, QueryMeta: meta})
	apitest.Answer(c, structs.JobEvaluations, structs.EvalListResponse{
		Evaluations: []*structs.Evaluation{eval},
		QueryMeta:   meta,
	})
	apitest.Answer(c, structs.EvalGet,
		structs.EvalGetResponse{Eval: eval, QueryMeta: meta})
	apitest.Answer(c, structs.AllocGet,
		structs.AllocGetResponse{Alloc: alloc, QueryMeta: meta})
	apitest.Answer(c, structs.NodeGet,
		structs.NodeGetResponse{Node: node, QueryMeta: meta})
	apitest.Answer(c, structs.NodeList,
		structs.NodeListResponse{Nodes: []*structs.NodeListStub{{
			ID:      "n1",
			Name:    "one",
			Drivers: drivers,
		}}, QueryMeta: meta})
	apitest.Answer(c, structs.NodeAllocs, structs.AllocsResponse{
		Allocs:    []*structs.Allocation{alloc},
		QueryMeta: meta,
	})
	apitest.Answer(c, structs.NodeEligibility,
		structs.Empty{WriteMeta: structs.WriteMeta{Index: 9}})
	apitest.Answer(c, structs.NodeEvaluate,
		structs.NodeEvaluateResponse{EvalIDs: []string{"e1"}})
	apitest.Answer(c, structs.CSIPluginGet, structs.CSIPluginGetResponse{
		Plugin: &structs.CSIPlugin{
			ID:           "p",
			Nodes:        map[string]*structs.CSIInfo{"n1": info},
			Controllers:  map[string]*structs.CSIInfo{"n1": info},
			Allocations:  stubs,
			NodesHealthy: 1,
		},
		QueryMeta: meta,
	})
	apitest.Answer(c, structs.CSIPluginList,
		structs.CSIPluginListResponse{
			Plugins:   []*structs.CSIPluginListStub{{ID: "p", NodesHealthy: 1}},
			QueryMeta: meta,
		})
	apitest.Answer(c, structs.CSIVolumeGet,
		structs.CSIVolumeGetResponse{Volume: detail, QueryMeta: meta})
	apitest.Answer(c, structs.CSIVolumeList,
		structs.CSIVolumeListResponse{Volumes: []*structs.CSIVolumeListStub{{
			ID:             "a/b",
			CurrentWriters: 1,
			Topologies:     vol.Topologies,
		}}, QueryMeta: meta})
	apitest.Answer(c, structs.CSIVolumeExternal,
		structs.CSIVolumeExternalResponse{
			Volumes:   []*structs.CSIVolumeExternalStub{{ExternalID: "ext"}},
			NextToken: "more",
			QueryMeta: meta,
		})
	apitest.Answer(c, structs.CSIVolumeDetach, structs.CSIVolumeDetachResponse{})
	apitest.Answer(c, structs.CSIVolumeDeregister, structs.Empty{})
	apitest.Answer(c, structs.CSIVolumeDelete, structs.Empty{})
	apitest.Answer(c, cluster.StatusLeader, cluster.StatusLeaderResponse{Leader: "127.0.0.1:4747",
		QueryMeta: meta})
	apitest.Answer(c, cluster.StatusPeers, cluster.StatusPeersResponse{Peers: []string{"127.0.0.1:4747"},
		QueryMeta: meta})
	apitest.Answer(c, cluster.OperatorRaft,
		cluster.RaftConfigurationResponse{Servers: []*cluster.RaftServer{{
			ID:     "s1",
			Leader: true,
			Voter:  true,
		}}, QueryMeta: meta})
	apitest.Answer(c, cluster.SystemGC, structs.Empty{})
}

// validateJob checks the content of a job, and no drivers.
func validateJob(_ context.Context, req *structs.JobValidateRequest) (*structs.JobValidateResponse, error) {
	resp := &structs.JobValidateResponse{}
	defaults.Canonicalize(req.Job)
	err := validate.Job(req.Job)
	if err != nil {
		resp.Error = err.Error()
		resp.ValidationErrors = []string{resp.Error}
	}
	return resp, nil
}
