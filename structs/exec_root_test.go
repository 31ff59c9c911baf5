package structs

import (
	"strings"
	"testing"
)

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
