package e2e

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/procfs"
)

// A task that runs as root neither leaves its sandbox nor leaves a program behind that gives root to another
// user of the machine, in its directories or on its volume.
func TestTask_GivesNoOtherUserTheRightsOfRoot(t *testing.T) {
	t.Parallel()
	a := agentWithVolume(t)
	if err := os.Chmod(a.dir, 0o755); err != nil { // only the modes of berth's directories protect its files
		t.Fatal(err)
	}
	data := []volumeUse{{source: "counter", at: "/data"}}
	a.must("job", "run", a.writeJob(jobFile{
		name: "leaver",
		uses: data,
		script: `
		for d in /local /secrets /tmp /alloc/data /alloc/tmp /data; do
			cp /bin/true $d/left-behind && chmod 4755 $d/left-behind
		done
		unshare -UrmC true 2> /alloc/data/rejection || echo rejected >> /alloc/data/rejection
		exec sleep 1000`,
	}))
	alloc := a.awaitRunning("leaver", 1)[0].ID
	eventually(t, "the task was rejected a namespace", func() error {
		b, err := os.ReadFile(a.data("alloc", alloc, "alloc", "data", "rejection"))
		if err == nil && !strings.Contains(string(b), "rejected") {
			err = errors.New(string(b))
		}
		return err
	})
	tried := 0
	err := filepath.WalkDir(a.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // the agent and the task change their directories
			return nil
		}
		if err != nil || d.Name() != "left-behind" {
			return err
		}
		tried++
		cmd := exec.Command(path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if err := cmd.Run(); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("another user ran %s: %v", path, err)
		}
		return nil
	})
	if err != nil || tried < 6 {
		t.Errorf("%d programs were found, %v", tried, err)
	}
	stopWithVolume(a, "leaver")
}

// The processes of a task are those of the small program in the binary, not the agent's own executable: an
// executable of 348 packages starts slowly.
func TestTask_HasASmallSupervisor(t *testing.T) {
	t.Parallel()
	a := agentWithVolume(t)
	a.must("job", "run", a.writeJob(jobFile{
		name:   "small",
		uses:   []volumeUse{{source: "counter", at: "/data"}},
		script: "exec sleep 1000",
	}))
	a.awaitRunning("small", 1)
	var names []string
	for _, pid := range processesOf(filepath.Join(a.dir, "data")) {
		p, err := procfs.NewProc(pid)
		if err != nil {
			continue
		}
		line, err := p.CmdLine() // the executable is behind a mount of its own
		if err != nil || len(line) == 0 {
			continue
		}
		names = append(names, filepath.Base(line[0]))
	}
	small := func(name string) bool { return strings.HasPrefix(name, "berth-executor-") }
	if !slices.ContainsFunc(names, small) {
		t.Errorf("the processes below the data directory run %q", names)
	}
	stopWithVolume(a, "small")
}
