package jobspec

import (
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

// TestReadJob_KeepsThePartsWithoutFaults reads files with faults. The job in them has further faults, and
// those that may be due to a fault of the file are left out.
func TestReadJob_KeepsThePartsWithoutFaults(t *testing.T) {
	const task = "task \"t\" {\n driver = \"docker\"\n }"
	for name, c := range map[string]struct {
		group string // the text of the group
		want  []string
	}{
		"another argument": {
			"count = \"x\"\n shutdown_delay = \"-1s\"\n" + task,
			[]string{`invalid value for "count"`, `shutdown_delay must not be negative`},
		},
		"the same argument": {
			"task \"t\" {\n driver = [\"x\"]\n kill_signal = \"SIGNOPE\"\n }",
			[]string{`invalid value for "driver"`, `kill_signal "SIGNOPE"`},
		},
		"a missing argument": {
			"task \"t\" {\n kill_signal = \"SIGNOPE\"\n }",
			[]string{`missing argument "driver"`, `kill_signal "SIGNOPE"`},
		},
		"an unknown value": {
			"task \"t\" {\n driver = var.none\n kill_timeout = \"-1s\"\n }",
			[]string{`there is no variable "none"`, `kill_timeout must not be negative`},
		},
		"a misspelt argument": {
			"constraint {\n attribut = \"a\"\n value = \"b\"\n }\n" + task,
			[]string{`unsupported argument "attribut" (did you mean "attribute"?)`},
		},
		"an argument that another one needs": {
			"volume \"v\" {\n type = \"csi\"\n source = \"s\"\n access_mode = \"single-node-reader-only\"\n" +
				" attachment_mode = \"file-system\"\n read_only = \"maybe\"\n }\n" + task,
			[]string{`invalid value for "read_only"`},
		},
		"a block as a whole": {
			"restart {\n attempts = 10\n interval = \"1s\"\n delay = \"soon\"\n }\n" + task,
			[]string{`invalid value for "delay"`},
		},
		"a block that others name": {
			"volume {\n type = \"host\"\n source = \"s\"\n }\n task \"t\" {\n driver = \"docker\"\n" +
				" volume_mount {\n volume = \"v\"\n destination = \"/v\"\n }\n }",
			[]string{`block "volume" has 0 labels`},
		},
		"a block whose kind is a word of other faults": {
			"task {\n driver = \"docker\"\n }\n task \"t\" {\n driver = \"docker\"\n template {\n data = \"x\"\n" +
				" destination = \"../x\"\n }\n }",
			[]string{`block "task" has 0 labels`, `leads out of the task's directory`},
		},
		"a dynamic block": {
			"dynamic \"task\" {\n for_each = var.none\n labels = [task.value]\n content {\n }\n }",
			[]string{`there is no variable "none"`},
		},
		"the number of a block": {
			"dynamic \"constraint\" {\n for_each = var.none\n content {\n }\n }\n" +
				"constraint {\n operator = \"like\"\n }\n" + task,
			[]string{`there is no variable "none"`},
		},
		"a block of two forms": {
			"constraint {\n value = \"\"\n regexp = \"(\"\n }\n constraint {\n operator = \"like\"\n }\n" + task,
			[]string{`more than one form`, `constraint 2: operator "like"`},
		},
		"a task of a name that is taken": {
			"count = -1\n" + task + "\n" + task,
			[]string{`duplicate task "t"`, `count -1`},
		},
		"nothing of the group": {
			"cuont = 1",
			[]string{`unsupported argument "cuont"`, `at least one task is required`},
		},
	} {
		src := "job \"j\" {\n  group \"g\" {\n" + c.group + "\n  }\n}\n"
		f, err := ReadJob("x.hcl", []byte(src), &Inputs{})
		if err == nil || f == nil {
			t.Errorf("%s: got %v, %v, want a file with faults", name, f, err)
			continue
		}
		defaults.Canonicalize(f.Job)
		lines := strings.Split(err.Error(), "\n")
		if more := f.Locate(validate.Job(f.Job)); more != nil {
			lines = append(lines, strings.Split(more.Error(), "\n")...)
		}
		for i, line := range lines {
			if i >= len(c.want) || !strings.Contains(line, c.want[i]) || !strings.HasPrefix(line, "x.hcl:") {
				t.Errorf("%s: got\n%s\nwant %q", name, strings.Join(lines, "\n"), c.want)
				break
			}
		}
		if len(lines) < len(c.want) {
			t.Errorf("%s: got\n%s\nwant %q", name, strings.Join(lines, "\n"), c.want)
		}
	}
}

// TestLocate_LeavesOutFaultsOfIncompleteConfigs has faults of a driver for a config that has values without a
// fault of the file, and others.
func TestLocate_LeavesOutFaultsOfIncompleteConfigs(t *testing.T) {
	const path = `job "j": group "g": task "t": config: `
	for config, faults := range map[string][]string{
		"config {\n image = var.none\n mount {\n type = var.none\n }\n }": {
			"image: missing; expected the name of an image",
			"mount[0].type: missing; expected one of: bind, volume",
		},
		"config = { image = var.none }": {"image: missing; expected the name of an image"},
		"config = var.none":             {"image: missing; expected the name of an image"},
	} {
		src := "job \"j\" {\n group \"g\" {\n task \"t\" {\n driver = \"docker\"\n" + config + "\n}\n}\n}\n"
		f, err := ReadJob("x.hcl", []byte(src), &Inputs{})
		if f == nil || err == nil {
			t.Errorf("%s: got %v, %v, want a file with faults", config, f, err)
			continue
		}
		for _, fault := range faults {
			if got := f.Locate(structs.Invalidf("%s", path+fault)); got != nil {
				t.Errorf("%s: got %v", config, got)
			}
		}
		const other = `job "j": group "g": count -1 must not be negative`
		if got := f.Locate(structs.Invalidf("%s", other)); got == nil {
			t.Errorf("%s: the fault of the group is left out", config)
		}
	}
}

// TestReadJob_KeepsNoJobWithoutItsValues returns no file whose job could not be read at all.
func TestReadJob_KeepsNoJobWithoutItsValues(t *testing.T) {
	for _, src := range []string{
		"job \"a\" {\n}\njob \"b\" {\n}\n",
		"job {\n}\n",
		"job \"j\" {\n",
		"job \"j\" {\n meta = { a = [for i in range(1000) : [for j in range(1000) : i]] }\n}\n",
	} {
		f, err := ReadJob("x.hcl", []byte(src), &Inputs{})
		if f != nil || !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%q: got %v, %v, want an invalid error alone", src, f, err)
		}
	}
}
