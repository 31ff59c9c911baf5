package interop

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	public "github.com/hashicorp/nomad/api"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/structs"
	"berth/structs/cluster"
)

// The tests of this file connect the public client to berth's HTTP handler. Fake responses have a value in
// every field, so they show every field that the client cannot decode.

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func clientOfFakeServers(t *testing.T) (*public.Client, *apitest.Caller) {
	t.Helper()
	caller := &apitest.Caller{}
	apitest.On(caller, structs.JobValidate, validateJob)
	agent := &apitest.Agent{
		SelfIs: &api.AgentSelf{
			Config: map[string]any{"Region": "global", "Datacenter": "dc1"},
			Stats:  map[string]map[string]string{"raft": {"state": "Leader"}},
			Member: &cluster.AgentMember{
				Name:   "s1.global",
				Addr:   "127.0.0.1",
				Port:   4748,
				Tags:   map[string]string{"region": "global"},
				Status: "alive",
			},
		},
		MembersAs: []*cluster.AgentMember{{
			Name: "s1.global",
			Tags: map[string]string{"region": "global"},
		}},
		HealthIs: &api.AgentHealth{Server: &api.HalfHealth{OK: true, Message: "ok"}},
		Snapshot: []byte("an archive"),
		Node:     "n1",
		StatsAre: fakeHostStats(),
		UsageIs:  fakeUsage(),
		Exec:     fakeExec,
		Files:    fakeFiles(t),
		Control:  fakeControl,
	}
	srv := httptest.NewServer(api.NewHandler(api.Config{
		Routes: areas.Routes(),
		Caller: caller,
		Agent:  agent,
		Logger: hclog.NewNullLogger(),
	}))
	t.Cleanup(srv.Close)
	c, err := public.NewClient(&public.Config{Address: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, caller
}

// fullJob returns a job that a user of the public client could build.
func fullJob() *public.Job {
	ptr := func(s string) *string { return &s }
	n, d := 1, 5*time.Second
	job := public.NewServiceJob("web/one", "web", "global", 60)
	job.AddDatacenter("dc1").SetMeta("owner", "me")
	job.Constrain(public.NewConstraint("${attr.kernel.name}", "=", "linux"))
	task := public.NewTask("app", "exec").SetConfig("command", "/bin/sh").SetConfig("args",
		[]string{"-c", "sleep 60"})
	task.KillTimeout = &d
	task.Env = map[string]string{"A": "b"}
	task.Require(&public.Resources{CPU: &n, MemoryMB: &n})
	task.LogConfig = &public.LogConfig{MaxFiles: &n, MaxFileSizeMB: &n}
	task.VolumeMounts = []*public.VolumeMount{{
		Volume:      ptr("data"),
		Destination: ptr("/data"),
	}}
	task.CSIPluginConfig = &public.TaskCSIPluginConfig{
		ID:            "p",
		Type:          public.CSIPluginTypeMonolith,
		MountDir:      "/csi",
		HealthTimeout: 30 * time.Second,
	}
	group := public.NewTaskGroup("g", 2).AddTask(task)
	group.Volumes = map[string]*public.VolumeRequest{"data": {
		Name:           "data",
		Type:           "csi",
		Source:         "vol",
		AccessMode:     "single-node-writer",
		AttachmentMode: "file-system",
		MountOptions:   &public.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}},
		PerAlloc:       true,
	}}
	group.RestartPolicy = &public.RestartPolicy{
		Attempts: &n,
		Interval: &d,
		Delay:    &d,
		Mode:     ptr("fail"),
	}
	group.ShutdownDelay = &d
	return job.AddTaskGroup(group)
}

func TestClient_SendsJobs(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	for name, canonicalize := range map[string]bool{"as built": false,
		"with the defaults of the dialect": true} {
		t.Run(name, func(t *testing.T) {
			var got *structs.Job
			apitest.On(caller, structs.JobRegister, recordJob(&got))
			job := fullJob()
			if canonicalize {
				job.Canonicalize()
			}
			resp, meta, err := c.Jobs().Register(job, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.EvalID != "e1" || resp.JobModifyIndex != 7 || meta.LastIndex != 9 {
				t.Errorf("answered %+v %+v", resp, meta)
			}
			g := got.TaskGroups[0]
			task := g.Tasks[0]
			v := g.Volumes["data"]
			for what, ok := range map[string]bool{
				"job": got.ID == "web/one" && got.Priority == 60 &&
					got.Datacenters[0] == "dc1" &&
					got.Meta["owner"] == "me" &&
					got.Constraints[0].Operand == "=",
				"group": g.Count == 2 &&
					g.RestartPolicy.Interval == 5*time.Second &&
					g.RestartPolicy.Mode == "fail" &&
					*g.ShutdownDelay == 5*time.Second,
				"volume": v.Source == "vol" &&
					v.PerAlloc && v.AccessMode == structs.CSISingleNodeWriter &&
					v.MountOptions.MountFlags[0] == "noatime",
				"task": task.Config["command"] == "/bin/sh" &&
					task.KillTimeout == 5*time.Second &&
					task.Resources.CPU == 1 && task.LogConfig.MaxFiles == 1,
				"plugin": task.CSIPluginConfig.ID == "p" && task.CSIPluginConfig.Type == "monolith" &&
					task.CSIPluginConfig.HealthTimeout == 30*time.Second,
				"volumes": task.VolumeMounts[0].Destination == "/data",
			} {
				if !ok {
					t.Errorf("the %s did not arrive: %+v", what, got)
				}
			}
		})
	}
	networked := fullJob()
	arguments := &public.CNIConfig{Args: map[string]string{"a": "b"}}
	networked.TaskGroups[0].Networks = []*public.NetworkResource{{Mode: "host", CNI: arguments}}
	_, _, err := c.Jobs().Register(networked, nil)
	if rejected, ok := err.(public.UnexpectedResponseError); !ok || rejected.StatusCode() != 400 {
		t.Errorf("a field that berth does not know: %v", err)
	}
}

func TestClient_ReadsResponses(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	setAnswers(caller)
	job, meta, err := c.Jobs().Info("web/one", nil)
	if checkNoError(t, "job", err) &&
		(*job.ID != "web/one" ||
			*job.TaskGroups[0].Tasks[0].KillTimeout != time.Second ||
			meta.LastIndex != 42 || !meta.KnownLeader ||
			meta.LastContact != 3*time.Millisecond) {
		t.Errorf("job %+v %+v", job, meta)
	}
	jobs, _, err := c.Jobs().List(nil)
	if checkNoError(t, "jobs", err) &&
		(len(jobs) != 1 ||
			jobs[0].JobSummary.Summary["g"].Running != 1) {
		t.Errorf("jobs %+v", jobs)
	}
	summary, _, err := c.Jobs().Summary("web/one", nil)
	if checkNoError(t, "summary", err) && summary.Summary["g"].Running != 1 {
		t.Errorf("summary %+v", summary)
	}
	versions, _, _, err := c.Jobs().Versions("web/one", false, nil)
	if checkNoError(t, "versions", err) &&
		(len(versions) != 1 || *versions[0].Version != 3) {
		t.Errorf("versions %+v", versions)
	}
	allocs, _, err := c.Jobs().Allocations("web/one", true, nil)
	if checkNoError(t, "allocations of the job", err) &&
		(allocs[0].TaskStates["app"].Events[0].Type != "Started" ||
			!allocs[0].TaskStates["app"].StartedAt.Equal(at)) {
		t.Errorf("allocations %+v", allocs[0])
	}
	evals, _, err := c.Jobs().Evaluations("web/one", nil)
	if checkNoError(t, "evaluations of the job", err) &&
		(!evals[0].WaitUntil.Equal(at) ||
			evals[0].FailedTGAllocs["g"].NodesEvaluated != 3) {
		t.Errorf("evaluations %+v", evals[0])
	}
	_, _, err = c.Evaluations().Info("e1", nil)
	checkNoError(t, "evaluation", err)
	alloc, _, err := c.Allocations().Info("a1", nil)
	if checkNoError(t, "allocation", err) &&
		(*alloc.Job.ID != "web/one" || *alloc.Resources.CPU != 100 ||
			alloc.RescheduleTracker.Events[0].PrevAllocID != "a0") {
		t.Errorf("allocation %+v", alloc)
	}
	node, _, err := c.Nodes().Info("n1", nil)
	if checkNoError(t, "node", err) &&
		(!node.CSINodePlugins["p"].UpdateTime.Equal(at) ||
			node.CSINodePlugins["p"].NodeInfo.MaxVolumes != 5 ||
			!node.CSIControllerPlugins["p"].ControllerInfo.SupportsExpand ||
			node.NodeResources.Cpu.CpuShares != 4000 ||
			node.Events[0].Subsystem != "Driver" ||
			node.Events[0].Details["driver"] != "exec" ||
			!node.Events[0].Timestamp.Equal(at)) {
		t.Errorf("node %+v", node)
	}
	nodes, _, err := c.Nodes().List(nil)
	if checkNoError(t, "nodes", err) &&
		(nodes[0].Name != "one" ||
			!nodes[0].Drivers["exec"].Healthy) {
		t.Errorf("nodes %+v", nodes)
	}
	_, _, err = c.Nodes().Allocations("n1", nil)
	checkNoError(t, "allocations of the node", err)
	toggled, err := c.Nodes().ToggleEligibility("n1", false, nil)
	if checkNoError(t, "eligibility", err) && toggled.NodeModifyIndex != 9 {
		t.Errorf("eligibility %+v", toggled)
	}
	evalID, _, err := c.Nodes().ForceEvaluate("n1", nil)
	checkNoError(t, "evaluate node "+evalID, err)
}

func TestClient_ReadsStorage(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	setAnswers(caller)
	plugin, _, err := c.CSIPlugins().Info("p", nil)
	if checkNoError(t, "plugin", err) && (!plugin.Nodes["n1"].Healthy ||
		!plugin.Controllers["n1"].UpdateTime.Equal(at) ||
		plugin.Allocations[0].ID != "a1") {
		t.Errorf("plugin %+v", plugin)
	}
	plugins, _, err := c.CSIPlugins().List(nil)
	if checkNoError(t, "plugins", err) && plugins[0].NodesHealthy != 1 {
		t.Errorf("plugins %+v", plugins)
	}
	vols, _, err := c.CSIVolumes().List(nil)
	if checkNoError(t, "volumes", err) &&
		(vols[0].ID != "a/b" || vols[0].CurrentWriters != 1) {
		t.Errorf("volumes %+v", vols)
	}
	vol, _, err := c.CSIVolumes().Info("a/b", nil)
	if !checkNoError(t, "volume", err) {
		return
	}
	if vol.ExternalID != "ext" || vol.WriteAllocs == nil || vol.Secrets != nil ||
		vol.MountOptions.MountFlags[0] != "[REDACTED]" || vol.Capacity != 1<<20 {
		t.Errorf("volume %+v", vol)
	}
	var put *structs.CSIVolumeRegisterRequest
	apitest.On(caller, structs.CSIVolumeRegister, recordVolumes(&put))
	apitest.On(caller, structs.CSIVolumeCreate, recordVolumes(&put))
	vol.RequestedCapacityMax = 5 << 20
	if _, err := c.CSIVolumes().Register(vol, nil); err != nil || put.Volumes[0].RequestedCapacityMax != 5<<20 ||
		put.Volumes[0].ModifyIndex != 8 {
		t.Errorf("a changed volume, written back: %v, %+v", err, put)
	}
	made, _, err := c.CSIVolumes().Create(&public.CSIVolume{
		ID:       "new",
		PluginID: "p",
		Secrets:  public.CSISecrets{"k": "v"},
	}, nil)
	if checkNoError(t, "create", err) &&
		(made[0].ID != "new" ||
			put.Volumes[0].Secrets["k"] != "v") {
		t.Errorf("created %+v", put.Volumes[0])
	}
	external, _, err := c.CSIVolumes().ListExternal("p",
		&public.QueryOptions{PerPage: 5})
	if checkNoError(t, "external volumes", err) &&
		(external.Volumes[0].ExternalID != "ext" ||
			external.NextToken != "more") {
		t.Errorf("external volumes %+v", external)
	}
	checkNoError(t, "detach", c.CSIVolumes().Detach("a/b", "n1", nil))
	checkNoError(t, "deregister", c.CSIVolumes().Deregister("a/b", true, nil))
	checkNoError(t, "delete", c.CSIVolumes().DeleteOpts(&public.CSIVolumeDeleteRequest{
		ExternalVolumeID: "a/b",
		Secrets:          public.CSISecrets{"k": "v"},
	}, nil))
}

func TestClient_ReadsOtherResources(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	setAnswers(caller)
	self, err := c.Agent().Self()
	if checkNoError(t, "self", err) && self.Member.Name != "s1.global" {
		t.Errorf("self %+v", self)
	}
	members, err := c.Agent().Members()
	if checkNoError(t, "members", err) && members.Members[0].Name != "s1.global" {
		t.Errorf("members %+v", members)
	}
	health, err := c.Agent().Health()
	if checkNoError(t, "health", err) && !health.Server.Ok {
		t.Errorf("health %+v", health)
	}
	leader, err := c.Status().Leader()
	if checkNoError(t, "leader", err) && leader != "127.0.0.1:4747" {
		t.Errorf("leader %q", leader)
	}
	peers, err := c.Status().Peers()
	if checkNoError(t, "peers", err) && len(peers) != 1 {
		t.Errorf("peers %v", peers)
	}
	regions, err := c.Regions().List()
	if checkNoError(t, "regions", err) && regions[0] != "global" {
		t.Errorf("regions %v", regions)
	}
	namespaces, _, err := c.Namespaces().List(nil)
	if checkNoError(t, "namespaces", err) && namespaces[0].Name != "default" {
		t.Errorf("namespaces %v", namespaces)
	}
	raft, err := c.Operator().RaftGetConfiguration(nil)
	if checkNoError(t, "raft configuration", err) &&
		(!raft.Servers[0].Leader || raft.Index != 42) {
		t.Errorf("raft configuration %+v", raft)
	}
	snapshot, err := c.Operator().Snapshot(nil)
	if checkNoError(t, "snapshot", err) {
		if got := readAll(t, snapshot); got != "an archive" { // the client checks the digest
			t.Errorf("snapshot %q", got)
		}
	}
	checkNoError(t, "garbage collection", c.System().GarbageCollect())
	parsed, err := c.Jobs().ParseHCL("job \"j\" {\n  type = \"batch\"\n}\n", true)
	if checkNoError(t, "parse", err) && *parsed.ID != "j" {
		t.Errorf("parsed %+v", parsed)
	}
	valid, _, err := c.Jobs().Validate(fullJob(), nil)
	if checkNoError(t, "validate", err) &&
		!strings.Contains(valid.Error, `id "web/one" must not hold '/'`) {
		t.Errorf("a job with a slash in its ID: %q", valid.Error)
	}
	job := fullJob()
	*job.ID = "web"
	valid, _, err = c.Jobs().Validate(job, nil)
	if checkNoError(t, "validate", err) &&
		(valid.Error != "" || len(valid.ValidationErrors) > 0) {
		t.Errorf("a job that is valid: %q %v", valid.Error, valid.ValidationErrors)
	}
}

// TestClient_ParsesTheExamples sends the files of the examples, and the jobs that come back.
func TestClient_ParsesTheExamples(t *testing.T) {
	c, _ := clientOfFakeServers(t)
	for file, check := range map[string]func(*public.Task) bool{
		"device.hcl": func(task *public.Task) bool {
			devices := task.Resources.Devices
			return len(devices) == 1 && devices[0].Name == "linux/memory/zero" && *devices[0].Count == 1
		},
		"docker.hcl":          func(task *public.Task) bool { return task.Config["image"] != nil },
		"docker-hostpath.hcl": func(task *public.Task) bool { return task.CSIPluginConfig.ID != "" },
	} {
		src, err := os.ReadFile(filepath.Join("..", "..", "examples", file))
		if err != nil {
			t.Fatal(err)
		}
		job, err := c.Jobs().ParseHCL(string(src), true)
		if !checkNoError(t, file, err) {
			continue
		}
		task := job.TaskGroups[0].Tasks[0]
		if !check(task) {
			t.Errorf("%s: the client reads %+v", file, task)
		}
		valid, _, err := c.Jobs().Validate(job, nil)
		if checkNoError(t, file, err) && (valid.Error != "" || len(valid.ValidationErrors) > 0) {
			t.Errorf("%s: %q %v", file, valid.Error, valid.ValidationErrors)
		}
	}
}
