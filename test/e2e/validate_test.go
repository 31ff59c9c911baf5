package e2e

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"berth/structs"
)

// wrongJob has five faults: a priority beyond its bounds, a driver that no node has, and keys and a value
// that drivers do not take.
const wrongJob = `job "wrong" {
  priority = 500
  group "g" {
    task "a" {
      driver = "exce"
      config {
        command = "/bin/true"
      }
    }
    task "b" {
      driver = "exec"
      config {
        command = "/bin/true"
        arsg    = ["x"]
      }
    }
    task "c" {
      driver = "raw_exec"
      config {
        command = ["/bin/true"]
        image   = "busybox"
      }
    }
  }
}
`

// TestValidate_ShowsAllFaultsInTheirLines checks a job file with an agent, whose node knows the drivers.
func TestValidate_ShowsAllFaultsInTheirLines(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-dev")
	a.start()
	path := a.writeFile("wrong.hcl", wrongJob)
	_, err := a.run("job", "validate", path)
	if exitCode(err) != 2 {
		t.Fatalf("exit code %d: %v", exitCode(err), err)
	}
	for _, fault := range []struct {
		says   string
		line   int
		text   string
		column int
	}{
		{"priority 500 must be", 2, `  priority = 500`, 14},
		{`did you mean "exec"?`, 5, `      driver = "exce"`, 16},
		{`arsg: unknown field; did you mean "args"?`, 14, `        arsg    = ["x"]`, 9},
		{"command: expected a string, found a list", 20, `        command = ["/bin/true"]`, 19},
		{"image: unknown field", 21, `        image   = "busybox"`, 9},
	} {
		shown := fmt.Sprintf("\n\n  on %s line %d:\n%4d: %s\n      %*s", path, fault.line, fault.line, fault.text,
			fault.column, "^")
		before, _, found := strings.Cut(err.Error(), shown)
		message := before[strings.LastIndexByte(before, '\n')+1:]
		if !found || !strings.Contains(message, fault.says) {
			t.Errorf("no fault says %s and shows%s\nin\n%v", fault.says, shown, err)
		}
	}
	if out := a.must("job", "status"); strings.Contains(out, "wrong") {
		t.Errorf("validate has stored the job:\n%s", out)
	}
}

// TestJob_ReadsWhatItWrites registers the output of `job run -output` and of `job inspect`.
func TestJob_ReadsWhatItWrites(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-dev")
	a.start()
	text := strings.Replace(wrongJob, `"exce"`, `"exec"`, 1)
	text = strings.Replace(text, "  priority = 500\n", "", 1)
	text = strings.Replace(text, "  group", "  type = \"batch\"\n  group", 1)
	text = strings.Replace(text, "arsg ", "args ", 1)
	text = strings.Replace(text, `["/bin/true"]`, `"/bin/true"`, 1)
	text = strings.Replace(text, "        image   = \"busybox\"\n", "", 1)
	path := a.writeFile("right.hcl", text)
	output := a.must("job", "run", "-output", path)
	if out := a.must("job", "status"); strings.Contains(out, "wrong") {
		t.Fatalf("-output has registered the job:\n%s", out)
	}
	a.must("job", "run", "-json", a.writeFile("output.json", output))
	inspected := a.must("job", "inspect", "wrong")
	again := a.writeFile("inspected.json", inspected)
	a.must("job", "validate", again)
	a.must("job", "run", "-json", again)
	first := decode[structs.Job](t, inspected)
	second := decode[structs.Job](t, a.must("job", "inspect", "wrong"))
	if second.Version != first.Version || !reflect.DeepEqual(first.TaskGroups, second.TaskGroups) {
		t.Errorf("%s: the job has changed from\n%+v to\n%+v", filepath.Base(again), first, second)
	}
}
