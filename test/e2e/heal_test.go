package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/structs"
)

// The server of a FUSE file system dies by kill -9. The agent finds the dead mount, has it published again,
// and restarts its user. The user of another volume of the plugin goes on.
func TestHeal_RestartsTheUserOfADeadFUSEFileSystem(t *testing.T) {
	t.Parallel()
	storage := newStorage(t)
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1").allowRaw()
	a.start()
	a.must("job", "run", storage.writePluginJob(a, "shelf", structs.JobSystem, "monolith"))
	a.healthyNodes("shelf", 1)
	users := map[string]string{}
	for _, id := range []string{"fuse-dies", "fuse-stays"} {
		storage.createVolume(a, id, 16)
		a.runUntilOutput(jobFile{
			name:   id,
			node:   "solo",
			uses:   []volumeUse{{source: id, at: "/data"}},
			script: "echo there is $(cat /data/f)\nsleep 86400",
		}, "fine")
		users[id] = a.awaitRunning(id, 1)[0].ID
	}

	err := syscall.Kill(storage.serverOf(t, "fuse-dies"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the user of the dead mount reads it again", func() error {
		out := a.logs(users["fuse-dies"])
		if strings.Count(out, "there is fine") < 2 {
			return fmt.Errorf("the output is %q", out)
		}
		return nil
	})

	eventually(t, "the servers know of the restart", func() error {
		if got := a.restartsOf(users["fuse-dies"]); got != 1 {
			return fmt.Errorf("the task with the dead mount was restarted %d times", got)
		}
		return nil
	})
	if got := a.restartsOf(users["fuse-stays"]); got != 0 {
		t.Errorf("the task with the other volume was restarted %d times", got)
	}
	out := a.must("alloc", "status", users["fuse-dies"])
	if !strings.Contains(out, "fuse-dies") || !strings.Contains(out, "mount") {
		t.Errorf("the status of the allocation tells nothing of the mount:\n%s", out)
	}
	a.answersBesideAHungMount(storage.serverOf(t, "fuse-stays"), storage.read("vol/shelf-fuse-stays/target"))
	for id := range users {
		a.must("job", "stop", "-purge", id)
		a.awaitFree(id)
	}
	a.must("job", "stop", "-purge", "shelf")
}

// restartsOf returns how often the task of an allocation was restarted.
func (a *agent) restartsOf(alloc string) uint64 {
	a.t.Helper()
	got, err := get[*structs.Allocation](a, "/v1/allocation/"+alloc)
	if err != nil {
		a.t.Fatal(err)
	}
	restarts := uint64(0)
	for _, task := range got.TaskStates {
		restarts += task.Restarts
	}
	return restarts
}

// serverOf returns the process that serves the FUSE file system of a volume.
func (st *shelfDir) serverOf(t *testing.T, volume string) int {
	t.Helper()
	pid, err := strconv.Atoi(st.read("vol/shelf-" + volume + "/server"))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// answersBesideAHungMount lets the server of a mount hang. A process of the test asks the mount, and its call
// returns only when the server goes on: all answers of the agent before that did not wait for the mount.
func (a *agent) answersBesideAHungMount(server int, path string) {
	a.t.Helper()
	err := syscall.Kill(server, syscall.SIGSTOP)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(server, syscall.SIGCONT) }() // also after a failure; it may have ended
	awaitStopped(a.t, server)
	asks := exec.Command("stat", "--file-system", path)
	err = asks.Start()
	if err != nil {
		a.t.Fatal(err)
	}
	returned := make(chan error, 1)
	go func() { returned <- asks.Wait() }()

	answered := 0
	answers := func() {
		a.t.Helper()
		for _, path := range []string{"/v1/agent/self", "/v1/client/stats", "/v1/nodes", "/v1/volumes?type=csi"} {
			_, err := a.read(path)
			if err != nil {
				a.t.Errorf("beside a hung mount: %v", err)
			}
			answered++
		}
	}
	eventually(a.t, "the volume is shown as hung", func() error {
		answers()
		out, err := a.run("volume", "status", "fuse-stays")
		if err == nil && !strings.Contains(out, "hung") {
			err = fmt.Errorf("it is shown as\n%s", out)
		}
		return err
	})
	for range 20 {
		answers()
	}
	select {
	case err := <-returned:
		a.t.Fatalf("the call of the mount returned (%v) before the last of %d answers of the agent", err, answered)
	default:
	}

	err = syscall.Kill(server, syscall.SIGCONT)
	if err != nil {
		a.t.Fatal(err)
	}
	err = <-returned
	if err != nil {
		a.t.Errorf("the call of the mount, once its server goes on: %v", err)
	}
}

// awaitStopped waits until all threads of a process have stopped.
func awaitStopped(t testing.TB, pid int) {
	t.Helper()
	eventually(t, "the process has stopped", func() error {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			return fmt.Errorf("it has the threads %v, %w", threads, err)
		}
		for _, path := range threads {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") {
				return fmt.Errorf("a thread is %.1s", state)
			}
		}
		return nil
	})
}
