package structs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/internal/codec"
)

// testJob is a valid service job with every block, made canonical.
func testJob(edits ...func(*Job)) *Job {
	j := &Job{
		ID: "db",
		TaskGroups: []*TaskGroup{{
			Name:  "g",
			Count: 1,
			Volumes: map[string]*VolumeRequest{
				"data": {
					Type:           "csi",
					Source:         "db",
					AccessMode:     CSISingleNodeWriter,
					AttachmentMode: CSIFileSystem,
				},
			},
			Tasks: []*Task{{
				Name:            "t",
				Driver:          "exec",
				VolumeMounts:    []*VolumeMount{{Volume: "data", Destination: "/data"}},
				CSIPluginConfig: &CSIPluginConfig{ID: "hostpath", Type: CSIPluginNode},
			}},
		}},
	}
	for _, edit := range edits {
		edit(j)
	}
	j.Canonicalize()
	return j
}

func canaries(n int) *UpdateStrategy {
	u := DefaultUpdateStrategy()
	u.Canary = n
	return &u
}

// shareEach gives each index of a group a volume that several allocations may use.
func shareEach(g *TaskGroup, count, canary int) {
	g.Count = count
	g.Update = canaries(canary)
	g.Volumes["data"].AccessMode = CSIMultiNodeMultipleWriter
	g.Volumes["data"].PerAlloc = true
}

func TestCanonicalize_FillsDefaults(t *testing.T) {
	j := testJob()
	g := j.TaskGroups[0]
	task := j.TaskGroups[0].Tasks[0]
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"namespace", j.Namespace, "default"},
		{"region", j.Region, "global"},
		{"name", j.Name, "db"},
		{"type", j.Type, "service"},
		{"priority", j.Priority, 50},
		{"node pool", j.NodePool, "default"},
		{"datacenters", fmt.Sprint(j.Datacenters), "[*]"},
		{"restart", *g.RestartPolicy, RestartPolicy{2, 30 * time.Minute, 15 * time.Second, "fail"}},
		{"task restart", *task.RestartPolicy, *g.RestartPolicy},
		{"reschedule", *g.ReschedulePolicy, ReschedulePolicy{0, 0, 30 * time.Second, "exponential",
			time.Hour, true}},
		{"disk", *g.EphemeralDisk, EphemeralDisk{SizeMB: 300}},
		{"resources", fmt.Sprint(*task.Resources), fmt.Sprint(Resources{CPU: 100, MemoryMB: 300})},
		{"kill timeout", task.KillTimeout, 5 * time.Second},
		{"logs", *task.LogConfig, LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}},
		{"volume name", g.Volumes["data"].Name, "data"},
		{"propagation", task.VolumeMounts[0].PropagationMode, "private"},
		{"plugin", *task.CSIPluginConfig, CSIPluginConfig{"hostpath", "node", "/csi", "/local/csi",
			30 * time.Second, 0, ""}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if err := j.Validate(); err != nil {
		t.Error(err)
	}
}

func TestCanonicalize_IsIdempotent(t *testing.T) {
	for _, kind := range jobTypes {
		j := testJob(func(j *Job) { j.Type = kind })
		before := fmt.Sprintf("%+v %+v", *j, *j.TaskGroups[0])
		j.Canonicalize()
		if after := fmt.Sprintf("%+v %+v", *j, *j.TaskGroups[0]); after != before {
			t.Errorf("%s:\n%s\n%s", kind, before, after)
		}
	}
	(&Job{TaskGroups: []*TaskGroup{nil, {Tasks: []*Task{nil}}}}).Canonicalize() // possible in JSON
}

func TestCanonicalize_DropsASystemJobsEmptyReschedulePolicy(t *testing.T) {
	j := testJob(func(j *Job) {
		j.Type = JobSystem
		j.TaskGroups[0].ReschedulePolicy = &ReschedulePolicy{}
	})
	if err := j.Validate(); err != nil || j.TaskGroups[0].ReschedulePolicy != nil {
		t.Errorf("%+v, %v", j.TaskGroups[0].ReschedulePolicy, err)
	}
}

func group(edit func(*TaskGroup)) func(*Job) { return func(j *Job) { edit(j.TaskGroups[0]) } }
func task(edit func(*Task)) func(*Job)       { return func(j *Job) { edit(j.TaskGroups[0].Tasks[0]) } }
func volume(edit func(*VolumeRequest)) func(*Job) {
	return func(j *Job) { edit(j.TaskGroups[0].Volumes["data"]) }
}
func plugin(edit func(*CSIPluginConfig)) func(*Job) {
	return func(j *Job) { edit(j.TaskGroups[0].Tasks[0].CSIPluginConfig) }
}
func mount(edit func(*VolumeMount)) func(*Job) {
	return func(j *Job) { edit(j.TaskGroups[0].Tasks[0].VolumeMounts[0]) }
}
func constrained(c *Constraint) func(*Job) {
	return func(j *Job) { j.Constraints = []*Constraint{c} }
}

func TestJobValidate_NamesTheFault(t *testing.T) {
	for _, c := range []struct {
		want string // "" for valid
		edit func(*Job)
	}{
		{`job: id is required`, func(j *Job) { j.ID = "" }},
		{`job: id "a b" must not hold ' '`, func(j *Job) { j.ID = "a b" }},
		{`job: id "a\x00" must not hold '\x00'`, func(j *Job) { j.ID = "a\x00" }},
		{`job: id has 256 bytes`, func(j *Job) { j.ID = strings.Repeat("x", 256) }},
		{`job: id is not text in UTF-8`, func(j *Job) { j.ID = "\xff" }},
		{`job: id ".." is not a name`, func(j *Job) { j.ID = ".." }},
		{`job "db": namespace "a/b" must be`, func(j *Job) { j.Namespace = "a/b" }},
		{`job "db": type "cron" must be one of service, batch, system, sysbatch`, func(j *Job) { j.Type = "cron" }},
		{`job "db": priority 101 must be between 1 and 100`, func(j *Job) { j.Priority = 101 }},
		{`job "db": priority -1`, func(j *Job) { j.Priority = -1 }},
		{`job "db": node_pool "a b"`, func(j *Job) { j.NodePool = "a b" }},
		{`job "db": datacenters: name is required`, func(j *Job) { j.Datacenters = []string{""} }},
		{`job "db": meta: key "a=b"`, func(j *Job) { j.Meta = map[string]string{"a=b": ""} }},
		{`job "db": at least one group is required`, func(j *Job) { j.TaskGroups = nil }},
		{`job "db": group 1 is null`, func(j *Job) { j.TaskGroups = append(j.TaskGroups, nil) }},
		{`job "db": group "g" is there twice`,
			func(j *Job) { j.TaskGroups = append(j.TaskGroups, j.TaskGroups[0]) }},
		{`group "g": count -1 must not be negative`, group(func(g *TaskGroup) { g.Count = -1 })},
		{``, group(func(g *TaskGroup) { g.Count = 0 })},
		{`group "g": count 2: a system job places one on every feasible node`,
			func(j *Job) {
				j.Type = JobSystem
				j.TaskGroups[0].Count = 2
			}},
		{`group "g": reschedule: a system job has none`,
			func(j *Job) {
				j.Type = JobSystem
				j.TaskGroups[0].ReschedulePolicy = &ReschedulePolicy{Attempts: 1}
			}},
		{`group "g": restart: mode "never" must be one of fail, delay`,
			group(func(g *TaskGroup) { g.RestartPolicy = &RestartPolicy{Mode: "never"} })},
		{`restart: 10 attempts, 10s apart, do not fit into an interval of 30s`, group(func(g *TaskGroup) {
			g.RestartPolicy = &RestartPolicy{
				Attempts: 10,
				Delay:    10 * time.Second,
				Interval: 30 * time.Second,
			}
		})},
		{`restart: interval must be above zero`,
			group(func(g *TaskGroup) { g.RestartPolicy = &RestartPolicy{Interval: -1} })},
		{`reschedule: delay_function "linear" must be one of constant, exponential, fibonacci`,
			group(func(g *TaskGroup) {
				g.ReschedulePolicy = &ReschedulePolicy{Unlimited: true, DelayFunction: "linear"}
			})},
		{`reschedule: max_delay 1s must not be below delay 30s`,
			group(func(g *TaskGroup) {
				p := &ReschedulePolicy{Unlimited: true, MaxDelay: time.Second}
				p.DelayFunction = RescheduleFibonacci
				g.ReschedulePolicy = p
			})},
		{``, group(func(g *TaskGroup) { g.ReschedulePolicy = &ReschedulePolicy{} })},
		{``, group(func(g *TaskGroup) { g.EphemeralDisk = &EphemeralDisk{Sticky: true, Migrate: true} })},
		{`group "g": migrate: health_check must be checks or task_states`, group(func(g *TaskGroup) {
			g.Migrate = &MigrateStrategy{HealthCheck: HealthManual}
		})},
		{`group "g": at least one task is required`, group(func(g *TaskGroup) { g.Tasks = nil })},
		{`task "alloc": name "alloc" is taken`, group(func(g *TaskGroup) { g.Tasks[0].Name = "alloc" })},
		{`group "g": task 1 is null`, group(func(g *TaskGroup) { g.Tasks = append(g.Tasks, nil) })},
		{`group "g": 2 tasks are leader`, group(func(g *TaskGroup) {
			g.Tasks = []*Task{{Name: "a", Driver: "x", Leader: true}, {Name: "b", Driver: "x", Leader: true}}
		})},
		{`task "t": lifecycle: hook "before" must be one of prestart, poststart, poststop`,
			lifecycle(TaskLifecycle{Hook: "before"})},
		{`lifecycle: sidecar: a poststop task`, lifecycle(TaskLifecycle{Hook: "poststop", Sidecar: true})},
		{`every task has a lifecycle`, lifecycle(TaskLifecycle{Hook: "prestart"})},
		{`lifecycle: the task is leader`, task(func(t *Task) {
			t.Leader = true
			t.Lifecycle = &TaskLifecycle{Hook: "poststart", Sidecar: true}
		})},
		{``, group(func(g *TaskGroup) {
			g.Tasks = append(g.Tasks, &Task{
				Name:      "u",
				Driver:    "x",
				Lifecycle: &TaskLifecycle{Hook: "prestart", Sidecar: true},
			})
		})},
		{`tasks "t" and "u" both run the node half of plugin "hostpath"`, group(func(g *TaskGroup) {
			g.Tasks = append(g.Tasks, &Task{
				Name:   "u",
				Driver: "x",
				CSIPluginConfig: &CSIPluginConfig{
					ID:   "hostpath",
					Type: CSIPluginMonolith,
				},
			})
		})},
		{``, group(func(g *TaskGroup) {
			g.Tasks = append(g.Tasks, &Task{
				Name:   "u",
				Driver: "x",
				CSIPluginConfig: &CSIPluginConfig{
					ID:   "hostpath",
					Type: CSIPluginController,
				},
			})
		})},

		{`volume "data": type "nfs" must be one of csi, host`, volume(func(v *VolumeRequest) { v.Type = "nfs" })},
		{`volume "data": source is required`, volume(func(v *VolumeRequest) { v.Source = "" })},
		{``, volume(func(v *VolumeRequest) { v.Source = "${NOMAD_JOB_ID}" })}, // with a warning
		{`volume "data": access_mode is required; one of single-node-reader-only, single-node-writer`,
			volume(func(v *VolumeRequest) { v.AccessMode = "" })},
		{`volume "data": access_mode "ReadWriteOnce" is unknown; one of`,
			volume(func(v *VolumeRequest) { v.AccessMode = "ReadWriteOnce" })},
		{`volume "data": attachment_mode is required; one of file-system, block-device`,
			volume(func(v *VolumeRequest) { v.AttachmentMode = "" })},
		{`volume "data": access_mode multi-node-reader-only needs read_only = true`,
			volume(func(v *VolumeRequest) { v.AccessMode = CSIMultiNodeReader })},
		{`volume "data": mount_options is not allowed with attachment_mode block-device`,
			volume(func(v *VolumeRequest) {
				v.AttachmentMode = CSIBlockDevice
				v.MountOptions = &CSIMountOptions{FSType: "ext4"}
			})},
		{`volume "data": access_mode single-node-writer allows one allocation, but count is 2`,
			group(func(g *TaskGroup) { g.Count = 2 })},
		{``, group(func(g *TaskGroup) {
			g.Count = 2
			g.Volumes["data"].PerAlloc = true
		})},
		{`allows one allocation, but count is 2`,
			group(func(g *TaskGroup) {
				g.Count = 2
				g.Volumes["data"].AccessMode = CSIMultiNodeSingleWriter
			})},
		{``, group(func(g *TaskGroup) {
			g.Count = 2
			g.Volumes["data"].AccessMode = CSIMultiNodeSingleWriter
			g.Volumes["data"].ReadOnly = true
		})},
		{``, group(func(g *TaskGroup) {
			g.Count = 2
			g.Volumes["data"].AccessMode = CSIMultiNodeMultipleWriter
		})},
		{`per_alloc is not for system jobs`,
			func(j *Job) {
				j.Type = JobSystem
				j.TaskGroups[0].Volumes["data"].PerAlloc = true
			}},
		{`volume "twin": source "db" is that of volume "data" too`,
			group(func(g *TaskGroup) {
				twin := *g.Volumes["data"]
				g.Volumes["twin"] = &twin
			})},
		{`update: canary: volume "data" has access_mode single-node-writer, so a canary would wait`,
			group(func(g *TaskGroup) { g.Update = canaries(1) })},
		{`update: canary 3 is above the count 2: with per_alloc there are no volumes for the canaries beyond it`,
			group(func(g *TaskGroup) { shareEach(g, 2, 3) })},
		{``, group(func(g *TaskGroup) { shareEach(g, 2, 2) })},
		{``, group(func(g *TaskGroup) { shareEach(g, 0, 3) })}, // no canaries begin
		{``, group(func(g *TaskGroup) {
			shareEach(g, 2, 3)
			g.Volumes["data"].PerAlloc = false
		})},
		{`volume "null" is null`, group(func(g *TaskGroup) { g.Volumes["null"] = nil })},

		{`task "t": driver is required`, task(func(t *Task) { t.Driver = "" })},
		{`task "t": volume_mount: a task of the driver raw_exec has no file system of its own`,
			task(func(t *Task) { t.Driver = "raw_exec" })},
		{``, task(func(t *Task) {
			t.Driver = "raw_exec"
			t.VolumeMounts = nil
		})},
		{`task "t": env: key "" must not be empty`, task(func(t *Task) { t.Env = map[string]string{"": "x"} })},
		{`task "t": env: the value of "A" must not hold NUL`,
			task(func(t *Task) { t.Env = map[string]string{"A": "s3cret\x00"} })},
		{`task "t": kill_signal "SIGNOPE"`, task(func(t *Task) { t.KillSignal = "SIGNOPE" })},
		{``, task(func(t *Task) { t.KillSignal = "SIGINT" })},
		{``, task(func(t *Task) { t.KillSignal = "${meta.signal}" })},
		{`task "t": kill_signal`, task(func(t *Task) { t.KillSignal = "${" + strings.Repeat("x", MaxName) })},
		{`task "t": kill_timeout must not be negative`, task(func(t *Task) { t.KillTimeout = -1 })},
		{`task "t": resources: cores is not supported by berth yet; use cpu`,
			task(func(t *Task) { t.Resources = &Resources{Cores: 1} })},
		{`task "t": resources: cpu -1 must be at least 1 MHz`,
			task(func(t *Task) { t.Resources = &Resources{CPU: -1} })},
		{`task "t": resources: memory_max 10 must not be below memory 300`,
			task(func(t *Task) { t.Resources = &Resources{MemoryMaxMB: 10} })},
		{`task "t": logs: max_files -1`, task(func(t *Task) { t.LogConfig = &LogConfig{MaxFiles: -1} })},

		{`csi_plugin: id is required`, plugin(func(c *CSIPluginConfig) { c.ID = "" })},
		{`csi_plugin: id "a/b" must be`, plugin(func(c *CSIPluginConfig) { c.ID = "a/b" })},
		{`csi_plugin: type "both" must be one of node, controller, monolith`,
			plugin(func(c *CSIPluginConfig) { c.Type = "both" })},
		{`csi_plugin: mount_dir "csi" must be an absolute path`,
			plugin(func(c *CSIPluginConfig) { c.MountDir = "csi" })},
		{`csi_plugin: stage_publish_base_dir "/csi/x" must not be within mount_dir "/csi"`,
			plugin(func(c *CSIPluginConfig) { c.StagePublishBaseDir = "/csi/x/../x" })},
		{`csi_plugin: stage_publish_base_dir is 81 bytes long`,
			plugin(func(c *CSIPluginConfig) { c.StagePublishBaseDir = "/" + strings.Repeat("d", MaxPluginBaseDir) })},
		{`csi_plugin: stage_publish_base_dir "/csi" must not be within mount_dir "/csi"`,
			plugin(func(c *CSIPluginConfig) { c.StagePublishBaseDir = "/csi/" })},
		{``, plugin(func(c *CSIPluginConfig) { c.StagePublishBaseDir = "/csi-staging" })},
		{`csi_plugin: mount_dir "/a/b" must not be within stage_publish_base_dir "/a"`,
			plugin(func(c *CSIPluginConfig) {
				c.MountDir = "/a/b"
				c.StagePublishBaseDir = "/a"
			})},
		{`csi_plugin: hang_timeout must not be negative`, plugin(func(c *CSIPluginConfig) { c.HangTimeout = -1 })},
		{`csi_plugin: former_provider has 64 bytes`,
			plugin(func(c *CSIPluginConfig) { c.FormerProvider = strings.Repeat("x", 64) })},
		{`csi_plugin: health_timeout must be above zero`,
			plugin(func(c *CSIPluginConfig) { c.HealthTimeout = -1 })},

		{`volume_mount 1: volume "other" is no volume of the group; it has: data`,
			mount(func(m *VolumeMount) { m.Volume = "other" })},
		{`volume_mount 1: destination is required`, mount(func(m *VolumeMount) { m.Destination = "" })},
		{`volume_mount 1: destination "/a/../../etc"`,
			mount(func(m *VolumeMount) { m.Destination = "/a/../../etc" })},
		{`volume_mount 1: destination "/"`, mount(func(m *VolumeMount) { m.Destination = "/" })},
		{``, mount(func(m *VolumeMount) { m.Destination = "${NOMAD_TASK_DIR}/x" })},
		{`volume_mount 1: propagation_mode "shared" must be one of private, host-to-task, bidirectional`,
			mount(func(m *VolumeMount) { m.PropagationMode = "shared" })},
		{`destination "data/" is taken by another volume_mount`, task(func(t *Task) {
			t.VolumeMounts = append(t.VolumeMounts, &VolumeMount{Volume: "data", Destination: "data/"})
		})},

		{`constraint 1: operator "~" must be one of =, ==`, constrained(&Constraint{LTarget: "a", Operand: "~"})},
		{`constraint 1: attribute is required`, constrained(&Constraint{Operand: "=", RTarget: "x"})},
		{`constraint 1: value is required with operator =`, constrained(&Constraint{LTarget: "a", Operand: "="})},
		{`constraint 1: value of regexp: error parsing regexp`,
			constrained(&Constraint{LTarget: "a", Operand: "regexp", RTarget: "("})},
		{`constraint 1: value of version: `,
			constrained(&Constraint{LTarget: "a", Operand: "version", RTarget: "new"})},
		{`constraint 1: value of semver: "~> 1.7" is no condition`,
			constrained(&Constraint{LTarget: "a", Operand: "semver", RTarget: "~> 1.7"})},
		{`constraint 1: value of semver: "1.7beta" is no condition`,
			constrained(&Constraint{LTarget: "a", Operand: "semver", RTarget: "> 1.0, 1.7beta"})},
		{``, constrained(&Constraint{LTarget: "a", Operand: "semver", RTarget: ">= v1.2.0, !=1.3.0-rc1+b"})},
		{`constraint 1: distinct_hosts must be true or false`,
			constrained(&Constraint{Operand: "distinct_hosts", RTarget: "maybe"})},
		{`constraint 1: it is null`, constrained(nil)},
		{``, constrained(&Constraint{LTarget: "${attr.x}", Operand: "is_set"})},
		{``, constrained(&Constraint{Operand: "distinct_hosts", RTarget: "true"})},
	} {
		err := testJob(c.edit).Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("want valid, got %v", err)
		case c.want != "" && (!IsKind(err, KindInvalid) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("want %s\n got %v", c.want, err)
		case err != nil && strings.Contains(err.Error(), "s3cret"):
			t.Errorf("a value shows: %v", err)
		}
	}
}

func lifecycle(l TaskLifecycle) func(*Job) {
	return task(func(t *Task) { t.Lifecycle = &l })
}

// configOf returns a config with so many levels of maps and lists.
func configOf(levels int) map[string]any {
	var v any = "x"
	for n := range levels - 1 {
		if n%2 == 0 {
			v = []any{v}
		} else {
			v = map[string]any{"k": v}
		}
	}
	return map[string]any{"k": v}
}

// TestJobValidate_BoundsTheNestingOfConfigs holds that each message and log entry with a valid job can be
// read.
func TestJobValidate_BoundsTheNestingOfConfigs(t *testing.T) {
	const most = 250
	nested := func(levels int) *Job { return testJob(task(func(t *Task) { t.Config = configOf(levels) })) }
	err := nested(most + 1).Validate()
	if err == nil || !strings.Contains(err.Error(), "config nests maps and lists more than 250 levels deep") {
		t.Error(err)
	}
	j := nested(most)
	if err := j.Validate(); err != nil {
		t.Fatal(err)
	}
	for v, read := range map[any]any{
		&JobRegisterRequest{Job: j}:                      &JobRegisterRequest{},
		&AllocsResponse{Allocs: []*Allocation{{Job: j}}}: &AllocsResponse{},
		&Plan{Place: []*Allocation{{Job: j}}}:            &Plan{},
	} {
		b, err := codec.Encode(v)
		if err == nil {
			err = codec.Decode(b, read)
		}
		if err != nil {
			t.Errorf("%T: %v", v, err)
		}
	}
}

func TestJobValidate_ReportsEveryFault(t *testing.T) {
	err := testJob(func(j *Job) {
		j.Priority = 1000
		j.TaskGroups[0].Tasks[0].Driver = ""
		j.TaskGroups[0].Volumes["data"].Source = ""
	}).Validate()
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 3 {
		t.Errorf("got %d lines, want 3: %v", len(lines), err)
	}
}

func TestTaskGroup_CountInJSON(t *testing.T) {
	for body, want := range map[string]int{`{}`: 1, `{"Count": null}`: 1, `{"Count": 0}`: 0, `{"Count": 3}`: 3} {
		var g TaskGroup
		if err := g.UnmarshalJSON([]byte(body)); err != nil || g.Count != want {
			t.Errorf("%s: got the count %d, %v; want %d", body, g.Count, err, want)
		}
	}
}

// A node that reports a time without a form in JSON must not make the lists with it fail.
func TestNodeReports_HoldNoTimeThatJSONLacks(t *testing.T) {
	for _, year := range []int{-1, 10_000, 200_000} {
		far := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		n := &Node{ID: "n", Drivers: map[string]*DriverInfo{"exec": {UpdateTime: far}}}
		err := n.Validate()
		if !IsKind(err, KindInvalid) || !strings.Contains(err.Error(), `driver "exec": the year of UpdateTime`) {
			t.Errorf("year %d: %v", year, err)
		}
		near := time.Unix(5, 0).UTC()
		state := &TaskState{
			State:       TaskRunning,
			LastRestart: far,
			StartedAt:   near,
			FinishedAt:  far,
		}
		bounded := (&AllocClientUpdate{ID: "a", TaskStates: map[string]*TaskState{"t": state}}).Bounded()
		if _, err := json.Marshal(bounded); err != nil || bounded.TaskStates["t"].StartedAt != near {
			t.Errorf("year %d: %v, %+v", year, err, bounded.TaskStates["t"])
		}
	}
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	n := &Node{ID: "n", Drivers: map[string]*DriverInfo{"exec": {UpdateTime: last}, "raw": {}}}
	if err := n.Validate(); err != nil {
		t.Error(err)
	}
}

// A report without task states keeps the stored ones, also if another of its texts is cut.
func TestAllocClientUpdateBounded_AddsNoTaskStates(t *testing.T) {
	u := &AllocClientUpdate{ID: "a", ClientDescription: strings.Repeat("x", MaxText+1)}
	bounded := u.Bounded()
	if bounded == u || bounded.TaskStates != nil {
		t.Errorf("the task states are %#v", bounded.TaskStates)
	}
}

// A task with cores has no default of cpu, which would be a second fault.
func TestResources_HaveOneFaultForCores(t *testing.T) {
	for _, c := range []struct {
		cores, cpu int
		want       string
	}{
		{1, 0, "cores is not supported by berth yet; use cpu"},
		{1, -1, "cores is not supported by berth yet; use cpu\ncpu -1 must be at least 1 MHz"},
		{0, 0, "cpu 0 must be at least 1 MHz"},
	} {
		f := newFieldErrors("")
		given := Resources{Cores: c.cores, CPU: c.cpu, MemoryMB: 10}
		given.validate(f)
		if got := f.err(); got == nil || got.Error() != c.want {
			t.Errorf("%+v: got %v, want %s", given, got, c.want)
		}
	}
}
