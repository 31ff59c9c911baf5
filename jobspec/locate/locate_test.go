package locate_test

import (
	"strings"
	"testing"

	"berth/internal/conf"
	"berth/jobspec"
	"berth/jobspec/locate"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

const faulty = `job "x" {
  type = "sevrice"
  group "g" {
    count = -1
    network {
      mode = "bridges"
      port "a" {
        static = 0
      }
      port "b-c" {
        to           = 70000
        host_network = "x y"
      }
      port "b_c" {}
    }
    volume "v" {
      type            = "csi"
      source          = "s"
      access_mode     = "all"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
      resources {
        cpu = 0
        device "gpu" {
          count = 2
          affinity {
            attribute = "${device.model}"
            value     = "x"
            weight    = 101
          }
        }
        device "a//b" {
          constraint {
            attribute = "${attr.kernel.name}"
            value     = "linux"
          }
        }
      }
      volume_mount {
        volume      = "v"
        destination = "/v"
      }
      volume_mount {
        volume      = "nope"
        destination = "/n"
      }
    }
  }
}
`

// validateFile returns the faults of the job in a file, with their positions.
func validateFile(t *testing.T, src string) error {
	t.Helper()
	f, err := jobspec.ReadJob("x.hcl", []byte(src), &jobspec.Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	defaults.Canonicalize(f.Job)
	return f.Locate(validate.Job(f.Job))
}

func TestLocate_AddsPositionsToFaults(t *testing.T) {
	err := validateFile(t, faulty)
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Fatalf("got %v, want invalid", err)
	}
	for _, want := range []string{
		"x.hcl:2,10: job \"x\": type \"sevrice\" must be",
		"x.hcl:4,13: job \"x\": group \"g\": count -1",
		"x.hcl:6,14: job \"x\": group \"g\": network: mode \"bridges\" is none of \"host\", \"bridge\", \"none\" and \"cni/NAME\"",
		"x.hcl:8,18: job \"x\": group \"g\": network: port \"a\": static 0 must be at least 1",
		"x.hcl:11,24: job \"x\": group \"g\": network: port \"b-c\": to 70000 must be at most",
		"x.hcl:12,24: job \"x\": group \"g\": network: port \"b-c\": host_network \"x y\" must be",
		"x.hcl:14,7: job \"x\": group \"g\": network: port \"b_c\": port \"b-c\" has the same name",
		"x.hcl:19,25: job \"x\": group \"g\": volume \"v\": access_mode",
		"x.hcl:31,25: job \"x\": group \"g\": task \"t\": resources: device 1: affinity 1: weight 101",
		"x.hcl:34,9: job \"x\": group \"g\": task \"t\": resources: device 2: name \"a//b\" must be",
		"x.hcl:35,11: job \"x\": group \"g\": task \"t\": resources: device 2: constraint 1: \"${attr.kernel",
		"x.hcl:46,23: job \"x\": group \"g\": task \"t\": volume_mount 2: volume \"nope\" is no volume",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
}

// TestLocate_AcceptsEnvironmentPlaceholders locates faults in a file with placeholders that are not HCL2.
func TestLocate_AcceptsEnvironmentPlaceholders(t *testing.T) {
	const src = `job "x" {
  group "g" {
    count = -1
    task "t" {
      driver = "exec"
      config {
        command = "${env "SHELL"}"
      }
    }
  }
}
`
	err := validateFile(t, src)
	if err == nil || !strings.HasPrefix(err.Error(), "x.hcl:3,13: ") {
		t.Errorf("got %v, want the position 3,13", err)
	}
}

func TestLocate_FindsTheInnermostBlock(t *testing.T) {
	const volume = "id = \"v\"\n" +
		"capability {\n  access_mode = \"x\"\n}\n" +
		"capability {\n  attachment_mode = \"y\"\n}\n"
	for _, c := range []struct{ name, src, fault, want string }{
		{"v.hcl", volume, `volume "v": capability 1: access_mode is required`, "v.hcl:3,17: "},
		{"v.hcl", volume, `volume "v": capability 2: attachment_mode is required`, "v.hcl:6,21: "},
		{"v.hcl", volume, `volume "v": capability 2: access_mode is required`, "v.hcl:5,1: "},
		{"v.hcl", volume, `volume "v": external_id is required`, "v.hcl:1,1: "},
		{"v.hcl", volume, `the plugin does not like it`, ""},
		{"v.json", `{"id": "v", "capability": [{},
  {"access_mode": "x"}]}`, `volume "v": capability 2: access_mode "x"`, "v.json:2,19: "},
		{"x.hcl", faulty, `job "other": group "g": count 1`, "x.hcl:4,13: "},
		{"x.hcl", faulty, `job "x": group "other": count 1`, "x.hcl:1,1: "},
		{"x.hcl", faulty, `job "x": group "g": task "t": volume_mount 3: destination`, "x.hcl:22,5: "},
		{"x.hcl", "{{", `job "x": count 1`, ""},
	} {
		fault := structs.Errorf(structs.KindInvalid, "%s", c.fault)
		got := locateIn(c.name, c.src, fault).Error()
		if !strings.HasPrefix(got, c.want) ||
			!strings.HasSuffix(got, c.fault) ||
			c.want == "" && got != c.fault {
			t.Errorf("%s: got %s, want %s", c.fault, got, c.want)
		}
	}
	other := structs.Errorf(structs.KindConflict, `job "x": changed`)
	if locateIn("x.hcl", faulty, other) != other ||
		locateIn("x.hcl", faulty, nil) != nil {
		t.Error("Locate changed an error of another kind")
	}
}

// locateIn locates the faults of a volume or a job in a file without faults of its own.
func locateIn(name, src string, err error) error {
	body, diags := conf.Parse(name, []byte(src))
	if diags.HasErrors() {
		return err
	}
	return locate.Locator{Body: body, Spec: "volume"}.Locate(err)
}

func FuzzLocate(f *testing.F) {
	f.Add(faulty, `job "x": group "g": count -1`)
	f.Fuzz(func(t *testing.T, src, fault string) {
		err := structs.Errorf(structs.KindInvalid, "%s", fault)
		got := locateIn("x.hcl", src, err)
		if got == nil {
			t.Error("Locate dropped the error")
		}
	})
}
