package guard

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/client/drivers/cgroups"
	"berth/client/guard/watch"
	"berth/internal/boottime"
	"berth/test/kit"
)

// withoutGuard kills the guard, and makes each start of another one fail.
func (f *fixture) withoutGuard() {
	f.t.Helper()
	f.Command = []string{"false"}
	r, err := watch.ReadRecord(f.files.Memory)
	kit.Must(f.t, err)
	kit.Must(f.t, r.Guard.Kill(f.t.Context()))
}

// task starts a process in the cgroup of the tasks. The channel is closed at its end.
func (f *fixture) task() <-chan struct{} {
	f.t.Helper()
	cmd := exec.Command("sleep", "1000")
	kit.Must(f.t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for _, dir := range f.group.Dirs() {
		procs := filepath.Join(dir, "cgroup.procs")
		kit.Must(f.t, os.WriteFile(procs, []byte(strconv.Itoa(cmd.Process.Pid)), 0))
	}
	return ended
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestKeep_EndsWhatIsDueWhileNoGuardCanBeStarted(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	kit.Must(t, f.Order("a1", group("exec", nil), nil))
	hour := time.Hour
	kit.Must(t, f.Order("later", group("docker", &hour), nil))
	ended := f.task()
	f.withoutGuard()
	if f.keep() == nil {
		t.Fatal("a guard was started")
	}
	if isClosed(ended) {
		t.Fatal("the task has ended within the lease")
	}

	f.Clock = func() boottime.Instant { return boottime.Now().Add(time.Hour) }
	if f.keep() == nil {
		t.Error("a guard was started")
	}
	f.eventually("the task has ended", func() bool { return isClosed(ended) })
	for id, want := range map[string]bool{"a1": true, "later": false} {
		d, err := f.files.Due(id)
		f.mu.Lock()
		_, lost := f.lost[id]
		f.mu.Unlock()
		if err != nil || (d != nil) != want || lost != want {
			t.Errorf("%s: the mark is %+v, %v, and it is given up: %t", id, d, err, lost)
		}
	}

	// A later lease does not save it, and what starts late is killed.
	f.renew(2 * time.Hour)
	late := f.task()
	_ = f.keep()
	f.eventually("the late process has ended", func() bool { return isClosed(late) })
}

// A cgroup whose processes cannot be read counts as one whose processes do not end.
func TestKeep_RecordsWhatItCannotEndItself(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	kit.Must(t, f.Order("z", group("exec", nil), nil))
	stuck := &cgroups.Group{V2: t.TempDir()}
	kit.Must(t, os.WriteFile(filepath.Join(stuck.V2, "cgroup.procs"), []byte("no pid"), 0o600))
	kit.Must(t, f.files.Put(&watch.Order{AllocID: "a", BootID: f.boot, Groups: []*cgroups.Group{stuck}}))
	kit.Must(t, f.files.Put(&watch.Order{AllocID: "other", BootID: "another", Groups: []*cgroups.Group{stuck}}))
	ended := f.task()
	f.withoutGuard()
	f.Clock = func() boottime.Instant { return boottime.Now().Add(time.Hour) }
	err := f.keep()
	if err == nil || !strings.Contains(err.Error(), "allocation a is due, and has not ended") {
		t.Errorf("got %v", err)
	}
	f.eventually("the other task has ended", func() bool { return isClosed(ended) })
	var e *watch.Ended
	f.eventually("the end is recorded", func() bool { // keep does not wait for a slow disk
		e, err = f.files.Ended("a")
		return err != nil || e != nil
	})
	if err != nil || !e.Empty.IsZero() || len(e.Left) != 1 || e.Left[0].Path != stuck.V2 {
		t.Errorf("the record is %+v, %v", e, err)
	}
	for _, id := range []string{"z", "other"} {
		if e, err := f.files.Ended(id); e != nil || err != nil {
			t.Errorf("the record of %s is %+v, %v", id, e, err)
		}
	}
}
