package interop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	public "github.com/hashicorp/nomad/api"
)

// patience bounds the wait for one condition. It is long for slow machines.
const patience = 90 * time.Second

// connectToAgent returns a client of a real agent that knows a leader: the one at BERTH_INTEROP_ADDR, or one
// that the binary BERTH_BIN runs with -dev in a temporary directory.
func connectToAgent(t *testing.T) *public.Client {
	t.Helper()
	addr := os.Getenv("BERTH_INTEROP_ADDR")
	bin := os.Getenv("BERTH_BIN")
	if addr == "" && bin == "" {
		t.Skip("needs a running agent (BERTH_INTEROP_ADDR) or a berth binary to start one (BERTH_BIN)")
	}
	if addr == "" {
		addr = startAgent(t, bin, agentConfig, "-dev", "-rpc-port", "0", "-serf-port", "0")
	}
	c, err := public.NewClient(&public.Config{Address: addr, WaitTime: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	awaitAnswer(t, "a leader", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		leader, err := c.Status().Leader()
		return leader != "", nil, err
	})
	return c
}

// agentConfig gives the agent a device, and not the Consul of its machine.
const agentConfig = `consul {
  address = ""
}
client {
  device "berth/test/null" {
    paths      = ["/dev/null"]
    attributes = { size = "3 GiB" }
  }
}
`

// startAgent runs an agent with a configuration until the test ends, and returns its HTTP address.
func startAgent(t *testing.T, bin, settings string, options ...string) (addr string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "b") // short: sockets are below it
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "agent.hcl")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	options = append(options, "-config", config, "-data-dir", dir, "-http-port", "0")
	cmd := exec.Command(bin, append([]string{"agent"}, options...)...)
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("starting %s: %v", bin, err)
	}
	ended := make(chan error, 1)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(patience, func() {
			_ = cmd.Process.Kill()
		})
		defer timer.Stop()
		if err := <-ended; err != nil || t.Failed() {
			t.Errorf("the agent ended with %v and wrote\n%s", err, log.String())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("something of the agent's is still there: %v", err)
		}
	})
	found := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if a, ok := strings.CutPrefix(lines.Text(), "HTTP API:"); ok {
				found <- strings.TrimSpace(a)
			}
		}
		close(found)
		ended <- cmd.Wait()
	}()
	addr, ok := <-found
	if !ok {
		t.Fatal("the agent ended without saying where it serves HTTP")
	}
	return addr
}

// awaitAnswer repeats a blocking query, each time with the index of the previous answer, until done returns
// true.
func awaitAnswer(t *testing.T, what string,
	ask func(q *public.QueryOptions) (done bool, meta *public.QueryMeta, err error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q := &public.QueryOptions{}
	for {
		done, meta, err := ask(q.WithContext(ctx))
		if done {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
		if meta != nil {
			if meta.LastIndex == 0 {
				t.Fatalf("%s: the answer has no index to wait on", what)
			}
			q.WaitIndex = meta.LastIndex
			continue
		}
		select { // there is no index to wait on, for example before the agent listens
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func TestClient_ReadsTheAgent(t *testing.T) {
	t.Parallel()
	c := connectToAgent(t)
	node := awaitReadyNode(t, c)
	t.Run("jobs", func(t *testing.T) { testJobs(t, c) })
	t.Run("devices", func(t *testing.T) { testDevices(t, c, node.ID) })
	t.Run("storage", func(t *testing.T) {
		testStorage(t, c, node.ID)
	})
	t.Run("cluster", func(t *testing.T) {
		testCluster(t, c, node.ID)
	})
}

// awaitReadyNode waits for a ready node and returns it.
func awaitReadyNode(t *testing.T, c *public.Client) (node *public.NodeListStub) {
	t.Helper()
	awaitAnswer(t, "a node", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		nodes, meta, err := c.Nodes().List(q)
		for _, n := range nodes {
			if n.Status == "ready" {
				node = n
			}
		}
		return node != nil, meta, err
	})
	return node
}

// shellJob returns a job that runs one line of shell.
func shellJob(id, line string) *public.Job {
	cpu, memory := 50, 32
	task := public.NewTask("app", "exec").SetConfig("command", "/bin/sh").SetConfig("args",
		[]string{"-c", line})
	task.Require(&public.Resources{CPU: &cpu, MemoryMB: &memory})
	return public.NewServiceJob(id, id, "global", 50).AddTaskGroup(public.NewTaskGroup("g", 1).AddTask(task))
}

// runJob registers a job, waits until its allocation runs, and stops it when the test ends.
func runJob(t *testing.T, c *public.Client, job *public.Job) *public.Allocation {
	t.Helper()
	resp, meta, err := c.Jobs().Register(job, nil)
	if err != nil {
		t.Fatalf("registering %s: %v", *job.ID, err)
	}
	if resp.EvalID == "" || resp.JobModifyIndex == 0 || meta.LastIndex == 0 {
		t.Errorf("registering %s answered %+v %+v", *job.ID, resp, meta)
	}
	t.Cleanup(func() {
		stopJob(t, c, *job.ID)
	})
	var id string
	awaitAnswer(t, *job.ID+" running", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		allocs, meta, err := c.Jobs().Allocations(*job.ID, true, q)
		for _, a := range allocs {
			if a.ClientStatus == "failed" {
				t.Fatalf("the allocation failed: %s %+v", a.ClientDescription, eventTexts(a))
			}
			if a.ClientStatus == "running" {
				id = a.ID
			}
		}
		return id != "", meta, err
	})
	alloc, _, err := c.Allocations().Info(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return alloc
}

func eventTexts(a *public.AllocationListStub) (texts []string) {
	for _, s := range a.TaskStates {
		for _, e := range s.Events {
			texts = append(texts, e.Type+": "+e.DisplayMessage)
		}
	}
	return texts
}

// stopJob stops a job and waits until none of its allocations runs.
func stopJob(t *testing.T, c *public.Client, id string) {
	t.Helper()
	if _, _, err := c.Jobs().Deregister(id, false, nil); err != nil {
		t.Errorf("stopping %s: %v", id, err)
		return
	}
	deadline := time.Now().Add(patience)
	q := &public.QueryOptions{}
	for time.Now().Before(deadline) {
		allocs, meta, err := c.Jobs().Allocations(id, true, q)
		if err != nil {
			t.Errorf("stopping %s: %v", id, err)
			return
		}
		running := 0
		for _, a := range allocs {
			if a.ClientStatus == "running" || a.ClientStatus == "pending" {
				running++
			}
		}
		if running == 0 {
			return
		}
		q.WaitIndex = meta.LastIndex
	}
	t.Errorf("%s did not stop within %s", id, patience)
}

func testJobs(t *testing.T, c *public.Client) {
	alloc := runJob(t, c, shellJob("interop-web",
		`echo SECRET > /secrets/token; printf 'one\ntwo\nthree\n' > /local/lines
		echo hello from inside; sleep 600`))
	if alloc.Job == nil || *alloc.Job.ID != "interop-web" || alloc.TaskGroup != "g" {
		t.Errorf("allocation %+v", alloc)
	}
	cancel := make(chan struct{})
	frames, errs := c.AllocFS().Logs(alloc, true, "app", "stdout", "start", 0, cancel, nil)
	// The task has written its files before.
	if f := wantFrame(t, frames, errs); string(f.Data) != "hello from inside\n" {
		t.Errorf("the log begins with %+v", f)
	}
	close(cancel)
	t.Run("statistics", func(t *testing.T) { testStatistics(t, c, alloc) })
	t.Run("commands", func(t *testing.T) { testExec(t, c, alloc) })
	t.Run("files", func(t *testing.T) { testFiles(t, c, alloc) })
	filtered, _, err := c.Jobs().Allocations("interop-web", false,
		&public.QueryOptions{Filter: `ClientStatus == "running"`, PerPage: 1})
	if checkNoError(t, "a filtered page", err) && len(filtered) != 1 {
		t.Errorf("filtered %+v", filtered)
	}
	job, _, err := c.Jobs().Info("interop-web", nil)
	if checkNoError(t, "job", err) &&
		(*job.Type != "service" || *job.TaskGroups[0].Count != 1) {
		t.Errorf("job %+v", job)
	}
	again, _, err := c.Jobs().Register(job, nil) // an unchanged job
	if checkNoError(t, "writing back the job", err) && again.JobModifyIndex == 0 {
		t.Errorf("answered %+v", again)
	}
	list, _, err := c.Jobs().PrefixList("interop-")
	if checkNoError(t, "list", err) &&
		(len(list) != 1 || list[0].ID != "interop-web") {
		t.Errorf("list %+v", list)
	}
	summary, _, err := c.Jobs().Summary("interop-web", nil)
	if checkNoError(t, "summary", err) && summary.Summary["g"].Running != 1 {
		t.Errorf("summary %+v", summary.Summary)
	}
	t.Run("search", func(t *testing.T) { testSearch(t, c, alloc) })
	evals, _, err := c.Jobs().Evaluations("interop-web", nil)
	if checkNoError(t, "evaluations", err) && len(evals) == 0 {
		t.Error("no evaluations")
	}
	_, _, err = c.Jobs().Info("interop-none", nil)
	var rejected public.UnexpectedResponseError
	if !errors.As(err, &rejected) || rejected.StatusCode() != 404 {
		t.Errorf("a job that does not exist: %v", err)
	}
	t.Run("control", func(t *testing.T) { testControl(t, c, alloc) })
}

func testStorage(t *testing.T, c *public.Client, node string) {
	plugin, pluginID := examplePlugin(t, c)
	runJob(t, c, plugin)
	awaitAnswer(t, "a healthy plugin", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		p, meta, err := c.CSIPlugins().Info(pluginID, q)
		if err != nil {
			return false, nil, err
		}
		return p.NodesHealthy == 1 && p.Nodes[node] != nil &&
			p.Nodes[node].Healthy, meta, nil
	})
	awaitAnswer(t, "the event of the plugin", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		n, meta, err := c.Nodes().Info(node, q)
		return err == nil && slices.ContainsFunc(n.Events, func(e *public.NodeEvent) bool {
			return e.Subsystem == "CSI" && e.Details["plugin"] == pluginID &&
				strings.HasSuffix(e.Message, "is healthy") && !e.Timestamp.IsZero()
		}), meta, err
	})
	id := fmt.Sprintf("interop-%d", os.Getpid())
	made, _, err := c.CSIVolumes().Create(&public.CSIVolume{
		ID:                   id,
		Name:                 id,
		PluginID:             pluginID,
		RequestedCapacityMin: 1 << 20,
		RequestedCapacityMax: 8 << 20,
		RequestedCapabilities: []*public.CSIVolumeCapability{{
			AccessMode:     public.CSIVolumeAccessModeSingleNodeWriter,
			AttachmentMode: public.CSIVolumeAttachmentModeFilesystem,
		}},
	}, nil)
	if err != nil {
		t.Fatalf("creating a volume: %v", err)
	}
	t.Cleanup(func() { // its job stops first
		checkNoError(t, "deleting the volume",
			c.CSIVolumes().DeleteOpts(&public.CSIVolumeDeleteRequest{ExternalVolumeID: id}, nil))
	})
	if len(made) != 1 || made[0].ExternalID == "" {
		t.Errorf("created %+v", made)
	}
	t.Run("in use", func(t *testing.T) {
		job := shellJob("interop-writer", "echo data > /data/file; sleep 600")
		volume, destination := "data", "/data"
		job.TaskGroups[0].Volumes = map[string]*public.VolumeRequest{
			"data": {
				Name:           "data",
				Type:           "csi",
				Source:         id,
				AccessMode:     "single-node-writer",
				AttachmentMode: "file-system",
			},
		}
		job.TaskGroups[0].Tasks[0].VolumeMounts = []*public.VolumeMount{{Volume: &volume,
			Destination: &destination}}
		alloc := runJob(t, c, job)
		v, _, err := c.CSIVolumes().Info(id, nil)
		if checkNoError(t, "volume", err) &&
			(len(v.Allocations) != 1 || v.Allocations[0].ID != alloc.ID ||
				v.AccessMode != public.CSIVolumeAccessModeSingleNodeWriter) {
			t.Errorf("volume %+v", v)
		}
		if _, err := c.CSIVolumes().Register(v, nil); err != nil {
			t.Errorf("writing back the volume: %v", err)
		}
		if _, err := c.CSIVolumes().Register(v, nil); err != nil && !strings.Contains(err.Error(), "409") {
			t.Errorf("putting it back once more, now that it has changed: %v", err)
		}
		list, _, err := c.CSIVolumes().List(&public.QueryOptions{Prefix: id})
		if checkNoError(t, "volumes", err) &&
			(len(list) != 1 || list[0].CurrentWriters != 1) {
			t.Errorf("volumes %+v", list)
		}
		if err := c.CSIVolumes().Deregister(id, false, nil); err == nil {
			t.Error("a volume in use was forgotten")
		}
	})
	awaitAnswer(t, "the claim released", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		v, meta, err := c.CSIVolumes().Info(id, q)
		return err == nil && len(v.WriteAllocs) == 0, meta, err
	})
}

func testCluster(t *testing.T, c *public.Client, node string) {
	n, _, err := c.Nodes().Info(node, nil)
	if checkNoError(t, "node", err) &&
		(n.NodeResources == nil || n.NodeResources.Cpu.CpuShares == 0 ||
			!n.Drivers["exec"].Healthy) {
		t.Errorf("node %+v", n)
	}
	_, err = c.Nodes().ToggleEligibility(node, false, nil)
	checkNoError(t, "forbidding placements", err)
	_, err = c.Nodes().ToggleEligibility(node, true, nil)
	checkNoError(t, "allowing placements", err)
	members, err := c.Agent().Members()
	if checkNoError(t, "members", err) && len(members.Members) == 0 {
		t.Error("no members")
	}
	self, err := c.Agent().Self()
	if checkNoError(t, "self", err) && self.Member.Name == "" {
		t.Errorf("self %+v", self)
	}
	health, err := c.Agent().Health()
	if checkNoError(t, "health", err) &&
		(health.Server == nil || !health.Server.Ok) {
		t.Errorf("health %+v", health.Server)
	}
	raft, err := c.Operator().RaftGetConfiguration(nil)
	if checkNoError(t, "raft configuration", err) && len(raft.Servers) == 0 {
		t.Error("no servers in the Raft configuration")
	}
	// The only server is alive and has the only vote, so each of these is rejected with its reason.
	for what, call := range map[string]func() error{
		"has the only vote": func() error {
			return c.Operator().RaftRemovePeerByID(raft.Servers[0].ID, nil)
		},
		"is alive": func() error {
			return c.Agent().ForceLeave(self.Member.Name)
		},
		`"nobody" is unknown`: func() error {
			return c.Agent().ForceLeaveWithOptions("nobody",
				public.ForceLeaveOpts{Prune: true})
		},
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("removing a server: %v, want it to say %q", err, what)
		}
	}
	plugins, _, err := c.CSIPlugins().List(nil)
	checkNoError(t, fmt.Sprintf("plugins %v", plugins), err)
	snapshot, err := c.Operator().Snapshot(nil)
	if checkNoError(t, "snapshot", err) && len(readAll(t, snapshot)) == 0 {
		t.Error("an empty snapshot")
	}
	checkNoError(t, "garbage collection", c.System().GarbageCollect())
}
