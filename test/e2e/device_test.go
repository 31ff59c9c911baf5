package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/structs"
)

// agentWithDevices starts an agent that offers device files.
func agentWithDevices(t *testing.T, group string) *agent {
	t.Helper()
	a := newAgent(t, "one", "-server", "-client")
	a.args = append(a.args, "-config", a.writeFile("devices.hcl", "client {\n"+group+"\n}\n"))
	a.start()
	return a
}

func (a *agent) awaitAlloc(job string) string {
	a.t.Helper()
	id := ""
	eventually(a.t, "there is an allocation of "+job, func() error {
		allocs, err := get[[]*structs.AllocListStub](a, "/v1/job/"+job+"/allocations")
		if err == nil && len(allocs) == 0 {
			err = fmt.Errorf("there is none")
		}
		if err == nil {
			id = allocs[0].ID
		}
		return err
	})
	return id
}

func TestDevice_ExampleReadsItsDevice(t *testing.T) {
	t.Parallel()
	a := agentWithDevices(t, `device "linux/memory/zero" { paths = ["/dev/zero"] }`)
	a.must("job", "run", "-detach", example(t, "device.hcl"))
	alloc := a.awaitAlloc("device")
	a.awaitOutput(alloc, "device /dev/zero\n", "00 00 00 00")
	if out := a.must("alloc", "status", alloc); !strings.Contains(out, "linux/memory/zero  /dev/zero") {
		t.Errorf("the status of the allocation does not show its device:\n%s", out)
	}
	a.must("job", "stop", "-purge", "device")
}

// deviceScript reports the device of a task and what the task may do with it. It fails when it is told to.
const deviceScript = `
	d=$BERTH_DEVICES_TEST_CHAR_MISC
	(exec 3<$d) && echo read
	(exec 3>$d) 2>/dev/null || echo rejected
	echo device $d
	while ! test -e /alloc/data/end; do sleep 0.1; done
	exit 1`

func deviceJob(count int) string {
	return fmt.Sprintf(`
job "misc" {
  group "g" {
    count = %d
    restart {
      attempts = 3
      delay    = "1s"
      mode     = "fail"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", <<-EOT
%s
EOT
        ]
      }
      resources {
        cpu    = 20
        memory = 16
        device "test/char" {}
      }
    }
  }
}
`, count, deviceScript)
}

// devicesOf returns the devices of a running allocation, by the servers and by its task.
func (a *agent) devicesOf(alloc string) (given, seen string) {
	a.t.Helper()
	row := decode[structs.Allocation](a.t, a.must("alloc", "status", "-json", alloc))
	for _, d := range row.AllocatedResources.Tasks["t"].Devices {
		given += strings.Join(d.DeviceIDs, ",")
	}
	out := a.awaitOutput(alloc, "device ")
	_, seen, _ = strings.Cut(out, "device ")
	return given, strings.TrimSpace(seen)
}

// A task has its device alone and with its permissions, also after a crash of the agent. A device that
// vanishes stays with its running task and is given to no other.
func TestDevices_OfTheHost(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "bdev-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for i, device := range []string{"/dev/fuse", "/dev/loop-control"} {
		if err := os.Symlink(device, filepath.Join(dir, fmt.Sprintf("misc%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	a := agentWithDevices(t, fmt.Sprintf(`
device "test/char/misc" {
  paths       = ["%s/misc*"]
  permissions = "r"
  attributes  = { bus = "none" }
}`, dir))
	a.must("job", "run", "-detach", a.writeFile("misc.hcl", deviceJob(3)))
	allocs := a.awaitRunning("misc", 2)
	holders := map[string]string{}
	for _, s := range allocs {
		out := a.awaitOutput(s.ID, "device ")
		given, seen := a.devicesOf(s.ID)
		if given != seen || holders[given] != "" || !strings.Contains(out, "read\nrejected\n") {
			t.Errorf("allocation %s has %q and sees %q: %s", s.ID, given, seen, out)
		}
		holders[given] = s.ID
	}
	eventually(t, "the third allocation says why it waits", func() error {
		if out := a.must("job", "status", "misc"); !strings.Contains(out, "devices test/char exhausted") {
			return fmt.Errorf("the status is\n%s", out)
		}
		return nil
	})

	a.kill()
	a.start()
	a.awaitRunning("misc", 2)
	for device, id := range holders {
		given, seen := a.devicesOf(id)
		if given != device || seen != device || strings.Count(a.logs(id), "device ") != 1 {
			t.Errorf("after a crash of the agent allocation %s has %q, sees %q and says %q", id, given, seen, a.logs(id))
		}
	}

	gone := filepath.Join(dir, "misc0")
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node reports the lost device", func() error {
		out := a.must("node", "status", "-self", "-verbose")
		event := "device " + gone + " of test/char/misc is unhealthy"
		for _, want := range []string{"the device file is gone", event} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("%q is not in %s", want, out)
			}
		}
		return nil
	})
	a.awaitRunning("misc", 2)
	end := a.data("alloc", holders[gone], "alloc", "data", "end")
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the task says why it does not start again", func() error {
		out := a.must("alloc", "status", holders[gone])
		if !strings.Contains(out, "failed to reserve devices "+gone) {
			return fmt.Errorf("the status is %s", out)
		}
		return nil
	})
	a.awaitRunning("misc", 1)
	a.must("job", "stop", "-purge", "misc")
}
