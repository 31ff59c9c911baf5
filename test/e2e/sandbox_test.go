package e2e

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
		unshare -UrmC true 2> /alloc/data/refusal || echo refused >> /alloc/data/refusal
		exec sleep 1000`,
	}))
	alloc := a.awaitRunning("leaver", 1)[0].ID
	eventually(t, "the task was refused a namespace", func() error {
		b, err := os.ReadFile(a.data("alloc", alloc, "alloc", "data", "refusal"))
		if err == nil && !strings.Contains(string(b), "refused") {
			err = errors.New(string(b))
		}
		return err
	})
	tried := 0
	err := filepath.WalkDir(a.dir, func(path string, d fs.DirEntry, err error) error {
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
