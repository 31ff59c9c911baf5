package scheduler

import (
	"slices"
	"strings"
	"testing"

	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// inlineOf gives a job an inline volume of a plugin.
func inlineOf(plugin string) func(*structs.Job) {
	return func(j *structs.Job) {
		j.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"tmp": {
			Type:      structs.VolumeTypeCSI,
			Lifecycle: structs.LifecycleInline,
			PluginID:  plugin,
		}}
	}
}

// TestInlineVolume_NeedsItsPluginOnTheNode also holds that the job makes no claim and that its evaluation
// waits for the plugin.
func TestInlineVolume_NeedsItsPluginOnTheNode(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2")
	w.job(aJob("sort", structs.JobService, inlineOf("scratch"), count(2)))
	w.allowInline("scratch")
	p := w.run("sort")
	if got := rejections(p, "g"); !strings.Contains(got, "CSI plugin scratch has no node instance here (2)") {
		t.Errorf("the rejections are %s", got)
	}
	if keys := blockedOn(p); !slices.Contains(keys, structs.WakePlugin("scratch")) {
		t.Errorf("it waits for %q", keys)
	}

	ill := half("scratch", structs.CSIKindNode)
	ill.Healthy = false
	w.csi("n1", ill)
	w.csi("n2", half("scratch", structs.CSIKindNode))
	w.run("sort")
	for _, a := range w.allocs("sort") {
		if a.NodeID != "n2" || len(a.CSIVolumes) > 0 {
			t.Errorf("%s is on %s with the claims %+v", a.Name, a.NodeID, a.CSIVolumes)
		}
	}
	if n := len(w.allocs("sort")); n != 2 {
		t.Errorf("%d allocations", n)
	}
}

// allowInline lets jobs have inline volumes of a plugin.
func (w *fixture) allowInline(plugin string) {
	w.t.Helper()
	p := &storage.PluginSettingsRequest{ID: plugin, Inline: storage.InlineAllow, WriteOptions: w.now()}
	do(w, csi.PluginConfigSet, p)
}

// A driver that knows no inline volumes may mount what the parameters of a job name, so an operator decides.
func TestInlineVolume_NeedsAnOperatorsWord(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	w.csi("n1", half("scratch", structs.CSIKindNode))
	w.job(aJob("sort", structs.JobService, inlineOf("scratch")))
	p := w.run("sort")
	if got := rejections(p, "g"); !strings.Contains(got, "berth plugin config -inline allow scratch") {
		t.Errorf("the rejections are %s", got)
	}
	if keys := blockedOn(p); !slices.Contains(keys, structs.WakePlugin("scratch")) {
		t.Errorf("it waits for %q", keys)
	}

	w.allowInline("scratch")
	w.run("sort")
	if n := len(w.allocs("sort")); n != 1 {
		t.Errorf("%d allocations", n)
	}
}
