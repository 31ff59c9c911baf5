package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/client/drivers/docker/dockertest"
	"berth/client/guard/watch"
)

// containerJob is a job with one container that counts, with more of its group.
func containerJob(name, group string) string {
	return fmt.Sprintf(`
job %q {
  group "g" {
    %s
    task "t" {
      driver = "docker"
      config {
        image        = "program:1"
        args         = ["count:100000 50ms"]
        network_mode = "none"
      }
      kill_timeout = "1s"
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}`, name, group)
}

// runContainer runs such a job, and returns its allocation once the container counts.
func (a *agent) runContainer(name, group string) string {
	a.t.Helper()
	a.must("job", "run", "-detach", a.writeFile(name+".hcl", containerJob(name, group)))
	alloc := a.awaitRunning(name, 1)[0].ID
	a.awaitMoreOutput(alloc)
	return alloc
}

// orderedDirs returns the cgroups of an order of the guard.
func (a *agent) orderedDirs(alloc string) []string {
	a.t.Helper()
	o, err := watch.OrderFiles{Dir: a.data("guard")}.Get(alloc)
	if err != nil || o == nil || len(o.Tasks) == 0 {
		a.t.Fatalf("the order is %+v, %v", o, err)
	}
	var dirs []string
	for _, g := range o.AllGroups() {
		dirs = append(dirs, g.Dirs()...)
	}
	return dirs
}

// checkEmpty checks that cgroups have no process, or are gone.
func checkEmpty(t *testing.T, dirs []string) {
	t.Helper()
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if len(text) > 0 {
			t.Errorf("%s has the processes %q, %v", dir, text, err)
		}
	}
}

// A container with a volume under "lease" and one with stop_on_client_after end without their agent, and
// their daemon starts neither again. Another one runs on.
func TestGuard_EndsContainersOfAFrozenAgent(t *testing.T) {
	t.Parallel()
	d := dockertest.Start(t)
	d.Import("program:1")
	guarded.watch(t, d.Dir())
	s := newAgent(t, "s0", "-server")
	s.args = append(s.args, "-config", s.writeFile("lease.hcl",
		"server {\n  heartbeat_ttl = \"3s\"\n  heartbeat_grace = \"2m\"\n}\n"))
	s.ready = (*agent).hasLeader
	s.start()
	n := newAgent(t, "n0", "-client", "-servers", fmt.Sprintf("127.0.0.1:%d", s.rpc))
	n.args = append(n.args, "-config", n.writeFile("docker.hcl",
		fmt.Sprintf("client {\n  drivers {\n    docker {\n      endpoint = %q\n    }\n  }\n}\n", d.Endpoint())))
	n.start()
	s.must("job", "run", "-detach", example(t, "hostpath.hcl"))
	s.healthyNodes("hostpath", 1)
	s.leaseVolume("lease")

	const volume = `volume "v" {
      type            = "csi"
      source          = "lease"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }`
	lease := s.runContainer("lease", volume)
	stops := s.runContainer("stops", "disconnect {\n stop_on_client_after = \"1s\"\n }")
	goesOn := s.runContainer("goes-on", "")
	dirs := append(n.orderedDirs(lease), n.orderedDirs(stops)...)

	n.signal(syscall.SIGSTOP)
	n.awaitEndByGuard(lease)
	n.awaitEndByGuard(stops)
	checkEmpty(t, dirs)
	if pids := d.Processes(); len(pids) == 0 { // guarded containers have another cgroup
		t.Errorf("the container of %s has ended, too", goesOn)
	}
	for _, m := range mountsBelow(n.data("csi", "v")) {
		if strings.HasSuffix(m, "/mount") {
			t.Errorf("%s is still mounted", m)
		}
	}

	n.signal(syscall.SIGCONT)
	if now := s.awaitRunning("goes-on", 1)[0].ID; now != goesOn {
		t.Errorf("allocation %s runs in the place of %s", now, goesOn)
	}
	for _, job := range []string{"lease", "stops", "goes-on"} {
		s.must("job", "stop", "-purge", job)
	}
	s.awaitFree("lease")
	s.must("job", "stop", "-purge", "hostpath")
}
