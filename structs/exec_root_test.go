package structs

import (
	"strings"
	"testing"
)

func TestHasRootFiles_OfTasksOfExec(t *testing.T) {
	for dest, want := range map[string]bool{
		"local/x": false, "tmp/x": false, "./secrets/x": false, "../alloc/x": false, "alloc/x": false,
		"usr/local/bin/x": true, "x": true, "locals/x": true, "${NOMAD_TASK_DIR}/x": false,
	} {
		task := &Task{Driver: driverExec, Templates: []*Template{nil, {DestPath: dest}}}
		artifact := &Task{Driver: driverExec, Artifacts: []*TaskArtifact{nil, {RelativeDest: "/" + dest}}}
		if got := task.HasRootFiles(); got != want {
			t.Errorf("a template at %s: got %v", dest, got)
		}
		if got := artifact.HasRootFiles(); got != want && !strings.HasPrefix(dest, "..") {
			t.Errorf("an artifact at %s: got %v", dest, got)
		}
		task.Driver = driverRawExec
		if task.HasRootFiles() {
			t.Errorf("%s: a task of %s has files in a root", dest, task.Driver)
		}
	}
	seen := &Task{Driver: driverExec, Templates: []*Template{{DestPath: "/secrets/x"}}}
	if seen.HasRootFiles() {
		t.Error("a path that the task sees is beside its directories")
	}
}

func TestArtifact_OfExecIsInAPlaceThatTheTaskSees(t *testing.T) {
	for dest, says := range map[string]string{
		"/dev/shm": "a task of the driver exec has a /dev of its own",
		"proc":     "a task of the driver exec has a /proc of its own",
		"opt/app":  "",
		"/usr":     "",
	} {
		j := withTemplate(&Template{EmbeddedTmpl: "x", DestPath: "local/x"}, func(t *Task) {
			t.Driver = driverExec
			t.VolumeMounts = nil
			t.Artifacts = []*TaskArtifact{{GetterSource: "https://a/b", RelativeDest: dest}}
		})
		err := j.Validate()
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: got %v, want %q", dest, err, says)
		}
		j.TaskGroups[0].Tasks[0].Driver = driverRawExec
		if err := j.Validate(); err != nil {
			t.Errorf("%s: %v", dest, err)
		}
	}
}
