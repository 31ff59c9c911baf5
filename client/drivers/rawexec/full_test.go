package rawexec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/client/drivers/driver"
	"berth/client/drivers/executor"
	"berth/client/drivers/rawexec"
	"berth/test/kit"
)

// The disk with the records of the tasks is full. A start fails and leaves nothing, or the task is found
// again and its end is known.
func TestStart_OnAFullDiskLeavesNothingOrATaskThatIsFound(t *testing.T) {
	withAndWithoutCgroups(t, func(r *fixture) {
		records := filepath.Join(r.dir, "ex")
		kit.MountDiskAt(r.t, records, "1m")
		cfg := r.task(`echo $$; while [ ! -e ` + r.dir + `/end ]; do sleep 0.01; done; exit 7`)
		page := uint64(os.Getpagesize())
		var h *driver.Handle
		var err error
		failed := 0
		for left := uint64(0); h == nil; left += page {
			free := kit.FillDisk(r.t, records, left)
			h, err = r.d.Start(r.ctx, cfg)
			if err == nil {
				break // the disk stays full
			}
			failed++
			if !strings.Contains(err.Error(), "no space left on device") {
				r.t.Errorf("with %d bytes: %v", left, err)
			}
			free()
			checkNothing(r, records)
			if failed > 50 {
				r.t.Fatal("no start succeeds")
			}
		}
		if failed == 0 {
			r.t.Error("no start has failed on a disk without a byte")
		}
		pids := r.awaitNumbers(1)

		// The next agent has the handle, or has lost it.
		for _, handle := range []driver.Handle{*h, {Driver: h.Driver, TaskID: h.TaskID}} {
			r.d = rawexec.New(rawexec.Config{Enabled: true}, executor.Config{
				Dir:     records,
				Command: []string{os.Args[0], "executor"},
			})
			if err := r.d.Recover(r.ctx, &handle); err != nil || hasEnded(pids[0]) {
				r.t.Fatalf("the task is lost: %v", err)
			}
		}
		if err := os.WriteFile(filepath.Join(r.dir, "end"), nil, 0o600); err != nil {
			r.t.Fatal(err)
		}
		if end := r.wait(cfg); end.ExitCode != 7 || end.Err != "" {
			r.t.Errorf("got the end %+v", end)
		}
	})
}

// checkNothing checks that a failed start has left no process and no file.
func checkNothing(r *fixture, records string) {
	r.t.Helper()
	for _, pid := range strings.Fields(r.output()) {
		if text, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && len(text) > 0 {
			r.t.Errorf("process %s runs: %q", pid, text)
		}
	}
	_ = os.Remove(r.dir + "/t.stdout.0")
	left, err := os.ReadDir(records)
	if err != nil || len(left) > 0 {
		r.t.Errorf("the folder has %v (%v)", left, err)
	}
}
