package refdocs

import (
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/admit"
	"berth/structs"
	"berth/structs/admission"
	"berth/structs/defaults"
)

// pageJob returns a job that all rules of the page admit, after a change.
func pageJob(change func(j *structs.Job, t *structs.Task)) admit.Input {
	task := &structs.Task{
		Name:   "t",
		Driver: "docker",
		Config: map[string]any{"image": "registry.example.com/web:1.2"},
	}
	job := &structs.Job{
		ID:         "web",
		Namespace:  "team-a",
		Meta:       map[string]string{"owner": "a"},
		TaskGroups: []*structs.TaskGroup{{Name: "g", Tasks: []*structs.Task{task}}},
	}
	change(job, task)
	defaults.Canonicalize(job)
	return admit.OfJob(job, nil)
}

// pageVolume returns a volume that all rules of the page admit, after a change of it and of the stored one.
func pageVolume(change func(v, old *structs.CSIVolume)) admit.Input {
	v := &structs.CSIVolume{
		ID: "db", Namespace: "team-a",
		CSIVolumeSpec: structs.CSIVolumeSpec{OnNodeLoss: "hold", RequestedCapacityMin: 2 << 30},
	}
	old := *v
	change(v, &old)
	return admit.OfVolume(v, &old)
}

// denied has an object for each rule of the page that this rule alone does not admit.
var denied = map[string]admit.Input{
	"no-privileged": pageJob(func(_ *structs.Job, t *structs.Task) { t.Config["privileged"] = true }),
	"images":        pageJob(func(_ *structs.Job, t *structs.Task) { t.Config["image"] = "docker.io/web:1.2" }),
	"fixed-images": pageJob(func(j *structs.Job, t *structs.Task) {
		j.Namespace = "prod-eu"
		t.Config["image"] = "registry.example.com/web"
	}),
	"checks": pageJob(func(j *structs.Job, _ *structs.Task) {
		j.TaskGroups[0].Services = []*structs.Service{{Name: "web"}}
	}),
	"memory": pageJob(func(_ *structs.Job, t *structs.Task) {
		t.Resources = &structs.Resources{CPU: 100, MemoryMB: 8193}
	}),
	"owner":    pageJob(func(j *structs.Job, _ *structs.Task) { j.Meta = nil }),
	"priority": pageJob(func(j *structs.Job, _ *structs.Task) { j.Priority = 71 }),
	"no-host-volumes": pageJob(func(j *structs.Job, _ *structs.Task) {
		j.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"data": {Type: "host", Source: "data"}}
	}),
	"node-loss": pageVolume(func(v, _ *structs.CSIVolume) { v.OnNodeLoss = "" }),
	"growth":    pageVolume(func(v, _ *structs.CSIVolume) { v.RequestedCapacityMin = 9 << 30 }),
}

// TestAdmissionPage_HasRulesThatWork evaluates each rule of the page on an object that it admits, and on one
// that it alone denies.
func TestAdmissionPage_HasRulesThatWork(t *testing.T) {
	text := readDoc(t, filepath.Join("docs", "operations", "admission.md"))
	_, block, _ := strings.Cut(text, "```hcl\n")
	block, _, _ = strings.Cut(block, "```")
	rules, err := admit.ReadRules("admission.hcl", []byte(block))
	if err != nil || len(rules) != len(denied) {
		t.Fatalf("got %d rules and %v, want %d", len(rules), err, len(denied))
	}

	e := admit.New()
	good := []admit.Input{
		pageJob(func(*structs.Job, *structs.Task) {}),
		pageJob(func(_ *structs.Job, t *structs.Task) { t.Config["privileged"] = false }),
		pageJob(func(j *structs.Job, t *structs.Task) { j.Namespace = "infra"; t.Config["privileged"] = true }),
		pageJob(func(j *structs.Job, t *structs.Task) {
			j.Namespace = "prod"
			t.Config["image"] = "registry.example.com/web@sha256:" + strings.Repeat("0", 64)
		}),
		pageVolume(func(*structs.CSIVolume, *structs.CSIVolume) {}),
		pageVolume(func(v, _ *structs.CSIVolume) { v.RequestedCapacityMin = 8 << 30 }),
	}
	for _, in := range good {
		v, err := e.Decide(t.Context(), rules, in)
		if err != nil || len(v.Denials)+len(v.Warnings) > 0 {
			t.Errorf("%+v: got %+v and %v", in.Object, v, err)
		}
	}

	for _, r := range rules {
		err := e.Check(r)
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
		v, err := e.Decide(t.Context(), rules, denied[r.Name])
		lines := strings.Join(append(v.Denials, v.Warnings...), "\n")
		if err != nil || strings.Count(lines, "admission rule") != 1 || !strings.Contains(lines, r.Message) ||
			!strings.Contains(lines, `"`+r.Name+`"`) || (len(v.Warnings) == 1) != (r.Mode == admission.ModeWarn) {
			t.Errorf("%s: got %+v and %v, want this rule alone", r.Name, v, err)
		}
	}
}
