package jobspec

import (
	"reflect"
	"strings"
	"testing"

	"berth/structs"
)

// TestReadJob_ReadsActions reads the actions of a task in HCL and in JSON.
func TestReadJob_ReadsActions(t *testing.T) {
	want := []*structs.Action{
		{Name: "dump", Command: "/bin/dump", Args: []string{"-to", "${NOMAD_ALLOC_DIR}/dump"}},
		{Name: "ping", Command: "/bin/ping"},
	}
	const actions = `
action "dump" {
  command = "/bin/dump"
  args    = ["-to", "${NOMAD_ALLOC_DIR}/dump"]
}
action "ping" {
  command = "/bin/ping"
}`
	const inJSON = `{"job": {"j": {"group": {"g": {"task": {"t": {"driver": "exec",
		"action": {
			"dump": {"command": "/bin/dump", "args": ["-to", "${NOMAD_ALLOC_DIR}/dump"]},
			"ping": {"command": "/bin/ping"}}}}}}}}}`
	for name, src := range map[string]string{"j.hcl": string(fileWith("", "", actions)), "j.json": inJSON} {
		f, err := ReadJob(name, []byte(src), &Inputs{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := f.Job.TaskGroups[0].Tasks[0].Actions
		if !reflect.DeepEqual(got, want) || len(f.Warnings) > 0 {
			t.Errorf("%s: got %+v, warnings %v", name, got, f.Warnings)
		}
	}
	for block, want := range map[string]string{
		"action \"a\" {}":                                "command",
		"action {\n command = \"x\"\n}":                  "action",
		"action \"a\" {\n command = \"x\"\n arg = []\n}": `did you mean "args"`,
	} {
		_, err := parseJob("j.hcl", fileWith("", "", block))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", block, err, want)
		}
	}
}
