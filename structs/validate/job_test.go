package validate

import (
	"strings"
	"testing"
	"time"

	"berth/internal/codec"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate/field"
)

func TestJob_BoundsMaxRunDuration(t *testing.T) {
	for _, c := range []struct {
		jobType string
		bound   time.Duration
		want    string
	}{
		{structs.JobBatch, time.Second, ""},
		{structs.JobSysBatch, structs.MaxInterval, ""},
		{structs.JobBatch, 0, "max_run_duration 0s must be more than 0"},
		{structs.JobBatch, -time.Second, "max_run_duration -1s must be more than 0"},
		{structs.JobBatch, structs.MaxInterval + time.Second, "must be at most 87600h0m0s"},
		{structs.JobService, time.Hour, "max_run_duration is for batch and sysbatch jobs"},
		{structs.JobSystem, time.Hour, "max_run_duration is for batch and sysbatch jobs"},
	} {
		err := Job(testJob(func(j *structs.Job) {
			j.Type = c.jobType
			j.TaskGroups[0].MaxRunDuration = &c.bound
			j.TaskGroups[0].Tasks[0].CSIPluginConfig = nil
		}))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of a %s job: got %v, want %q", c.bound, c.jobType, err, c.want)
		}
	}
}

func TestJob_ChecksDisconnect(t *testing.T) {
	minute := time.Minute
	for _, c := range []struct {
		jobType string
		rule    structs.DisconnectStrategy
		want    string
	}{
		{structs.JobService, structs.DisconnectStrategy{}, ""},
		{structs.JobSystem, structs.DisconnectStrategy{LostAfter: minute, Replace: new(false)}, ""},
		{structs.JobBatch, structs.DisconnectStrategy{StopOnClientAfter: &minute}, ""},
		{structs.JobService, structs.DisconnectStrategy{StopOnClientAfter: &minute, Replace: new(false)}, ""},
		{structs.JobService, structs.DisconnectStrategy{Reconcile: structs.ReconcileLongestRunning}, ""},
		{structs.JobService, structs.DisconnectStrategy{Reconcile: "newest"}, "disconnect: reconcile"},
		{structs.JobService, structs.DisconnectStrategy{LostAfter: -1}, "disconnect: lost_after must not be negative"},
		{structs.JobService, structs.DisconnectStrategy{LostAfter: structs.MaxInterval + 1}, "must be at most"},
		{structs.JobService, structs.DisconnectStrategy{StopOnClientAfter: new(-minute)}, "must not be negative"},
		{structs.JobService, structs.DisconnectStrategy{LostAfter: minute, StopOnClientAfter: &minute},
			"lost_after and stop_on_client_after exclude each other"},
		{structs.JobSystem, structs.DisconnectStrategy{StopOnClientAfter: &minute},
			"stop_on_client_after is for service and batch jobs, not for a system job"},
	} {
		err := Job(testJob(func(j *structs.Job) {
			j.Type = c.jobType
			j.TaskGroups[0].Disconnect = &c.rule
			j.TaskGroups[0].Tasks[0].CSIPluginConfig = nil
		}))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s job, %+v: %v", c.jobType, c.rule, err)
		}
	}
}

func TestScalingPolicy_IsValidated(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		count      int
		policy     structs.ScalingPolicy
		want       string // "" if it is valid
	}{
		{"as it is", structs.JobService, 2, structs.ScalingPolicy{Min: new(int64(1)), Max: new(int64(3))}, ""},
		{"no min", structs.JobService, 2, structs.ScalingPolicy{Max: new(int64(3))}, ""},
		{"no max", structs.JobService, 2, structs.ScalingPolicy{}, "scaling: max is required"},
		{"a negative min", structs.JobService, 2, structs.ScalingPolicy{Min: new(int64(-1)), Max: new(int64(3))}, "scaling: min"},
		{"a large max", structs.JobService, 2, structs.ScalingPolicy{Max: new(int64(1 << 40))}, "scaling: max"},
		{"min above max", structs.JobService, 2, structs.ScalingPolicy{Min: new(int64(4)), Max: new(int64(3))},
			"scaling: min 4 must not be above max 3"},
		{"count below", structs.JobService, 0, structs.ScalingPolicy{Min: new(int64(1)), Max: new(int64(3))},
			"scaling: count 0 is below min 1"},
		{"count above", structs.JobBatch, 4, structs.ScalingPolicy{Min: new(int64(1)), Max: new(int64(3))},
			"scaling: count 4 is above max 3"},
		{"another type", structs.JobService, 2, structs.ScalingPolicy{Type: "vertical_cpu", Max: new(int64(3))},
			`scaling: type "vertical_cpu" must be "horizontal"`},
		{"on every node", structs.JobSystem, 1, structs.ScalingPolicy{Max: new(int64(3))}, "scaling: a system job has none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &structs.Job{ID: "j", Type: c.kind, TaskGroups: []*structs.TaskGroup{{
				Name: "g", Count: c.count, Scaling: &c.policy,
				Tasks: []*structs.Task{{Name: "t", Driver: "exec"}},
			}}}
			defaults.Canonicalize(j)
			err := Job(j)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("rejected: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// Each registration checks its job. If each check first makes the arguments of its text, this takes 361
// allocations of memory.
func TestJobFaults_OfAValidJobMakesNoTexts(t *testing.T) {
	j := testJob()
	if err := JobFaults(j).Err(); err != nil {
		t.Fatal(err)
	}
	made := testing.AllocsPerRun(10, func() { JobFaults(j) })
	if made > 220 {
		t.Errorf("the check of a job made %v allocations, want at most 220", made)
	}
}

func TestJob_NamesTheFault(t *testing.T) {
	for _, c := range []struct {
		want string // "" for valid
		edit func(*structs.Job)
	}{
		{`job: id is required`, func(j *structs.Job) { j.ID = "" }},
		{`job: id "a b" must not hold ' '`, func(j *structs.Job) { j.ID = "a b" }},
		{`job: id "a\x00" must not hold '\x00'`, func(j *structs.Job) { j.ID = "a\x00" }},
		{`job: id has 256 bytes`, func(j *structs.Job) { j.ID = strings.Repeat("x", 256) }},
		{`job: id is not text in UTF-8`, func(j *structs.Job) { j.ID = "\xff" }},
		{`job: id ".." is not a name`, func(j *structs.Job) { j.ID = ".." }},
		{`job "db": namespace "a/b" must be`, func(j *structs.Job) { j.Namespace = "a/b" }},
		{`job "db": type "cron" must be one of service, batch, system, sysbatch`, func(j *structs.Job) { j.Type = "cron" }},
		{`job "db": priority 101 must be between 1 and 100`, func(j *structs.Job) { j.Priority = 101 }},
		{`job "db": priority -1`, func(j *structs.Job) { j.Priority = -1 }},
		{`job "db": node_pool "a b"`, func(j *structs.Job) { j.NodePool = "a b" }},
		{`job "db": datacenters: name is required`, func(j *structs.Job) { j.Datacenters = []string{""} }},
		{`job "db": meta: key "a=b"`, func(j *structs.Job) { j.Meta = map[string]string{"a=b": ""} }},
		{`job "db": at least one group is required`, func(j *structs.Job) { j.TaskGroups = nil }},
		{`job "db": group 1 is null`, func(j *structs.Job) { j.TaskGroups = append(j.TaskGroups, nil) }},
		{`job "db": group "g" is there twice`,
			func(j *structs.Job) { j.TaskGroups = append(j.TaskGroups, j.TaskGroups[0]) }},
		{`group "g": count -1 must not be negative`, group(func(g *structs.TaskGroup) { g.Count = -1 })},
		{``, group(func(g *structs.TaskGroup) { g.Count = 0 })},
		{`group "g": count 2: a system job places one on every feasible node`,
			func(j *structs.Job) {
				j.Type = structs.JobSystem
				j.TaskGroups[0].Count = 2
			}},
		{`group "g": reschedule: a system job has none`,
			func(j *structs.Job) {
				j.Type = structs.JobSystem
				j.TaskGroups[0].ReschedulePolicy = &structs.ReschedulePolicy{Attempts: 1}
			}},
		{`group "g": restart: mode "never" must be one of fail, delay`,
			group(func(g *structs.TaskGroup) { g.RestartPolicy = &structs.RestartPolicy{Mode: "never"} })},
		{`restart: 10 attempts, 10s apart, do not fit into an interval of 30s`, group(func(g *structs.TaskGroup) {
			g.RestartPolicy = &structs.RestartPolicy{
				Attempts: 10,
				Delay:    10 * time.Second,
				Interval: 30 * time.Second,
			}
		})},
		{`restart: interval must be above zero`,
			group(func(g *structs.TaskGroup) { g.RestartPolicy = &structs.RestartPolicy{Interval: -1} })},
		{`reschedule: delay_function "linear" must be one of constant, exponential, fibonacci`,
			group(func(g *structs.TaskGroup) {
				g.ReschedulePolicy = &structs.ReschedulePolicy{Unlimited: true, DelayFunction: "linear"}
			})},
		{`reschedule: max_delay 1s must not be below delay 30s`,
			group(func(g *structs.TaskGroup) {
				p := &structs.ReschedulePolicy{Unlimited: true, MaxDelay: time.Second}
				p.DelayFunction = structs.RescheduleFibonacci
				g.ReschedulePolicy = p
			})},
		{``, group(func(g *structs.TaskGroup) { g.ReschedulePolicy = &structs.ReschedulePolicy{} })},
		{``, group(func(g *structs.TaskGroup) { g.EphemeralDisk = &structs.EphemeralDisk{Sticky: true, Migrate: true} })},
		{`group "g": migrate: health_check must be checks or task_states`, group(func(g *structs.TaskGroup) {
			g.Migrate = &structs.MigrateStrategy{HealthCheck: structs.HealthManual}
		})},
		{`group "g": at least one task is required`, group(func(g *structs.TaskGroup) { g.Tasks = nil })},
		{`task "alloc": name "alloc" is taken`, group(func(g *structs.TaskGroup) { g.Tasks[0].Name = "alloc" })},
		{`group "g": task 1 is null`, group(func(g *structs.TaskGroup) { g.Tasks = append(g.Tasks, nil) })},
		{`group "g": 2 tasks are leader`, group(func(g *structs.TaskGroup) {
			g.Tasks = []*structs.Task{{Name: "a", Driver: "x", Leader: true}, {Name: "b", Driver: "x", Leader: true}}
		})},
		{`task "t": lifecycle: hook "before" must be one of prestart, poststart, poststop`,
			lifecycle(structs.TaskLifecycle{Hook: "before"})},
		{`lifecycle: sidecar: a poststop task`, lifecycle(structs.TaskLifecycle{Hook: "poststop", Sidecar: true})},
		{`every task has a lifecycle`, lifecycle(structs.TaskLifecycle{Hook: "prestart"})},
		{`lifecycle: the task is leader`, task(func(t *structs.Task) {
			t.Leader = true
			t.Lifecycle = &structs.TaskLifecycle{Hook: "poststart", Sidecar: true}
		})},
		{``, group(func(g *structs.TaskGroup) {
			g.Tasks = append(g.Tasks, &structs.Task{
				Name:      "u",
				Driver:    "x",
				Lifecycle: &structs.TaskLifecycle{Hook: "prestart", Sidecar: true},
			})
		})},
		{`tasks "t" and "u" both run the node half of plugin "hostpath"`, group(func(g *structs.TaskGroup) {
			g.Tasks = append(g.Tasks, &structs.Task{
				Name:   "u",
				Driver: "x",
				CSIPluginConfig: &structs.CSIPluginConfig{
					ID:   "hostpath",
					Type: structs.CSIPluginMonolith,
				},
			})
		})},
		{``, group(func(g *structs.TaskGroup) {
			g.Tasks = append(g.Tasks, &structs.Task{
				Name:   "u",
				Driver: "x",
				CSIPluginConfig: &structs.CSIPluginConfig{
					ID:   "hostpath",
					Type: structs.CSIPluginController,
				},
			})
		})},

		{`volume "data": type "nfs" must be one of csi, host`, volume(func(v *structs.VolumeRequest) { v.Type = "nfs" })},
		{`volume "data": source is required`, volume(func(v *structs.VolumeRequest) { v.Source = "" })},
		{``, volume(func(v *structs.VolumeRequest) { v.Source = "${NOMAD_JOB_ID}" })}, // with a warning
		{`volume "data": access_mode is required; one of single-node-reader-only, single-node-writer`,
			volume(func(v *structs.VolumeRequest) { v.AccessMode = "" })},
		{`volume "data": access_mode "ReadWriteOnce" is unknown; one of`,
			volume(func(v *structs.VolumeRequest) { v.AccessMode = "ReadWriteOnce" })},
		{``, volume(func(v *structs.VolumeRequest) { v.OnDeadMount = "restart" })},
		{``, volume(func(v *structs.VolumeRequest) { v.OnDeadMount = "republish" })},
		{``, volume(func(v *structs.VolumeRequest) { v.OnDeadMount = "ignore" })},
		{`volume "data": on_dead_mount "remount" `,
			volume(func(v *structs.VolumeRequest) { v.OnDeadMount = "remount" })},
		{`volume "data": attachment_mode is required; one of file-system, block-device`,
			volume(func(v *structs.VolumeRequest) { v.AttachmentMode = "" })},
		{`volume "data": access_mode multi-node-reader-only needs read_only = true`,
			volume(func(v *structs.VolumeRequest) { v.AccessMode = structs.CSIMultiNodeReader })},
		{`volume "data": mount_options is not allowed with attachment_mode block-device`,
			volume(func(v *structs.VolumeRequest) {
				v.AttachmentMode = structs.CSIBlockDevice
				v.MountOptions = &structs.CSIMountOptions{FSType: "ext4"}
			})},
		{`volume "data": access_mode single-node-writer allows one allocation, but count is 2`,
			group(func(g *structs.TaskGroup) { g.Count = 2 })},
		{``, group(func(g *structs.TaskGroup) {
			g.Count = 2
			g.Volumes["data"].PerAlloc = true
		})},
		{`allows one allocation, but count is 2`,
			group(func(g *structs.TaskGroup) {
				g.Count = 2
				g.Volumes["data"].AccessMode = structs.CSIMultiNodeSingleWriter
			})},
		{``, group(func(g *structs.TaskGroup) {
			g.Count = 2
			g.Volumes["data"].AccessMode = structs.CSIMultiNodeSingleWriter
			g.Volumes["data"].ReadOnly = true
		})},
		{``, group(func(g *structs.TaskGroup) {
			g.Count = 2
			g.Volumes["data"].AccessMode = structs.CSIMultiNodeMultipleWriter
		})},
		{`per_alloc is not for system jobs`,
			func(j *structs.Job) {
				j.Type = structs.JobSystem
				j.TaskGroups[0].Volumes["data"].PerAlloc = true
			}},
		{`volume "twin": source "db" is that of volume "data" too`,
			group(func(g *structs.TaskGroup) {
				twin := *g.Volumes["data"]
				g.Volumes["twin"] = &twin
			})},
		{`update: canary: volume "data" has access_mode single-node-writer, so a canary would wait`,
			group(func(g *structs.TaskGroup) { g.Update = canaries(1) })},
		{`update: canary 3 is above the count 2: with per_alloc there are no volumes for the canaries beyond it`,
			group(func(g *structs.TaskGroup) { shareEach(g, 2, 3) })},
		{``, group(func(g *structs.TaskGroup) { shareEach(g, 2, 2) })},
		{``, group(func(g *structs.TaskGroup) { shareEach(g, 0, 3) })}, // no canaries begin
		{``, group(func(g *structs.TaskGroup) {
			shareEach(g, 2, 3)
			g.Volumes["data"].PerAlloc = false
		})},
		{`volume "null" is null`, group(func(g *structs.TaskGroup) { g.Volumes["null"] = nil })},

		{`task "t": driver is required`, task(func(t *structs.Task) { t.Driver = "" })},
		{`task "t": volume_mount: a task of the driver raw_exec has no file system of its own`,
			task(func(t *structs.Task) { t.Driver = "raw_exec" })},
		{``, task(func(t *structs.Task) {
			t.Driver = "raw_exec"
			t.VolumeMounts = nil
		})},
		{`task "t": env: key "" must not be empty`, task(func(t *structs.Task) { t.Env = map[string]string{"": "x"} })},
		{`task "t": env: the value of "A" must not hold NUL`,
			task(func(t *structs.Task) { t.Env = map[string]string{"A": "s3cret\x00"} })},
		{`task "t": kill_signal "SIGNOPE"`, task(func(t *structs.Task) { t.KillSignal = "SIGNOPE" })},
		{``, task(func(t *structs.Task) { t.KillSignal = "SIGINT" })},
		{``, task(func(t *structs.Task) { t.KillSignal = "${meta.signal}" })},
		{`task "t": kill_signal`, task(func(t *structs.Task) { t.KillSignal = "${" + strings.Repeat("x", structs.MaxName) })},
		{`task "t": kill_timeout must not be negative`, task(func(t *structs.Task) { t.KillTimeout = -1 })},
		{`task "t": resources: cores is not supported by berth yet; use cpu`,
			task(func(t *structs.Task) { t.Resources = &structs.Resources{Cores: 1} })},
		{`task "t": resources: cpu -1 must be at least 1 MHz`,
			task(func(t *structs.Task) { t.Resources = &structs.Resources{CPU: -1} })},
		{`task "t": resources: memory_max 10 must not be below memory 300`,
			task(func(t *structs.Task) { t.Resources = &structs.Resources{MemoryMaxMB: 10} })},
		{`task "t": logs: max_files -1`, task(func(t *structs.Task) { t.LogConfig = &structs.LogConfig{MaxFiles: -1} })},

		{`csi_plugin: id is required`, plugin(func(c *structs.CSIPluginConfig) { c.ID = "" })},
		{`csi_plugin: id "a/b" must be`, plugin(func(c *structs.CSIPluginConfig) { c.ID = "a/b" })},
		{`csi_plugin: type "both" must be one of node, controller, monolith`,
			plugin(func(c *structs.CSIPluginConfig) { c.Type = "both" })},
		{`csi_plugin: mount_dir "csi" must be an absolute path`,
			plugin(func(c *structs.CSIPluginConfig) { c.MountDir = "csi" })},
		{`csi_plugin: stage_publish_base_dir "/csi/x" must not be within mount_dir "/csi"`,
			plugin(func(c *structs.CSIPluginConfig) { c.StagePublishBaseDir = "/csi/x/../x" })},
		{`csi_plugin: stage_publish_base_dir is 81 bytes long`,
			plugin(func(c *structs.CSIPluginConfig) {
				c.StagePublishBaseDir = "/" + strings.Repeat("d", structs.MaxPluginBaseDir)
			})},
		{`csi_plugin: stage_publish_base_dir "/csi" must not be within mount_dir "/csi"`,
			plugin(func(c *structs.CSIPluginConfig) { c.StagePublishBaseDir = "/csi/" })},
		{``, plugin(func(c *structs.CSIPluginConfig) { c.StagePublishBaseDir = "/csi-staging" })},
		{`csi_plugin: mount_dir "/a/b" must not be within stage_publish_base_dir "/a"`,
			plugin(func(c *structs.CSIPluginConfig) {
				c.MountDir = "/a/b"
				c.StagePublishBaseDir = "/a"
			})},
		{`csi_plugin: hang_timeout must not be negative`, plugin(func(c *structs.CSIPluginConfig) { c.HangTimeout = -1 })},
		{`csi_plugin: former_provider has 64 bytes`,
			plugin(func(c *structs.CSIPluginConfig) { c.FormerProvider = strings.Repeat("x", 64) })},
		{`csi_plugin: health_timeout must be above zero`,
			plugin(func(c *structs.CSIPluginConfig) { c.HealthTimeout = -1 })},

		{`volume_mount 1: volume "other" is no volume of the group; it has: data`,
			mount(func(m *structs.VolumeMount) { m.Volume = "other" })},
		{`volume_mount 1: destination is required`, mount(func(m *structs.VolumeMount) { m.Destination = "" })},
		{`volume_mount 1: destination "/a/../../etc"`,
			mount(func(m *structs.VolumeMount) { m.Destination = "/a/../../etc" })},
		{`volume_mount 1: destination "/"`, mount(func(m *structs.VolumeMount) { m.Destination = "/" })},
		{``, mount(func(m *structs.VolumeMount) { m.Destination = "${NOMAD_TASK_DIR}/x" })},
		{`volume_mount 1: propagation_mode "shared" must be one of private, host-to-task, bidirectional`,
			mount(func(m *structs.VolumeMount) { m.PropagationMode = "shared" })},
		{`volume_mount 1: sub_path "/data" is absolute`, mount(func(m *structs.VolumeMount) { m.SubPath = "/data" })},
		{`volume_mount 1: sub_path "a/../b" has the part ".."`,
			mount(func(m *structs.VolumeMount) { m.SubPath = "a/../b" })},
		{`volume_mount 1: sub_path has 5000 bytes`,
			mount(func(m *structs.VolumeMount) { m.SubPath = "${x}/" + strings.Repeat("x", 4995) })},
		{``, mount(func(m *structs.VolumeMount) { m.SubPath = "data/pg" })},
		{``, mount(func(m *structs.VolumeMount) { m.SubPath = "${NOMAD_ALLOC_INDEX}//" })},
		{`volume_mount 1: sub_path is not allowed with attachment_mode block-device`, func(j *structs.Job) {
			j.TaskGroups[0].Volumes["data"].AttachmentMode = structs.CSIBlockDevice
			j.TaskGroups[0].Tasks[0].VolumeMounts[0].SubPath = "data"
		}},
		{`destination "data/" is taken by another volume_mount`, task(func(t *structs.Task) {
			t.VolumeMounts = append(t.VolumeMounts, &structs.VolumeMount{Volume: "data", Destination: "data/"})
		})},

		{`constraint 1: operator "~" must be one of =, ==`, constrained(&structs.Constraint{LTarget: "a", Operand: "~"})},
		{`constraint 1: attribute is required`, constrained(&structs.Constraint{Operand: "=", RTarget: "x"})},
		{`constraint 1: value is required with operator =`, constrained(&structs.Constraint{LTarget: "a", Operand: "="})},
		{`constraint 1: value of regexp: error parsing regexp`,
			constrained(&structs.Constraint{LTarget: "a", Operand: "regexp", RTarget: "("})},
		{`constraint 1: value of version: `,
			constrained(&structs.Constraint{LTarget: "a", Operand: "version", RTarget: "new"})},
		{`constraint 1: value of semver: "~> 1.7" is no condition`,
			constrained(&structs.Constraint{LTarget: "a", Operand: "semver", RTarget: "~> 1.7"})},
		{`constraint 1: value of semver: "1.7beta" is no condition`,
			constrained(&structs.Constraint{LTarget: "a", Operand: "semver", RTarget: "> 1.0, 1.7beta"})},
		{``, constrained(&structs.Constraint{LTarget: "a", Operand: "semver", RTarget: ">= v1.2.0, !=1.3.0-rc1+b"})},
		{`constraint 1: distinct_hosts must be true or false`,
			constrained(&structs.Constraint{Operand: "distinct_hosts", RTarget: "maybe"})},
		{`constraint 1: it is null`, constrained(nil)},
		{``, constrained(&structs.Constraint{LTarget: "${attr.x}", Operand: "is_set"})},
		{``, constrained(&structs.Constraint{Operand: "distinct_hosts", RTarget: "true"})},
	} {
		err := Job(testJob(c.edit))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("want valid, got %v", err)
		case c.want != "" && (!structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("want %s\n got %v", c.want, err)
		case err != nil && strings.Contains(err.Error(), "s3cret"):
			t.Errorf("a value shows: %v", err)
		}
	}
}

// TestJob_BoundsTheNestingOfConfigs holds that each message and log entry with a valid job can be
// read.
func TestJob_BoundsTheNestingOfConfigs(t *testing.T) {
	const most = 250
	nested := func(levels int) *structs.Job {
		return testJob(task(func(t *structs.Task) { t.Config = configOf(levels) }))
	}
	err := Job(nested(most + 1))
	if err == nil || !strings.Contains(err.Error(), "config nests maps and lists more than 250 levels deep") {
		t.Error(err)
	}
	j := nested(most)
	if err := Job(j); err != nil {
		t.Fatal(err)
	}
	for v, read := range map[any]any{
		&structs.JobRegisterRequest{Job: j}:                              &structs.JobRegisterRequest{},
		&structs.AllocsResponse{Allocs: []*structs.Allocation{{Job: j}}}: &structs.AllocsResponse{},
		&structs.Plan{Place: []*structs.Allocation{{Job: j}}}:            &structs.Plan{},
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

func TestJob_ReportsEveryFault(t *testing.T) {
	err := Job(testJob(func(j *structs.Job) {
		j.Priority = 1000
		j.TaskGroups[0].Tasks[0].Driver = ""
		j.TaskGroups[0].Volumes["data"].Source = ""
	}))
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 3 {
		t.Errorf("got %d lines, want 3: %v", len(lines), err)
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
		f := field.New("")
		given := structs.Resources{Cores: c.cores, CPU: c.cpu, MemoryMB: 10}
		checkResources(f, &given)
		if got := f.Err(); got == nil || got.Error() != c.want {
			t.Errorf("%+v: got %v, want %s", given, got, c.want)
		}
	}
}
