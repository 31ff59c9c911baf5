package jobspec

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/structs/defaults"
	"berth/structs/validate"
)

// inJob, inGroup and inTask are job files with a part.
const (
	inJob   = "job \"j\" {\nPART\n  group \"g\" {\n    task \"t\" {\n      driver = \"docker\"\n    }\n  }\n}\n"
	inGroup = "job \"j\" {\n  group \"g\" {\n    # the part:\nPART\n" +
		"    task \"t\" {\n      driver = \"docker\"\n    }\n  }\n}\n"
	inTask = "job \"j\" {\n  group \"g\" {\n    task \"t\" {\n" +
		"      driver = \"docker\"\nPART\n    }\n  }\n}\n"
)

// inConnect returns a job file with a service that has parts of the service mesh.
func inConnect(parts string) string {
	return strings.Replace(inGroup, "PART", "network {\n mode = \"bridge\"\n port \"http\" {}\n }\n"+
		"volume \"v\" {\n type = \"host\"\n source = \"s\"\n }\n"+
		"service {\n name = \"s\"\n port = \"http\"\n connect {\n"+parts+"\n }\n }", 1)
}

// aTask returns a task with a name and further arguments.
func aTask(name, rest string) string {
	return "task \"" + name + "\" {\n driver = \"docker\"\n" + rest + " }"
}

// The parts that several cases have.
const (
	goodAffinity   = "affinity {\n attribute = \"a\"\n value = \"b\"\n }"
	badAffinity    = "affinity {\n attribute = \"a\"\n value = \"b\"\n weight = BAD0\n }"
	goodConstraint = `constraint { distinct_hosts = true }`
	badConstraint  = `constraint { operator = BAD"like" }`
	goodService    = "service {\n provider = \"berth\"\n name = \"a\"\n }"
	badService     = "service {\n provider = \"berth\"\n name = BAD\"a_b\"\n }"
	goodSpread     = `spread { attribute = "a" }`
	badSpread      = `spread { attribute = BAD"" }`
	badSignal      = "kill_signal = BAD\"SIGNOPE\"\n"
)

// repeatedBlocks has for each block that may be repeated a file with two of them, of which the second one has
// a fault at BAD.
var repeatedBlocks = map[string]struct{ file, good, bad string }{
	"job.constraint": {inJob, goodConstraint, badConstraint},
	"job.affinity":   {inJob, goodAffinity, badAffinity},
	"job.spread":     {inJob, goodSpread, badSpread},
	"job.group": {
		"job \"j\" {\nPART\n}\n",
		"group \"g\" {\n" + aTask("t", "") + "\n }",
		"group \"h\" {\n count = BAD-1\n" + aTask("t", "") + "\n }",
	},
	"job.task":         {"job \"j\" {\nPART\n}\n", aTask("t", ""), aTask("u", badSignal)},
	"group.constraint": {inGroup, goodConstraint, badConstraint},
	"group.affinity":   {inGroup, goodAffinity, badAffinity},
	"group.spread":     {inGroup, goodSpread, badSpread},
	"spread.target": {
		strings.Replace(inGroup, "PART", "spread {\n attribute = \"a\"\nPART\n }", 1),
		`target "a" { percent = 1 }`,
		`target "b" { percent = BAD101 }`,
	},
	"group.volume": {
		inGroup,
		"volume \"v\" {\n type = \"host\"\n source = \"s\"\n }",
		"volume \"w\" {\n type = BAD\"nfs\"\n source = \"s\"\n }",
	},
	"group.service": {inGroup, goodService, badService},
	"task.service":  {inTask, goodService, badService},
	"service.check": {
		strings.Replace(inTask, "PART", "service {\n provider = \"berth\"\n port = \"80\"\nPART\n }", 1),
		"check {\n type = \"tcp\"\n interval = \"1s\"\n timeout = \"1s\"\n }",
		"check {\n type = BAD\"udp\"\n interval = \"1s\"\n timeout = \"1s\"\n }",
	},
	"group.task": {inGroup, aTask("u", ""), aTask("v", badSignal)},
	"network.port": {
		strings.Replace(inGroup, "PART", "network {\nPART\n }", 1),
		`port "a" { static = 80 }`,
		`port "b" { to = BAD70000 }`,
	},
	"proxy.upstreams": {
		inConnect("sidecar_service {\n proxy {\nPART\n }\n }"),
		"upstreams {\n destination_name = \"a\"\n local_bind_port = 1\n }",
		"upstreams {\n destination_name = \"b\"\n local_bind_port = BAD70000\n }",
	},
	"expose.path": {
		inConnect("sidecar_service {\n proxy {\n expose {\nPART\n }\n }\n }"),
		"path {\n path = \"/a\"\n local_path_port = 1\n listener_port = \"http\"\n }",
		"path {\n path = BAD\"b\"\n local_path_port = 1\n listener_port = \"http\"\n }",
	},
	"sidecar_task.volume_mount": {
		inConnect("sidecar_service {}\n sidecar_task {\nPART\n }"),
		"volume_mount {\n volume = \"v\"\n destination = \"/a\"\n }",
		"volume_mount {\n volume = \"v\"\n destination = BAD\"..\"\n }",
	},
	"proxy.envoy_gateway_bind_addresses": {
		inConnect("gateway {\n mesh {}\n proxy {\nPART\n }\n }"),
		"envoy_gateway_bind_addresses \"a\" {\n address = \"0.0.0.0\"\n port = 1\n }",
		"envoy_gateway_bind_addresses \"b\" {\n address = BAD\"here\"\n port = 1\n }",
	},
	"ingress.listener": {
		inConnect("gateway {\n ingress {\nPART\n }\n }"),
		"listener {\n port = 1\n service { name = \"a\" }\n }",
		"listener {\n port = BAD0\n service { name = \"a\" }\n }",
	},
	"listener.service": {
		inConnect("gateway {\n ingress {\n listener {\n port = 1\n protocol = \"http\"\nPART\n }\n }\n }"),
		"service { name = \"a\" }",
		"service { name = BAD\"\" }",
	},
	"terminating.service": {
		inConnect("gateway {\n terminating {\nPART\n }\n }"),
		"service { name = \"a\" }",
		"service { name = BAD\"\" }",
	},
	"task.constraint": {inTask, `constraint { attribute = "a" }`, badConstraint},
	"task.affinity":   {inTask, goodAffinity, badAffinity},
	"task.volume_mount": {
		strings.Replace(inTask, "task", "volume \"v\" {\n type = \"host\"\n source = \"s\"\n }\n task", 1),
		"volume_mount {\n volume = \"v\"\n destination = \"/a\"\n }",
		"volume_mount {\n volume = \"v\"\n destination = BAD\"..\"\n }",
	},
	"task.template": {
		inTask,
		"template {\n data = \"x\"\n destination = \"local/x\"\n }",
		"template {\n data = BAD\"{{\"\n destination = \"local/x\"\n }",
	},
	"task.artifact": {inTask, `artifact { source = "http://x/y" }`, `artifact { source = BAD"" }`},
	"task.action":   {inTask, `action "a" { command = "/x" }`, `action "b" { command = BAD"" }`},
	"csi_plugin.token": {
		strings.Replace(inTask, "PART", "csi_plugin {\n id = \"p\"\n type = \"node\"\nPART\n }", 1),
		"token { audience = \"a\" }",
		"token { audience = BAD\"\" }",
	},
	"resources.device": {
		strings.Replace(inTask, "PART", "resources {\nPART\n }", 1),
		`device "gpu" { count = 1 }`,
		`device "gpu" { count = BAD0 }`,
	},
	"device.constraint": {
		strings.Replace(inTask, "PART", "resources {\n device \"gpu\" {\nPART\n }\n }", 1),
		"constraint {\n attribute = \"${device.model}\"\n value = \"x\"\n }",
		badConstraint,
	},
	"device.affinity": {
		strings.Replace(inTask, "PART", "resources {\n device \"gpu\" {\nPART\n }\n }", 1),
		"affinity {\n attribute = \"${device.model}\"\n value = \"b\"\n }",
		"affinity {\n attribute = \"${device.model}\"\n value = \"b\"\n weight = BAD0\n }",
	},
}

// notValidated has the repeated blocks of which only the syntax has faults, or others are those of another
// block.
var notValidated = []string{"resources.network", "task.identity"}

// TestLocate_FindsTheRightOneOfRepeatedBlocks has a case for each block that a job file may repeat.
func TestLocate_FindsTheRightOneOfRepeatedBlocks(t *testing.T) {
	for name, c := range repeatedBlocks {
		parts := "  " + c.good + "\n  " + c.bad
		src := strings.Replace(c.file, "PART", parts, 1)
		before, after, _ := strings.Cut(src, "BAD")
		line := strings.Count(before, "\n") + 1
		column := len(before) - strings.LastIndexByte(before, '\n')
		want := "x.hcl:" + strconv.Itoa(line) + "," + strconv.Itoa(column) + ": "
		err := validateFile(t, before+after)
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+want) {
			t.Errorf("%s: got %v, want a fault at %s", name, err, want)
		}
	}
	seen := slices.Sorted(maps.Keys(repeatedBlocks))
	for _, name := range repeatedIn(reflect.TypeFor[job](), "job") {
		if !slices.Contains(seen, name) && !slices.Contains(notValidated, name) {
			t.Errorf("the repeated block %s has no case", name)
		}
	}
}

// repeatedIn returns the names of the blocks that may be repeated within a block, with that of the block
// around each.
func repeatedIn(block reflect.Type, name string) (found []string) {
	for f := range block.Fields() {
		inner, options, _ := strings.Cut(f.Tag.Get("hcl"), ",")
		if options != "block" {
			continue
		}
		elem := f.Type
		for elem.Kind() != reflect.Struct {
			elem = elem.Elem()
		}
		if f.Type.Kind() != reflect.Pointer {
			found = append(found, name+"."+inner)
		}
		found = append(found, repeatedIn(elem, inner)...)
	}
	return found
}

func TestLocate_FindsTheRightOneOfRepeatedBlocksOfAVolume(t *testing.T) {
	const src = `id        = "v"
plugin_id = "p"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
capability {
  access_mode     = "x"
  attachment_mode = "file-system"
}
topology_request {
  required {
    topology {
      segments { a = "b" }
    }
    topology {
      segments = {}
    }
  }
  preferred {
    topology {
      segments { a = "b" }
    }
    topology {
      segments { a = "c" }
    }
  }
}
`
	f, err := ReadVolume("v.hcl", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	f.Content.Canonicalize()
	got := f.Locate(validate.Volume(f.Content))
	for _, want := range []string{
		`v.hcl:8,21: volume "v": capability 2: access_mode`,
		`v.hcl:17,18: volume "v": topology_request: required: topology 2: segments must not be empty`,
		`v.hcl:24,5: volume "v": topology_request: preferred: topology 2: it must also be among the required`,
	} {
		if got == nil || !strings.Contains(got.Error(), want) {
			t.Errorf("got %v\nit lacks %s", got, want)
		}
	}
}

// validateFile returns the faults of the job in a file, with their positions.
func validateFile(t *testing.T, src string) error {
	t.Helper()
	f, err := ReadJob("x.hcl", []byte(src), &Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	defaults.Canonicalize(f.Job)
	return f.Locate(validate.Job(f.Job))
}
