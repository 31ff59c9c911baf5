package locate_test

import (
	"errors"
	"strings"
	"testing"

	"berth/internal/conf"
	"berth/jobspec/locate"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

// TestInJSON_LeavesOutFaultsOfLostParts decodes jobs with faults. The jobs have further faults, and those
// that may be due to a fault of the source are left out.
func TestInJSON_LeavesOutFaultsOfLostParts(t *testing.T) {
	const (
		task  = `{"Name": "t", "Driver": "x"}`
		tasks = `"Tasks": [` + task + `]`
	)
	for name, c := range map[string]struct {
		group string // the fields of the group
		want  []string
	}{
		"another field":    {`"Count": "x", "ShutdownDelay": -1, ` + tasks, []string{`shutdown_delay must not`}},
		"the same field":   {`"Tasks": [{"Name": "t", "Driver": 5, "KillSignal": "SIGNOPE"}]`, []string{`kill_signal`}},
		"a misspelt field": {`"Tasks": [{"Name": "t", "Drvier": "x", "KillSignal": "SIGNOPE"}]`, []string{`kill_signal`}},
		"a block":          {`"Count": -1, "Tasks": 5`, []string{`count -1`}},
		"a misspelt block": {`"Count": -1, "Task": [` + task + `]`, []string{`count -1`}},
		"no blocks":        {`"Count": "x"`, []string{`at least one task`}},
		"an element":       {`"Count": -1, "Tasks": [5, ` + task + `]`, []string{`count -1`}},
		"a name":           {`"Tasks": [{"Name": 5, "Driver": "x", "KillSignal": "SIGNOPE"}]`, []string{`kill_signal`}},
		"a block that others need": {`"Volumes": {"v": {"Name": "v", "Type": "host"}, "w": 5},
			"Tasks": [{"Name": "t", "Driver": "x", "VolumeMounts": [{"Volume": "w", "Destination": "/w"}]}]`,
			[]string{`volume "v": source is required`}},
		"a label that others need": {`"Networks": [{"DynamicPorts": [{"Label": 5}]}],
			"Services": [{"Name": "s", "PortLabel": "a", "Provider": "berth"}], ` + tasks, nil},
		"a block as a whole": {`"RestartPolicy": {"Attempts": 10, "Interval": 1000000000, "Delay": "x",
			"Mode": "fail"}, ` + tasks, nil},
		"a block of a block around": {`"RestartPolicy": {"Attempts": 10, "Interval": 1000000000, "Delay": 5,
			"Mode": 5}, ` + tasks, nil},
		"a field that another one needs": {`"Volumes": {"v": {"Name": "v", "Type": "csi", "Source": "s",
			"AccessMode": "single-node-reader-only", "AttachmentMode": "file-system", "ReadOnly": "x"}}, ` + tasks, nil},
		"the number of a block": {`"Constraints": [7, {"LTarget": "a", "Operand": "like"}], ` + tasks,
			[]string{`j.json:1,117: job "j": group "g": constraint 2: operator "like"`}},
		"an element that is no object": {`"Count": -1, "Tasks": [{"Name": "t", "Driver": "x", "Env": {"a": "b"},
			"Artifacts": [{"GetterSource": "https://x", "GetterOptions": {"archive": 5}}]}]`, []string{`count -1`}},
		"a field of a block": {`"Tasks": [{"Name": "t", "Driver": "x", "Resources": {"CPU": "x", "MemoryMB": -1}}]`,
			[]string{`resources: memory -1`}},
		"a word of two meanings": {`"Volumes": {"v": {"Name": "v", "Type": "nfs", "Source": "s",
			"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}}, ` + tasks,
			[]string{`volume "v": type "nfs" must be one of csi, host`}},
		"a whole": {``, nil},
	} {
		src := `{"Type": 5, "ID": "j", "TaskGroups": [{"Name": "g", ` + c.group + `}]}`
		if c.group == "" {
			src = `[]`
		}
		checkLost(t, name, src, c.want)
		checkLost(t, name+" in a body", strings.Replace(`{"Job":@}`, "@", strings.Replace(src, `{"Type"`, `{"Typ"`, 1), 1), c.want)
	}
}

// checkLost decodes a job and compares the faults of validation that are not left out.
func checkLost(t *testing.T, name, src string, want []string) {
	t.Helper()
	var body struct{ Job *structs.Job }
	var faults *conf.JSONFaults
	job := &structs.Job{}
	var err error
	if strings.HasPrefix(src, `{"Job"`) {
		err = conf.DecodeJSON([]byte(src), &body, nil)
		job = body.Job
	} else {
		err = conf.DecodeJSON([]byte(src), job, nil)
	}
	if !errors.As(err, &faults) || !faults.Partly {
		t.Errorf("%s: got %v, want faults that leave a job", name, err)
		return
	}
	if job == nil {
		return
	}
	defaults.Canonicalize(job)
	var lines []string
	if err := locate.InJSON("j.json", []byte(src), faults, validate.Job(job)); err != nil {
		lines = strings.Split(err.Error(), "\n")
	}
	matches := len(lines) == len(want)
	for i := 0; matches && i < len(lines); i++ {
		_, text, _ := strings.Cut(want[i], ": job")
		matches = strings.Contains(lines[i], text)
	}
	if !matches {
		t.Errorf("%s: after\n%v\ngot\n%s\nwant %q", name, err, strings.Join(lines, "\n"), want)
	}
}
