package rights_test

import (
	"strings"
	"testing"

	"berth/acl"
	"berth/endpoints/rights"
	"berth/internal/mvcc"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// submitter has all rights of write in team, and none that no shorthand gives.
const submitter = `
namespace "team" {
  policy = "write"
  volume "sealed" { policy = "deny" }
  volume "replica[*" { policy = "write" }
}
host_volume "data" { policy = "read" }`

// withCapability returns rules with a further capability.
func withCapability(name string) string {
	return strings.Replace(submitter, `"write"`, `"write"`+"\n  capabilities = [\""+name+`"]`, 1)
}

func ask(t *testing.T, rules string, req any) rights.Question {
	t.Helper()
	p, err := acl.Parse("p", rules)
	if err != nil {
		t.Fatal(err)
	}
	return rights.Question{
		Caller: rights.Caller{ACL: acl.New(p)},
		Tx:     state.New().Read(),
		Req:    req,
	}
}

// A job needs, beside submit-job, a right of its own for each part that reaches beyond its sandbox.
func TestJobSubmit_AsksForWhatTheJobHas(t *testing.T) {
	for name, c := range map[string]struct {
		task   structs.Task
		volume *structs.VolumeRequest
		proxy  *structs.SidecarTask
		mode   string // of the network
		rules  string // submitter if ""
		want   bool
	}{
		"a plain task": {task: structs.Task{Driver: "exec"}, want: true},
		"raw_exec":     {task: structs.Task{Driver: "raw_exec"}},
		"raw_exec with its right": {
			task: structs.Task{Driver: "raw_exec"}, rules: withCapability("submit-raw-exec"), want: true,
		},
		"a plugin":                {task: structs.Task{CSIPluginConfig: &structs.CSIPluginConfig{}}},
		"a plugin with its right": {task: structs.Task{CSIPluginConfig: &structs.CSIPluginConfig{}}, rules: withCapability("csi-register-plugin"), want: true},
		"privileged":              {task: container("privileged", true)},
		"privileged with its right": {
			task: container("privileged", true), rules: withCapability("submit-privileged"), want: true,
		},
		"privileged by a placeholder":        {task: container("privileged", "${meta.privileged}")},
		"not privileged":                     {task: container("privileged", false), want: true},
		"the network of the host":            {task: container("network_mode", "host")},
		"a network by a placeholder":         {task: container("network_mode", "${meta.mode}")},
		"a network of its own":               {task: container("network_mode", "bridge"), want: true},
		"the processes of the host":          {task: container("pid_mode", "host")},
		"the processes of another container": {task: container("pid_mode", "container:db")},
		"the network of another container":   {task: container("network_mode", "container:db")},
		"a network by its name":              {task: container("network_mode", "backend")},
		"a network of no text":               {task: container("network_mode", []any{"host"})},
		"no network":                         {task: container("network_mode", "none"), want: true},
		"memory to share":                    {task: container("ipc_mode", "shareable"), want: true},
		"control groups of its own":          {task: container("cgroupns", "private"), want: true},
		"no mode":                            {task: container("uts_mode", ""), want: true},
		"the driver of a plugin":             {task: structs.Task{Driver: "podman"}},
		"the driver of a plugin with its right": {
			task: structs.Task{Driver: "podman"}, rules: withCapability("submit-raw-exec"), want: true,
		},
		"java":                            {task: structs.Task{Driver: "java"}, want: true},
		"a device":                        {task: container("devices", []any{map[string]any{"host_path": "/dev/sda"}})},
		"no device":                       {task: container("devices", []any{}), want: true},
		"a capability":                    {task: container("cap_add", []any{"sys_admin"})},
		"a directory of the host":         {task: container("volumes", []any{"/etc:/etc"})},
		"a mount":                         {task: container("mount", []any{map[string]any{"source": "/etc"}})},
		"looser security":                 {task: container("security_opt", []any{"seccomp=unconfined"})},
		"a host volume to read":           {volume: hostVolume("data", true), want: true},
		"a host volume to write":          {volume: hostVolume("data", false)},
		"another host volume":             {volume: hostVolume("etc", true)},
		"a volume":                        {volume: csiVolume("db", false), want: true},
		"a denied volume":                 {volume: csiVolume("sealed", false)},
		"a volume for each allocation":    {volume: csiVolume("replica", true), rules: withoutMount(), want: true},
		"another one for each allocation": {volume: csiVolume("others", true), rules: withoutMount()},
		"a proxy":                         {proxy: &structs.SidecarTask{User: "nobody"}, want: true},
		"a proxy of raw_exec":             {proxy: &structs.SidecarTask{Driver: "raw_exec"}},
		"a proxy of raw_exec with its right": {
			proxy: &structs.SidecarTask{Driver: "raw_exec"}, rules: withCapability("submit-raw-exec"), want: true,
		},
		"a privileged proxy":                  {proxy: image("privileged", true), mode: "bridge"},
		"an image of a proxy":                 {proxy: image("a", 1), mode: "bridge", want: true},
		"an image of a proxy on the host":     {proxy: image("a", 1), mode: "host"},
		"an image of a proxy, and no network": {proxy: image("a", 1)},
		"an image of a proxy on the host with its right": {
			proxy: image("a", 1), rules: withCapability("submit-privileged"), want: true,
		},
		"no right to submit":           {rules: `namespace "team" { policy = "read" }`},
		"a right in another namespace": {rules: `namespace "team-b" { policy = "write" }`},
	} {
		task := c.task
		group := &structs.TaskGroup{Tasks: []*structs.Task{nil, &task}}
		if c.volume != nil {
			group.Volumes = map[string]*structs.VolumeRequest{"v": c.volume}
		}
		if c.proxy != nil {
			group.Services = []*structs.Service{nil, {}, {Connect: &structs.Connect{SidecarTask: c.proxy}}}
		}
		if c.mode != "" {
			group.Networks = []*structs.NetworkResource{{Mode: c.mode}}
		}
		job := &structs.Job{Namespace: "team", TaskGroups: []*structs.TaskGroup{nil, group}}
		rules := c.rules
		if rules == "" {
			rules = submitter
		}

		got := rights.JobSubmit.Allows(ask(t, rules, &structs.JobRegisterRequest{Job: job}))
		planned := rights.JobPlan.Allows(ask(t, rules, &structs.JobPlanRequest{Job: job}))
		if got != c.want || planned != c.want {
			t.Errorf("%s: submit %t, plan %t; want %t", name, got, planned, c.want)
		}
	}
}

// withoutMount gives claims by the rules of volumes alone.
func withoutMount() string {
	return `
namespace "team" {
  capabilities = ["submit-job"]
  volume "replica[*" { policy = "write" }
}`
}

func container(field string, value any) structs.Task {
	return structs.Task{Driver: "docker", Config: map[string]any{"image": "i", field: value}}
}

// image returns a proxy with an image and a further field of its config.
func image(field string, value any) *structs.SidecarTask {
	return &structs.SidecarTask{Config: map[string]any{"image": "envoy:1", field: value}}
}

func hostVolume(source string, readOnly bool) *structs.VolumeRequest {
	return &structs.VolumeRequest{Type: structs.VolumeTypeHost, Source: source, ReadOnly: readOnly}
}

func csiVolume(source string, perAlloc bool) *structs.VolumeRequest {
	return &structs.VolumeRequest{Type: structs.VolumeTypeCSI, Source: source, PerAlloc: perAlloc}
}

// Without a namespace of its own, a job gets that of the request.
func TestJobSubmit_TakesTheNamespaceOfTheRequest(t *testing.T) {
	req := &structs.JobRegisterRequest{
		Job:          &structs.Job{},
		WriteOptions: structs.WriteOptions{Namespace: "team"},
	}
	if !rights.JobSubmit.Allows(ask(t, submitter, req)) {
		t.Error("a job without a namespace is denied in that of its request")
	}
	req.Job.Namespace = "team-b"
	if rights.JobSubmit.Allows(ask(t, submitter, req)) {
		t.Error("a job of another namespace is allowed by that of its request")
	}
}

// Somebody on duty detaches a volume and neither forces nor deletes.
func TestVolumes_HaveRightsOfTheirOwn(t *testing.T) {
	duty := `namespace "team" {
  volume "db-*" { capabilities = ["read", "detach"] }
}`
	team := structs.WriteOptions{Namespace: "team"}
	for name, c := range map[string]struct {
		right rights.Right
		req   any
		want  bool
	}{
		"detach":           {rights.VolumeDetach, &structs.CSIVolumeDetachRequest{VolumeID: "db-1", WriteOptions: team}, true},
		"detach by force":  {rights.VolumeDetach, &structs.CSIVolumeDetachRequest{VolumeID: "db-1", Force: true, WriteOptions: team}, false},
		"another volume":   {rights.VolumeDetach, &structs.CSIVolumeDetachRequest{VolumeID: "q", WriteOptions: team}, false},
		"release":          {rights.ClaimRelease, &structs.VolumeClaimReleaseRequest{VolumeID: "db-1", WriteOptions: team}, true},
		"release by force": {rights.ClaimRelease, &structs.VolumeClaimReleaseRequest{VolumeID: "db-1", Force: true, WriteOptions: team}, false},
		"delete":           {rights.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "db-1", WriteOptions: team}, false},
		"deregister":       {rights.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "db-1", WriteOptions: team}, false},
	} {
		if got := c.right.Allows(ask(t, duty, c.req)); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}

	write := `namespace "team" { policy = "write" }`
	force := &structs.CSIVolumeDeregisterRequest{ID: "db-1", Force: true, WriteOptions: team}
	if rights.VolumeDeregister.Allows(ask(t, write, force)) {
		t.Error("write forces a deregistration")
	}
	both := `namespace "team" {
  policy       = "write"
  capabilities = ["csi-force-volume"]
}`
	if !rights.VolumeDeregister.Allows(ask(t, both, force)) {
		t.Error("csi-force-volume does not allow force")
	}
}

// A volume of per_alloc is one of its own for each allocation, also for those that a larger count starts.
func TestJobs_AskForEachVolumeOfPerAlloc(t *testing.T) {
	rules := `namespace "team" {
  capabilities = ["submit-job", "scale-job"]
  volume "db[*" { capabilities = ["claim"] }
  volume "db[2]" { policy = "deny" }
}`
	group := &structs.TaskGroup{
		Name:    "g",
		Count:   2,
		Volumes: map[string]*structs.VolumeRequest{"v": csiVolume("db", true), "w": nil},
	}
	team := structs.WriteOptions{Namespace: "team"}
	stored := mvcc.Open(&schema.All)
	err := stored.Write(10, func(tx *mvcc.WriteTx) error {
		job := &structs.Job{Namespace: "team", ID: "j", TaskGroups: []*structs.TaskGroup{{
			Name: "g", Count: 3, Volumes: group.Volumes,
		}}}
		schema.Jobs.Put(tx, job)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	for name, c := range map[string]struct {
		count  int
		min    *int64
		keep   bool
		job    string
		denied bool
	}{
		"those with a right":          {count: 2, job: "j"},
		"one more":                    {count: 3, job: "j", denied: true},
		"one by the minimum":          {count: 2, min: new(int64(3)), job: "j", denied: true},
		"one that the stored job has": {count: 2, keep: true, job: "j", denied: true},
		"none that another job has":   {count: 2, keep: true, job: "k"},
		"more than a group can have":  {count: 1 << 40, job: "j", denied: true},
		"no count":                    {job: "j"},
	} {
		g := *group
		g.Count = c.count
		if c.min != nil {
			g.Scaling = &structs.ScalingPolicy{Min: c.min}
		}
		q := ask(t, rules, &structs.JobRegisterRequest{
			Job:            &structs.Job{ID: c.job, TaskGroups: []*structs.TaskGroup{&g}},
			PreserveCounts: c.keep,
			WriteOptions:   team,
		})
		q.Tx = stored.Read()
		if got := rights.JobSubmit.Allows(q); got == c.denied {
			t.Errorf("%s: got %t, want %t", name, got, !c.denied)
		}
	}

	for _, c := range []struct {
		job, group string
		count      *int64
		want       bool
	}{
		{"j", "g", new(int64(5)), true}, // db[2] is mounted already
		{"j", "g", nil, true},
		{"j", "x", new(int64(5)), true},
		{"x", "g", new(int64(5)), true},
	} {
		q := ask(t, rules, &structs.JobScaleRequest{
			JobID: c.job, Group: c.group, Count: c.count, WriteOptions: team,
		})
		q.Tx = stored.Read()
		if got := rights.JobScale.Allows(q); got != c.want {
			t.Errorf("to scale %+v: got %t, want %t", c, got, c.want)
		}
	}
	scale := &structs.JobScaleRequest{JobID: "j", Group: "g", Count: new(int64(5)), WriteOptions: team}
	q := ask(t, strings.Replace(rules, "db[2]", "db[4]", 1), scale)
	q.Tx = stored.Read()
	if rights.JobScale.Allows(q) {
		t.Error("a larger count mounts a denied volume")
	}
}

// A former version of a job may have what its caller could not submit.
func TestJobVersions_AreAskedAboutTheirContent(t *testing.T) {
	stored := mvcc.Open(&schema.All)
	err := stored.Write(10, func(tx *mvcc.WriteTx) error {
		for version, driver := range []string{"exec", "raw_exec"} {
			schema.JobVersions.Put(tx, &structs.Job{
				Namespace:  "team",
				ID:         "j",
				Version:    uint64(version),
				TaskGroups: []*structs.TaskGroup{{Tasks: []*structs.Task{{Driver: driver}}}},
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	team := structs.WriteOptions{Namespace: "team"}
	for version, want := range []bool{true, false, true} { // there is no version 2
		number := uint64(version)
		revert := ask(t, submitter, &structs.JobRevertRequest{JobID: "j", JobVersion: number, WriteOptions: team})
		revert.Tx = stored.Read()
		stable := ask(t, submitter, &structs.JobStableRequest{JobID: "j", JobVersion: number, WriteOptions: team})
		stable.Tx = stored.Read()
		if rights.JobRevert.Allows(revert) != want || rights.JobStable.Allows(stable) != want {
			t.Errorf("version %d: revert %t, stable %t; want %t", version,
				rights.JobRevert.Allows(revert), rights.JobStable.Allows(stable), want)
		}
	}
}
