package jobspec

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

// TestReadJob_ReadsTheSameJobInJSON reads a job in both syntaxes, with the same values from outside.
func TestReadJob_ReadsTheSameJobInJSON(t *testing.T) {
	for _, in := range []Inputs{
		{Vars: []string{"image=shop"}},
		{
			Env:   []string{"BERTH_VAR_image=a", "NOMAD_VAR_plain=5"},
			Files: []VarFile{{Name: "v.json", Source: []byte(`{"groups": {"one": {"ports": ["x"]}}}`)}},
		},
		{Vars: []string{"image=b", `groups={ db = { ports = [] }, z = { ports = ["p", "q"], count = 0 } }`}},
	} {
		native := strings.Split(readText(t, "expressions.hcl", &in), "\n")
		fromJSON := strings.Split(readText(t, "expressions.json", &in), "\n")
		for i := range min(len(native), len(fromJSON)) {
			if native[i] != fromJSON[i] {
				t.Fatalf("%v: line %d of the job is in HCL\n%s\nin JSON\n%s", in, i+1, native[i], fromJSON[i])
			}
		}
		if len(native) != len(fromJSON) {
			t.Errorf("%v: the job has %d lines in HCL, %d in JSON", in, len(native), len(fromJSON))
		}
	}
}

// readText reads a job file under a name without its ending, and returns the job as text.
func readText(t *testing.T, file string, in *Inputs) string {
	t.Helper()
	src, err := os.ReadFile("testdata/json/" + file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ReadJob("job", src, in)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	defaults.Canonicalize(f.Job)
	if err := f.Locate(validate.Job(f.Job)); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	text, err := json.MarshalIndent(f.Job, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// faultyJSON has files in JSON, each with faults of its own.
var faultyJSON = []string{
	`{"job": {"j": {`,
	`{"job": {"j": {}}} x`,
	`{"job": "x"}`,
	`{"job": {"j": 5}}`,
	`{"job": {"j": {"type": "system", "type": "batch"}}}`,
	`{"job": {"a": {}, "b": {}}}`,
	`{"jbo": {"j": {}}}`,
	`[{"job": {"j": {}}}, 5]`,
	"{\"job\": {\"j\": {\n  \"type\": \"sevrice\",\n  \"group\": {\"g\": {\n    \"count\": \"x${1}\"}}}}}",
	"{\"job\": {\"j\": {\n  \"meta\": {\"a\": \"some ${var.no} text\"}}}}",
	"{\"job\": {\"j\": {\n  \"meta\": {\"a\": \"some\\n\\n ${var.no} text\"}}}}",
	"{\"job\": {\"j\": {\n  \"meta\": {\"a\": \"${\", \"b\": \"%{ if }\", \"c\": \"é\\n${\", \"d\": \"$${${1}\"}}}}",
	"{\"job\": {\"j\": {\n  \"meta\": {\"a\": 1, \"a\": 2, \"${null}\": 3}}}}",
	"{\"job\": {\"j\": {\n  \"group\": {\"g\": {\"restart\": 5, \"network\": [{}, {}], \"volume\": {\"v\": []}}}}}}",
	"{\"job\": {\"j\": {\n  \"group\": [{\"g\": {}},\n    {\"g\": {}}]}}}",
	"{\"job\": {\"j\": {\n  \"group\": {\"g\": {\"task\": {\n    \"t\": {}}}}}}}",
	"{\"job\": {\"j\": {\n  \"constraint\": [{\"attribute\": \"a\"},\n    {\"distinct_hosts\": true, \"value\": \"x\"}]}}}",
	"{\"job\": {\"j\": {\n  \"type\": \"${\\\"sevrice\\\"}\", \"namespace\": \"a${1} b\", \"group\": {}}}}",
	"{\"job\": {\"j\": {\n  \"dynamic\": {\"group\": 5}}}}",
	"{\"job\": {\"j\": {\n  \"dynamic\": {\"group\": {\"for_each\": \"a\"}}}}}",
	"{\"job\": {\"j\": {\n  \"dynamic\": {\"group\": {\"for_each\": 5, \"content\": {}}}}}}",
	"{\"job\": {\"j\": {\n  \"dynamic\": {\"grop\": {\"for_each\": [1], \"content\": {}}}}}}",
	"{\"job\": {\"j\": {\n  \"dynamic\": {\"group\": {\"for_each\": [1], \"iterator\": \"a b\", \"content\": {}}}}}}",
	"{\"job\": {\"j\": {\n  \"dynamic\": {\"group\": {\"for_each\": [1], \"content\": {},\n" +
		"    \"labels\": [\"${x.value}\"]}}}}}",
	"{\"job\": {\"j\": {\n  \"dynamic\": {\"group\": {\"for_each\": [1], \"labels\": [\"g\"],\n" +
		"    \"content\": {\"cout\": 1}}}}}}",
	"{\"job\": {\"j\": {}},\n  \"variable\": {\"a\": {\"type\": \"sting\"}, \"b\": {\"type\": 5, \"default\": 1}}}",
	"{\"job\": {\"j\": {}},\n  \"variable\": {\"a\": {\"type\": \"list(\"}}}",
	"{\"job\": {\"j\": {}},\n  \"variable\": {\"a\": {\"type\": \"number\", \"default\": \"x\"}, \"a b\": {\"default\": 1}}}",
	"{\"job\": {\"j\": {}},\n  \"variable\": {\"a\": {\"default\": 1, \"validation\": {\n" +
		"    \"condition\": \"${var.a > 1}\", \"error_message\": \"Too small.\"}}}}",
	"{\"job\": {\"j\": {}},\n  \"locals\": {\"a\": \"${local.b}\", \"b\": \"${local.a}\", \"dynamic\": 1}}",
}

// largeJSON has files in JSON beyond the limits.
var largeJSON = []string{
	"{\"job\": {\"j\": {}},\n  \"locals\": {\"a\": \"${" + strings.Repeat("(", structs.MaxNesting) + "\"}}",
	"{\"job\": {\"j\": {}},\n  \"locals\": {\"a\": [\"" +
		strings.Repeat("${!!true}\", \"", structs.MaxRepeats/2) + "${!true}\"]}}",
	"{\"job\": {\"j\": {}},\n  \"locals\": {\"a\": " + strings.Repeat("[", structs.MaxNesting) + "}}",
	"{\"job\": {\"j\": {}},\n  \"locals\": {\"a\": 1e99999999}}",
	"{\"job\": {\"j\": {}},\n  \"locals\": {\"a\": \"${[for i in range(1000) : [for j in range(1000) : i]]}\"}}",
}

// TestReadJob_FaultsOfBadJSON compares the faults of bad files in JSON with a golden file. Each has a
// position.
func TestReadJob_FaultsOfBadJSON(t *testing.T) {
	var text strings.Builder
	for _, src := range slices.Concat(faultyJSON, largeJSON) {
		f, err := ReadJob("j.json", []byte(src), &Inputs{})
		if err == nil {
			defaults.Canonicalize(f.Job)
			err = f.Locate(validate.Job(f.Job))
		}
		if err == nil {
			t.Errorf("%.200s: it is valid", src)
			continue
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !strings.HasPrefix(line, "j.json:") {
				t.Errorf("%.200s: no position: %s", src, line)
			}
		}
		text.WriteString(structs.Cut(src, 200) + "\n" + err.Error() + "\n\n")
	}
	compareGolden(t, "testdata/json/faults.golden", []byte(text.String()))
}
