package jobspec

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files again")

// TestParseJob_MatchesTheGoldenFiles parses, canonicalizes and validates each file of testdata and compares
// it.
func TestParseJob_MatchesTheGoldenFiles(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.hcl")
	more, _ := filepath.Glob("testdata/*.json")
	for _, file := range append(files, more...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(parseFile(t, file, src), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			compareGolden(t, file+".golden", append(got, '\n'))
		})
	}
}

// parseVolume returns the volume of a file without faults.
func parseVolume(file string, src []byte) (*structs.CSIVolume, error) {
	f, err := ReadVolume(file, src)
	if err != nil {
		return nil, err
	}
	return f.Content, nil
}

func parseFile(t *testing.T, file string, src []byte) any {
	t.Helper()
	if strings.Contains(file, "volume") {
		v, err := parseVolume(file, src)
		if err != nil {
			t.Fatal(err)
		}
		v.Canonicalize()
		err = validate.Volume(v)
		if err != nil && !strings.Contains(file, "volume.hcl") {
			t.Fatal(err)
		}
		return v
	}
	j, err := parseJob(file, src)
	if err != nil {
		t.Fatal(err)
	}
	defaults.Canonicalize(j)
	if err := validate.Job(j); err != nil {
		t.Fatal(err)
	}
	return j
}

func compareGolden(t *testing.T, golden string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(got) {
		t.Errorf("%s differs (see -rewrite); got\n%s", golden, got)
	}
}

func TestParseJob_KeepsPlaceholders(t *testing.T) {
	src, err := os.ReadFile("testdata/full.hcl")
	if err != nil {
		t.Fatal(err)
	}
	j, err := parseJob("full.hcl", src)
	if err != nil {
		t.Fatal(err)
	}
	task := j.TaskGroups[0].Tasks[0]
	for _, c := range []struct{ got, want string }{
		{j.Constraints[0].LTarget, "${attr.kernel.name}"},
		{task.Config["args"].([]any)[1].(string),
			`echo ${NOMAD_ALLOC_ID} ${HOME} ${env "HOME"}${env  "B"} busybox:v1`},
		{task.Env["NODE"], "${node.unique.name}"},
		{task.Env["RACK"], `${meta["rack"]}`},
		{task.Env["ALLOC"], "${BERTH_ALLOC_DIR}/x"},
		{task.Env["TEXT"], "on ${attr.unique.hostname}\n${env \"KEPT\"}\n"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestParseJob_PoliciesOverrideTheDefaultsOfTheType(t *testing.T) {
	j, err := parseJob("j.hcl", []byte(`job "j" {
  type = "batch"
  group "g" {
    restart { attempts = 0 }
    reschedule { unlimited = true }
    task "t" {
      driver = "exec"
      restart { mode = "delay" }
    }
  }
}`))
	if err != nil {
		t.Fatal(err)
	}
	g := j.TaskGroups[0]
	def := defaults.RestartPolicy(structs.JobBatch)
	ofGroup := *g.RestartPolicy
	if ofGroup.Attempts != 0 || ofGroup.Interval != def.Interval || ofGroup.Mode != "fail" {
		t.Errorf("restart of the group: got %+v", ofGroup)
	}
	ofTask := *g.Tasks[0].RestartPolicy
	if ofTask.Attempts != 0 || ofTask.Delay != def.Delay || ofTask.Mode != "delay" {
		t.Errorf("restart of the task: got %+v", ofTask)
	}
	reschedule := *g.ReschedulePolicy
	if !reschedule.Unlimited || reschedule.DelayFunction != structs.RescheduleConstant {
		t.Errorf("reschedule: got %+v", reschedule)
	}
}

const (
	head = "job \"j\" {\n  group \"g\" {\n"
	tail = "\n    task \"t\" { driver = \"exec\" }\n  }\n}\n"
)

func TestParseJob_FaultsHavePositionAndExpectation(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{head + "    cout = 1" + tail, `j.hcl:3,5: unsupported argument "cout" (did you mean "count"?); ` +
			`expected one of: count, constraint, affinity, spread, restart, reschedule, update, migrate, scaling, disconnect, ephemeral_disk, ` +
			`network, volume, service, consul, vault, meta, shutdown_delay, max_run_duration, task, max_client_disconnect, ` +
			`stop_after_client_disconnect, prevent_reschedule_on_lost`},
		{head + "    network {\n      cni {}\n    }" + tail,
			`j.hcl:4,7: "cni" is not supported by berth: the configuration of the network`},
		{head + "    network {\n      port \"x\" {\n        ignore_collision = true\n      }\n    }" + tail,
			`j.hcl:5,9: "ignore_collision" is not supported by berth: a static port has one allocation`},
		{head + "    network {}\n    network {}" + tail,
			`j.hcl:4,5: duplicate block "network"; expected it once`},
		{"job \"j\" {\n  group \"g\" {\n    task \"t\" {\n      resources {\n        numa {}\n      }\n    }\n  }\n}\n",
			`j.hcl:5,9: "numa" is not supported by berth: tasks are not bound to processors`},
		{head + "    scaling { }" + tail, `j.hcl:3,13: missing argument "max"`},
		{"job \"j\" {\n  group \"g\" {\n    task \"t\" {\n      schedule {}\n    }\n  }\n}\n",
			`j.hcl:4,7: "schedule" is not supported by berth: start and stop the job from outside`},
		{"job \"j\" {\n  task \"t\" {\n    driver = \"exec\"\n    vault {\n      policies = [\"x\"]\n    }\n  }\n}\n",
			`j.hcl:5,7: "policies" is not supported by berth: a task logs in with its identity`},
		{"job \"j\" {\n  vault { cluster = \"two\" }\n}\n", `a node has one Vault`},
		{head + "    volume \"a\" { source = \"v\" }" + tail, `missing argument "type"; expected a string`},
		{head + "    count = \"three\"" + tail,
			`j.hcl:3,13: invalid value for "count": got a string; expected a whole number`},
		{head + "    count = var.n" + tail,
			`j.hcl:3,16: there is no variable "n"; expected a block to declare it: variable "n" { }`},
		{head + "    meta { a = \"x${var.n}\" }" + tail, `there is no variable "n"; expected a block`},
		{"variable \"v\" {\n  default = { a = 1 }\n}\n" + head + "    count = var.v.n" + tail,
			`unsupported attribute: This object does not have an attribute named "n"`},
		{head + "    meta { a = \"${vars.a}\" }" + tail, `j.hcl:3,19: unknown variable`},
		{head + "    meta { a = HOME }" + tail, `j.hcl:3,16: unknown variable`},
		{head + "    constraint {\n      attribute = \"x\"\n      value = \"y\"\n      regexp = \"z\"\n    }" +
			tail, `j.hcl:3,5: the constraint has more than one form`},
		{"job \"j\" {\n  task \"t\" { }\n}\n", `missing argument "driver"; expected a string`},
		{"job \"j\" {\n  group \"g\" { }\n  group \"g\" { }\n}\n", `j.hcl:3,3: duplicate group "g"`},
		{head + "    task \"t\" { driver = \"x\" }" + tail, `j.hcl:4,5: duplicate task "t"`},
		{"job \"a\" { }\njob \"b\" { }\n", `j.hcl:2,1: the file has 2 jobs`},
		{"", `j.hcl:1,1: the file has 0 jobs; expected one block job "id" { ... }`},
		{"job \"j\" {\n  priority = 0\n}\n", `priority 0; expected a number from 1 to 100`},
		{"plugin \"x\" { }", `j.hcl:1,1: unsupported block "plugin"; expected one of: job`},
		{"job { }", `block "job" has 0 labels; expected job "name" { ... }`},
		{"job \"j\" {", `j.hcl:1,9: unclosed configuration block`},
		{inDevice("cuont = 1"), `j.hcl:6,9: unsupported argument "cuont" (did you mean "count"?); ` +
			`expected one of: count, constraint, affinity`},
		{inDevice("count = -1"), `j.hcl:6,17: invalid value for "count": the number is out of range`},
		{inDevice("count = 1.5"), `j.hcl:6,17: invalid value for "count": got a fraction`},
		{inDevice("numa { }"), `j.hcl:6,9: unsupported block "numa"`},
		{inDevice("constraint {\n distinct_property = \"x\"\n attribute = \"y\"\n }"),
			`j.hcl:6,9: the constraint has more than one form`},
		{inDevice(`affinity { weight = 200 }`),
			`j.hcl:6,29: invalid value for "weight": the number is out of range`},
		{inDevice(`affinity { wieght = 20 }`), `j.hcl:6,20: unsupported argument "wieght" (did you mean "weight"?)`},
		{strings.Replace(inDevice(""), `device "gpu"`, "device", 1), `j.hcl:5,7: block "device" has 0 labels`},
		{"variable \"x\" { }\n", `j.hcl:1,1: variable "x" has no value; expected a default, -var x=..., or ` +
			`BERTH_VAR_x in the environment`},
		{"variable \"x\" {\n  default = 1\n  dflt = 2\n}\n", `j.hcl:3,3: unsupported argument "dflt"`},
		{"variable { default = 1 }\n", `block "variable" has 0 labels`},
		{"locals {\n  a { }\n}\n", `j.hcl:2,3: unsupported block "a"`},
		{"locals {\n  a = local.b\n  b = local.a\n}\n", `j.hcl:2,3: local "a" uses itself`},
		{"locals {\n  a = local.c\n}\n", `j.hcl:2,12: unsupported attribute`},
		{"locals {\n  a = file(\"/etc/passwd\")\n}\n", `this function works in the command line only`},
		{"locals {\n  a = rsadecrypt(\"s3cret\", \"s3cret\")\n}\n", `failed: expected a text that is encrypted`},
		{"locals {\n  a = rot13(\"a\")\n}\n", `call to unknown function`},
	} {
		_, err := parseJob("j.hcl", []byte(c.src))
		if !structs.IsKind(err, structs.KindInvalid) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%.200q:\n got %v\nwant %s", c.src, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error has a secret: %v", err)
		}
	}
}

// inDevice is a job file with a line in the device block of a task.
func inDevice(line string) string {
	return head + "    task \"t\" {\n      resources { \n      device \"gpu\" {\n        " + line +
		"\n      }\n      }\n      driver = \"exec\"\n    }\n  }\n}\n"
}

func TestParseVolume_FaultsHavePositionAndExpectation(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"id = \"v\"\nplugin_id = \"p\"\ncapacity_mim = 1\n",
			`v.hcl:3,1: unsupported argument "capacity_mim" (did you mean "capacity_min"?); ` +
				`expected one of: id, namespace, name, type, plugin_id, class, external_id`},
		{"plugin_id = \"p\"\n", `missing argument "id"; expected a string`},
		{"id = \"v\"\nplugin_id = \"p\"\ncapacity_min = \"lots\"\n",
			`v.hcl:3,16: invalid value for "capacity_min": "lots" is not a size; expected a size such as "64MiB"`},
		{"id = \"v\"\nplugin_id = \"p\"\ncapacity_min = -1\n", `is not a size`},
		{"id = \"v\"\nplugin_id = \"p\"\ncapacity_min = \"99999999999TiB\"\n", `is not a size`},
		{"id = \"v\"\nplugin_id = \"p\"\ncapacity_min = [1]\n", `got a list; expected a size such as "64MiB"`},
		{"id = \"v\"\nplugin_id = \"p\"\ngrow {\n at = 80\n by = \"2%\"\n max = \"1GiB\"\n}\n",
			`v.hcl:4,7: invalid value for "at": "80" is not a percentage; expected a percentage such as "80%"`},
		{"id = \"v\"\nplugin_id = \"p\"\ntype = \"host\"\n", `v.hcl:3,8: invalid value for "type": a host volume is made by berth volume create; ` +
			`a directory that exists on a node is a host_volume block in the configuration of the node`},
		{"id = \"v\"\nplugin_id = \"p\"\nsecrets { a = [\"s3cret\"] }\n",
			`v.hcl:3,15: invalid value for "a": got a list; expected a string`},
		{"id = \"v\"\nplugin_id = \"p\"\ntopology_request {\n  required {\n    topology { }\n  }\n}\n",
			`missing argument "segments"`},
		{"id = var.x\nplugin_id = \"p\"\n", `variables not allowed`},
	} {
		_, err := parseVolume("v.hcl", []byte(c.src))
		if !structs.IsKind(err, structs.KindInvalid) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.src, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error has a secret: %v", err)
		}
	}
}

func FuzzParseJob(f *testing.F) {
	for _, file := range []string{"full.hcl", "tasks.hcl", "artifacts.hcl", "plugin.json"} {
		src, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(strings.HasSuffix(file, ".json"), src)
	}
	f.Fuzz(func(t *testing.T, isJSON bool, src []byte) {
		file := "j.hcl"
		if isJSON {
			file = "j.json"
		}
		j, err := parseJob(file, src)
		if err != nil {
			if !structs.IsKind(err, structs.KindInvalid) {
				t.Fatal(err)
			}
			return
		}
		defaults.Canonicalize(j)
		if err := validate.Job(j); err == nil {
			if _, err := json.Marshal(j); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzParseVolume(f *testing.F) {
	for _, file := range []string{"volume.hcl", "volume.json"} {
		src, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(strings.HasSuffix(file, ".json"), src)
	}
	f.Fuzz(func(t *testing.T, isJSON bool, src []byte) {
		file := "v.hcl"
		if isJSON {
			file = "v.json"
		}
		if v, err := parseVolume(file, src); err == nil {
			v.Canonicalize()
			_ = validate.Volume(v)
		}
	})
}

// TestParse_AcceptsTheExamples validates the example files.
func TestParse_AcceptsTheExamples(t *testing.T) {
	files, _ := filepath.Glob("../examples/*.hcl")
	if len(files) == 0 {
		t.Fatal("there are no examples")
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parseFile(t, file, src)
	}
}

// The first job of a new user, which the demo runs twice, does not wait for the default of 10 s.
func TestParse_CountsTheExampleAsHealthySoon(t *testing.T) {
	const file = "../examples/counter.hcl"
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	job, err := parseJob(file, src)
	if err != nil {
		t.Fatal(err)
	}
	defaults.Canonicalize(job)
	for _, g := range job.TaskGroups {
		if got := g.Update.MinHealthyTime; got != time.Second {
			t.Errorf("group %q: min_healthy_time is %s", g.Name, got)
		}
	}
}

// parseJob is ReadJob without values from outside.
func parseJob(filename string, src []byte) (*structs.Job, error) {
	f, err := ReadJob(filename, src, &Inputs{})
	if err != nil {
		return nil, err
	}
	return f.Job, nil
}
