package e2e

import (
	"fmt"
	"strings"

	"berth/structs"
)

// volumeUse is a volume as a job's group uses it and its task sees it.
type volumeUse struct {
	source string
	attach structs.CSIAttachmentMode // file-system if not given
	at     string                    // in the task
}

// jobFile is a job of one group with one task, a script of /bin/sh.
type jobFile struct {
	name   string
	kind   string      // service if not given
	driver string      // exec if not given
	uses   []volumeUse // their aliases are v0, v1, ...
	once   bool        // neither restarted nor rescheduled
	node   string      // the name of the node it has to run on, "" for any
	logs   string      // the content of the block
	script string
}

func (j jobFile) hcl() string {
	var b strings.Builder
	line := func(format string, args ...any) {
		fmt.Fprintf(&b, format+"\n", args...)
	}
	line("job %q {\n  type = %q\n  group \"g\" {", j.name,
		orDefault(j.kind, structs.JobService))
	if j.node != "" {
		line("    constraint {\n      attribute = \"${node.unique.name}\"\n      value = %q\n    }", j.node)
	}
	if j.once {
		line("    restart {\n      attempts = 0\n      mode     = \"fail\"\n    }")
		line("    reschedule {\n      attempts  = 0\n      unlimited = false\n    }")
	}
	for i, u := range j.uses {
		line("    volume \"v%d\" {\n      type = \"csi\"\n      source = %q", i, u.source)
		line("      access_mode = %q\n      attachment_mode = %q", structs.CSISingleNodeWriter,
			orDefault(u.attach, structs.CSIFileSystem))
		line("    }")
	}
	line("    task \"t\" {\n      driver = %q\n      kill_timeout = \"1s\"", orDefault(j.driver, "exec"))
	line("      config {\n        command = \"/bin/sh\"\n        args = [\"-c\", <<-EOT\n%s\n        EOT\n        ]\n      }",
		j.script)
	for i, u := range j.uses {
		line("      volume_mount {\n        volume = \"v%d\"\n        destination = %q\n      }", i, u.at)
	}
	if j.logs != "" {
		line("      logs {\n%s\n      }", j.logs)
	}
	line("      resources {\n        cpu = 20\n        memory = 32\n      }\n    }\n  }\n}")
	return b.String()
}

// volumeFile is a volume of the hostpath plugin.
type volumeFile struct {
	older  bool // the servers are of the released version or the peer's, which have no external_name
	id     string
	attach structs.CSIAttachmentMode
	image  bool // on a loop device, else a directory
	fsType string
}

func (v volumeFile) hcl() string {
	// The plugin gets the ID as the name, so that its records and calls can be read.
	name := "external_name"
	if v.older {
		name = "name"
	}
	text := fmt.Sprintf("id = %q\n%s = %q\n", v.id, name, v.id)
	text += "type = \"csi\"\nplugin_id = \"hostpath\"\ncapacity_min = \"16MiB\"\ncapacity_max = \"32MiB\"\n"
	text += fmt.Sprintf("capability {\n  access_mode = %q\n  attachment_mode = %q\n}\n",
		structs.CSISingleNodeWriter, orDefault(v.attach, structs.CSIFileSystem))
	if v.fsType != "" {
		text += fmt.Sprintf("mount_options {\n  fs_type = %q\n}\n", v.fsType)
	}
	if v.image {
		text += "parameters = { type = \"image\" }\n"
	}
	return text
}

func orDefault[T ~string](s, def T) T {
	if s == "" {
		return def
	}
	return s
}

// createVolume creates a volume.
func (a *agent) createVolume(v volumeFile) {
	a.t.Helper()
	a.must("volume", "create", a.writeFile("volume-"+v.id+".hcl", v.hcl()))
}

// writeJob writes a job file and returns its path.
func (a *agent) writeJob(j jobFile) string {
	a.t.Helper()
	return a.writeFile(j.name+".hcl", j.hcl())
}

// awaitOutput waits until an allocation's output has all the texts and returns it.
func (a *agent) awaitOutput(alloc string, texts ...string) string {
	a.t.Helper()
	var out string
	eventually(a.t, fmt.Sprintf("allocation %.8s says %q", alloc, texts), func() error {
		out = a.logs(alloc)
		for _, text := range texts {
			if !strings.Contains(out, text) {
				return fmt.Errorf("the output is %q", out)
			}
		}
		return nil
	})
	return out
}

// awaitMoreOutput waits until an allocation writes more than it had.
func (a *agent) awaitMoreOutput(alloc string) {
	a.t.Helper()
	before := len(a.logs(alloc))
	eventually(a.t, fmt.Sprintf("allocation %.8s goes on writing", alloc), func() error {
		if n := len(a.logs(alloc)); n <= before {
			return fmt.Errorf("%d bytes, as before", n)
		}
		return nil
	})
}
