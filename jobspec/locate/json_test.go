package locate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/jobspec/locate"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

// TestInJSON_AddsPositionsToFaults has faults of a job in the JSON of the API.
func TestInJSON_AddsPositionsToFaults(t *testing.T) {
	const src = `{
  "ID": "j", "Type": "sevrice",
  "TaskGroups": [{"Name": "f", "Tasks": [{"Name": "t", "Driver": "x"}]}, {
    "Name": "g",
    "Count": -1,
    "Constraints": [
      {"LTarget": "a", "Operand": "is_set"},
      {"LTarget": "a", "Operand": "like"}],
    "Networks": [{"DynamicPorts": [{"Label": "a"},
      {"Label": "b", "To": 70000}]}],
    "Volumes": {
      "v": {"Name": "v", "Type": "host", "Source": "s"},
      "w": {"Name": "w", "Type": "host"}},
    "Tasks": [{"Name": "u"}, {"Name": "t", "Driver": "x",
      "KillSignal": "SIGNOPE",
      "Templates": [
        {"EmbeddedTmpl": "x", "DestPath": "local/x"},
        {"EmbeddedTmpl": "x", "DestPath": "../x"}],
      "Resources": {
        "MemoryMB": -1}
    }]
  }]
}`
	job := &structs.Job{}
	if err := json.Unmarshal([]byte(src), job); err != nil {
		t.Fatal(err)
	}
	defaults.Canonicalize(job)
	err := locate.InJSON("j.json", []byte(src), nil, validate.Job(job))
	for _, want := range []string{
		`j.json:2,22: job "j": type "sevrice"`,
		`j.json:5,14: job "j": group "g": count -1`,
		`j.json:8,35: job "j": group "g": constraint 2: operator "like"`,
		`j.json:10,28: job "j": group "g": network: port "b": to 70000`,
		`j.json:13,12: job "j": group "g": volume "w": source is required`,
		`j.json:14,15: job "j": group "g": task "u": driver is required`,
		`j.json:15,21: job "j": group "g": task "t": kill_signal "SIGNOPE"`,
		`j.json:18,43: job "j": group "g": task "t": template 2: destination "../x"`,
		`j.json:20,21: job "j": group "g": task "t": resources: memory -1`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
	none := structs.Invalidf("no place")
	if got := locate.InJSON("j.json", []byte(src), nil, none); got.Error() != "no place" {
		t.Errorf("got %v", got)
	}
	if got := locate.InJSON("j.json", []byte("{"), nil, none); got != none {
		t.Errorf("got %v", got)
	}
}

func FuzzInJSON(f *testing.F) {
	f.Add(`{"ID": "x", "TaskGroups": [{"Name": "g", "Count": -1}]}`, `job "x": group "g": count -1`)
	f.Fuzz(func(t *testing.T, src, fault string) {
		if locate.InJSON("x.json", []byte(src), nil, structs.Invalidf("%s", fault)) == nil {
			t.Error("InJSON dropped the error")
		}
	})
}
