package external

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	protocol "berth/client/drivers/protocol/driver"
	"berth/structs"
)

// inspected is a plugin that answers one call.
type inspected struct {
	protocol.DriverClient
	pid string
}

func (i inspected) InspectTask(
	context.Context, *protocol.InspectTaskRequest, ...grpc.CallOption,
) (*protocol.InspectTaskResponse, error) {
	attributes := map[string]string{}
	if i.pid != "" {
		attributes["pid"] = i.pid
	}
	return &protocol.InspectTaskResponse{Driver: &protocol.TaskDriverStatus{Attributes: attributes}}, nil
}

// unified makes a driver on a machine with cgroup v2, whose hierarchy is a directory.
func unified(t *testing.T) *Driver {
	t.Helper()
	return &Driver{name: "pod", machine: &cgroups.Machine{V2: t.TempDir(), V2Has: []string{"cpu", "memory"}}}
}

// guardedTask is a task that a guard is to end. It notes the cgroups that the guard learns.
func guardedTask(told *[]string) *driver.TaskConfig {
	return &driver.TaskConfig{ID: "a1/web", OrderGuard: func(g *cgroups.Group) error {
		*told = append(*told, g.Name())
		return nil
	}}
}

func TestGuardable_NeedsCgroupsOfTheAgent(t *testing.T) {
	if err := unified(t).Guardable(); err != nil {
		t.Error(err)
	}
	d := &Driver{name: "pod", machine: &cgroups.Machine{V1: map[string]string{"memory": "/m"}}}
	err := d.Guardable()
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), remedy) {
		t.Errorf("with cgroup v1: %v", err)
	}
	var told []string
	if err := orderGuard(d, guardedTask(&told)); err == nil || len(told) > 0 {
		t.Errorf("the guard learns %q, %v", told, err)
	}
}

func TestStart_ChecksThatAGuardedTaskIsInItsCgroup(t *testing.T) {
	d := unified(t)
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	var told []string
	cfg := guardedTask(&told)
	if err := orderGuard(d, cfg); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(d.machine.V2, shareSlice, "a1.web.scope"); len(told) != 1 || told[0] != want {
		t.Fatalf("the guard learns %q, want %s", told, want)
	}
	procs := filepath.Join(told[0], "cgroup.procs")
	if err := os.MkdirAll(told[0], 0o700); err != nil {
		t.Fatal(err)
	}

	parent := strconv.Itoa(os.Getppid()) // any process but this one
	for name, c := range map[string]struct{ in, pid, fault string }{
		"there":     {in: parent, pid: parent},
		"elsewhere": {pid: parent, fault: "outside of the cgroup"},
		"no pid":    {in: parent, fault: "names no process"},
		"nonsense":  {in: parent, pid: "0", fault: "names no process"},
		"ended":     {pid: fmt.Sprint(ended.Process.Pid)},
	} {
		if err := os.WriteFile(procs, []byte(c.in), 0o600); err != nil {
			t.Fatal(err)
		}
		err := d.checkPlace(t.Context(), inspected{pid: c.pid}, cfg)
		if c.fault == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.fault != "" && (!structs.IsKind(err, structs.KindPrecondition) ||
			!strings.Contains(err.Error(), c.fault) || !strings.Contains(err.Error(), `driver "pod"`)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	cfg.OrderGuard = nil
	if err := d.checkPlace(t.Context(), inspected{}, cfg); err != nil {
		t.Errorf("without a guard: %v", err)
	}
}

// A start without its order does not reach the plugin.
func TestStart_FailsWithoutItsOrder(t *testing.T) {
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", loops)
	cfg.OrderGuard = func(*cgroups.Group) error { return structs.Preconditionf("the lease has ended") }
	_, err := a.Start(t.Context(), cfg)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %v", err)
	}
	if lines := f.plugin.Lines("started"); len(lines) > 0 {
		t.Errorf("it was started: %q", lines)
	}
}
