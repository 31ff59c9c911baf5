package docker

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/structs"
)

// isEndedByItsCgroup ends a guarded container as a guard does: the guard learns the cgroup before anything
// runs there, all processes are there, and the daemon starts none again.
func isEndedByItsCgroup(t *testing.T, n *node, d *Driver) {
	if err := d.Guardable(); err != nil {
		t.Fatal(err)
	}
	cfg := n.task("guarded", "ignore")
	var group *cgroups.Group
	cfg.OrderGuard = func(g *cgroups.Group) error {
		group = g
		populated, err := g.Populated()
		if populated {
			err = errors.New("it has a process already")
		}
		return err
	}
	n.start(d, cfg)
	n.awaitOutput(cfg, "ready\n")
	command := make(chan *driver.ExitResult, 1)
	go func() {
		result, _ := d.Exec(n.ctx, cfg.ID, &driver.ExecConfig{
			Command: []string{"/program", "ignore"},
			Stdout:  io.Discard,
			Stderr:  io.Discard,
		})
		command <- result
	}()
	var pids []int
	for len(pids) < 2 && n.ctx.Err() == nil {
		var err error
		pids, err = group.PIDs()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // only the kernel knows of the command
	}
	if err := group.Kill(n.ctx); err != nil {
		t.Fatal(err)
	}
	if got := n.wait(d, cfg); got.Signal != 9 {
		t.Errorf("the container: got %+v", got)
	}
	<-command
	c, err := d.engine.Inspect(n.ctx, containerName(cfg.ID))
	if err != nil || !hasEnded(c) || c.RestartCount != 0 {
		t.Errorf("after the kill: %+v, %v", c, err)
	}
	if pids, err := group.PIDs(); err != nil || len(pids) > 0 {
		t.Errorf("after the kill its cgroup has %v, %v", pids, err)
	}
	n.destroy(d, cfg)
	parents, _ := filepath.Glob("/sys/fs/cgroup/*/berth-docker")
	for _, dir := range parents {
		_ = os.Remove(dir)
	}
}

// withCgroups is a daemon that makes cgroups in a certain way.
func (f *fixture) withCgroups(name string) *Driver {
	f.Handle("GET /info", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"OSType": "linux", "CgroupDriver": "`+name+`"}`)
	})
	d := f.agent(f.config())
	d.Fingerprint(f.t.Context())
	return d
}

func TestGuardable_NeedsADaemonWithCgroups(t *testing.T) {
	f := newFixture(t)
	if err := f.agent(f.config()).Guardable(); !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("before the daemon has answered: %v", err)
	}
	for name, ok := range map[string]bool{"cgroupfs": true, "systemd": true, "none": false, "": false} {
		err := f.withCgroups(name).Guardable()
		if ok && err != nil || !ok && !structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestContainer_GetsTheCgroupThatIsOrdered(t *testing.T) {
	for name, want := range map[string]struct{ parent, path string }{
		"cgroupfs": {"/berth-docker", "/berth-docker/ID"},
		"systemd":  {"berth-docker.slice", "/berth.slice/berth-docker.slice/docker-ID.scope"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			d := f.withCgroups(name)
			cfg := f.task("a1")
			cfg.OrderGuard = func(g *cgroups.Group) error {
				c := f.container(cfg)
				path := strings.ReplaceAll(want.path, "ID", c.ID)
				if got := c.Request.HostConfig.CgroupParent; got != want.parent || !strings.HasSuffix(g.Name(), path) {
					t.Errorf("the parent is %q, the cgroup %s", got, g.Name())
				}
				if c.State.Running {
					t.Error("the container runs before the order")
				}
				return nil
			}
			_, err := d.Start(t.Context(), cfg)
			// The process of a scripted daemon is in no cgroup.
			if !structs.IsKind(err, structs.KindPrecondition) ||
				!strings.Contains(err.Error(), "outside of the cgroup") {
				t.Errorf("got %v", err)
			}
			if f.Find(containerName(cfg.ID)) != nil {
				t.Error("the container is left")
			}
		})
	}
}

func TestContainer_DoesNotStartWithoutItsOrder(t *testing.T) {
	f := newFixture(t)
	d := f.withCgroups("cgroupfs")
	cfg := f.task("a1")
	cfg.OrderGuard = func(*cgroups.Group) error { return structs.Conflictf("the lease has ended") }
	_, err := d.Start(t.Context(), cfg)
	if !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("got %v", err)
	}
	started := f.Calls("POST /containers/{id}/start")
	if len(started) > 0 || f.Find(containerName(cfg.ID)) != nil {
		t.Errorf("it is there, or was started: %q", started)
	}
}

// A daemon that starts a container again would start it after the end of the lease, too.
func TestContainer_IsNotStartedAgainByTheDaemon(t *testing.T) {
	f := newFixture(t)
	h := f.created(f.permissive(), f.task("a1"), nil).HostConfig
	if h.RestartPolicy.Name != "" && h.RestartPolicy.Name != container.RestartPolicyDisabled || h.AutoRemove {
		t.Errorf("the restart policy is %+v", h.RestartPolicy)
	}
	if h.CgroupParent != "" {
		t.Errorf("without a guard the cgroup parent is %q", h.CgroupParent)
	}
}
