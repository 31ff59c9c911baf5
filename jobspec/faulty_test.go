package jobspec

import (
	"fmt"
	"strings"
	"testing"

	"berth/structs/defaults"
	"berth/structs/validate"
)

// faultyParts has parts of a group, each with faults of its own.
var faultyParts = []string{
	`count = -1`,
	`count = "x"`,
	`cuont = 1`,
	"restart {\n mode = \"never\"\n}",
	"restart {\n attempts = 10\n interval = \"1s\"\n delay = \"1s\"\n}",
	"reschedule {\n delay_function = \"odd\"\n}",
	"ephemeral_disk {\n size = -5\n}",
	"network {\n mode = \"cni/\"\n}",
	"network {\n port \"a b\" {}\n port \"c\" {\n static = 70000\n }\n}",
	"network {\n hostname = \"x\"\n}",
	"volume \"v\" {\n type = \"nfs\"\n source = \"x\"\n}",
	"volume \"v\" {\n type = \"csi\"\n source = \"a/b\"\n}",
	"constraint {\n attribute = \"${attr.x}\"\n operator = \"like\"\n}",
	"meta = { \"a=b\" = 1 }",
	"task \"t\" {\n driver = \"x\"\n}",
	"task \"u\" {\n driver = \"\"\n kill_signal = \"SIGNOPE\"\n kill_timeout = \"-1s\"\n}",
	"task \"u\" {\n driver = \"x\"\n resources {\n cpu = -1\n memory = -1\n }\n}",
	"task \"u\" {\n driver = \"x\"\n template {\n destination = \"../x\"\n data = \"{{\"\n }\n}",
	"task \"u\" {\n driver = \"x\"\n volume_mount {\n volume = \"w\"\n destination = \"..\"\n }\n}",
	"task \"u\" {\n driver = \"x\"\n csi_plugin {\n id = \"-\"\n type = \"all\"\n }\n}",
	"task \"u\" {\n driver = \"x\"\n lifecycle {\n hook = \"never\"\n }\n}",
	"task \"u\" {\n driver = \"x\"\n artifact {\n source = \"\"\n mode = \"x\"\n }\n}",
}

// TestReadJob_FaultsOfBadFiles compares the faults of bad job files with a golden file. Each has a position.
func TestReadJob_FaultsOfBadFiles(t *testing.T) {
	var text strings.Builder
	for _, part := range faultyParts {
		src := head + part + tail
		f, err := ReadJob("j.hcl", []byte(src), &Inputs{})
		if err == nil {
			defaults.Canonicalize(f.Job)
			err = f.Locate(validate.Job(f.Job))
		}
		if err == nil {
			t.Errorf("%s: it is valid", part)
			continue
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !strings.HasPrefix(line, "j.hcl:") {
				t.Errorf("%s: no position: %s", part, line)
			}
		}
		fmt.Fprintf(&text, "%s\n%v\n\n", part, err)
	}
	compareGolden(t, "testdata/faults.golden", []byte(text.String()))
}
