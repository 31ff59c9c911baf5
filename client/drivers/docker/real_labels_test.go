package docker

import (
	"maps"
	"strings"
	"testing"

	"berth/client/drivers/docker/taskconfig"
)

// dialectLabels are the labels of the dialect that the container of a task has, but for its allocation's.
func (n *node) dialectLabels(d *Driver, labels map[string]any) map[string]string {
	n.t.Helper()
	cfg := n.task("labelled", "trap:0")
	cfg.Of.JobID = "job"
	cfg.Of.JobName = "name"
	cfg.Of.Group = "group"
	cfg.Of.Namespace = "ns"
	cfg.Config["labels"] = labels
	n.start(d, cfg)
	got := map[string]string{}
	for name, value := range n.inspect(d, cfg).Config.Labels {
		rest, ok := strings.CutPrefix(name, dialectPrefix)
		if ok && name != labelDialect {
			got[rest] = value
		}
	}
	n.destroy(d, cfg)
	return got
}

// TestDaemon_LabelsContainersAsTheNodeSays checks the labels of the dialect. A job does not replace them.
func TestDaemon_LabelsContainersAsTheNodeSays(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	own := map[string]any{dialectPrefix + "job_id": "another"}
	for name, c := range map[string]struct {
		patterns []string
		want     map[string]string
	}{
		"none": {nil, map[string]string{"job_id": "another"}},
		"some": {[]string{"job*", "node_name"}, map[string]string{
			"job_id": "job", "job_name": "name", "node_name": "box",
		}},
		"all": {[]string{"*"}, map[string]string{
			"job_id": "job", "job_name": "name", "task_group_name": "group", "task_name": "web",
			"namespace": "ns", "node_id": "n1", "node_name": "box",
		}},
	} {
		n.cfg.ExtraLabels = c.patterns
		d := n.driver()
		d.options.NodeName = "box"
		stop := n.launch(d)
		if got := n.dialectLabels(d, own); !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		stop()
	}
}

// TestDaemon_InheritsNoLabelOfBerth: an image says that its containers are of another node and allocation.
func TestDaemon_InheritsNoLabelOfBerth(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	n.Import("claiming:1",
		"LABEL "+labelNode+"=n2", "LABEL "+labelTask+"=other/web", "LABEL "+labelDialect+"=other",
		"LABEL berth.job_id=other", "LABEL berth.future=other", "LABEL plain=kept",
		"LABEL "+dialectPrefix+"node_id=n2", "LABEL "+dialectPrefix+"job_id=other")
	cfg := n.task("own", "trap:0")
	cfg.Config["image"] = "claiming:1"
	cfg.Config["labels"] = map[string]any{dialectPrefix + "job_id": "of the job"}
	n.start(d, cfg)
	got := n.inspect(d, cfg).Config.Labels
	for name, want := range map[string]string{
		labelNode:                 "n1",
		labelTask:                 cfg.ID,
		labelDialect:              "own",
		"berth.job_id":            "",
		"berth.future":            "",
		dialectPrefix + "node_id": "",
		dialectPrefix + "job_id":  "of the job",
		"plain":                   "kept",
	} {
		if got[name] != want {
			t.Errorf("the label %s is %q, want %q", name, got[name], want)
		}
	}
}

func TestConfig_NamesExtraLabelsThatSelectNothing(t *testing.T) {
	c := taskconfig.Settings{ExtraLabels: []string{"job_name", "task*", "[", "alloc"}}
	err := c.Validate()
	for _, want := range []string{
		`docker.extra_labels: "[": expected job_name, job_id, task_group_name`,
		`docker.extra_labels: "alloc": expected`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "task*") {
		t.Errorf("a pattern that selects labels is a fault: %v", err)
	}
}
