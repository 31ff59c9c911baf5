package manager

import (
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/docker"
	"berth/client/drivers/driver"
	"berth/client/drivers/exec"
	"berth/client/drivers/rawexec"
	"berth/structs"
)

// The tasks of a driver that is denied since a restart of the agent still run commands.
func TestDriver_RunsCommandsAlsoIfItIsDenied(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Denied = []string{rawexec.Name, docker.Name}
	m, err := New(cfg, Options{Dir: t.TempDir(), Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	command := &driver.ExecConfig{Command: []string{"true"}}
	for _, name := range []string{exec.Name, rawexec.Name, docker.Name} {
		d, err := m.Driver(name)
		if err != nil {
			t.Fatal(err)
		}
		execer, ok := d.(driver.Execer)
		if !ok {
			t.Errorf("%s runs no commands", name)
			continue
		}
		_, err = execer.Exec(t.Context(), "no/task", command)
		if !structs.IsKind(err, structs.KindNotFound) {
			t.Errorf("%s: an unknown task: %v", name, err)
		}
	}
	_, err = deniedDriver{newFakeDriver("plain")}.Exec(t.Context(), "no/task", command)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("a driver that runs no commands: %v", err)
	}
}
