package watch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/csi/mounts"
	"berth/client/drivers/cgroups"
	"berth/internal/boottime"
	"berth/internal/process"
	"berth/test/kit"
)

// TestMain lets this program be the guard, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Arg {
		os.Exit(Main(os.Args[2:]))
	}
	code := m.Run()
	for _, dir := range cgroups.Detect().Path(testCgroup, "").Dirs() {
		_ = os.Remove(dir)
	}
	os.Exit(code)
}

// testCgroup has the cgroups of the tasks. Tests of another package run at the same time.
var testCgroup = fmt.Sprintf("berth-guard-test-%d", os.Getpid())

// fixture is a node: its files, a stand-in for its agent, and a guard.
type fixture struct {
	t     *testing.T
	files OrderFiles
	boot  string
	lease *LeaseFile
	agent *exec.Cmd
	// device is a file in the place of a watchdog, "" for none.
	device string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it makes cgroups and mounts")
	}
	t.Parallel()
	dir, err := mounts.Resolve(t.TempDir())
	kit.Must(t, err)
	f := &fixture{t: t, files: OrderFiles{Dir: dir + "/orders", Memory: dir + "/memory"}}
	kit.Must(t, os.MkdirAll(f.files.Dir, 0o700))
	kit.Must(t, os.MkdirAll(f.files.Memory, 0o700))
	f.boot, err = process.BootID()
	kit.Must(t, err)
	f.openLease()
	f.agent = f.process()
	f.renew(time.Hour)
	return f
}

// openLease opens the file of the lease, as an agent does at its start.
func (f *fixture) openLease() {
	f.t.Helper()
	lease, err := OpenLease(f.leasePath(), f.boot)
	kit.Must(f.t, err)
	f.t.Cleanup(func() { _ = lease.Close() })
	f.lease = lease
}

func (f *fixture) leasePath() string { return filepath.Join(f.files.Memory, LeaseFileName) }

// renew makes the lease end after a time.
func (f *fixture) renew(d time.Duration) boottime.Instant {
	f.t.Helper()
	until := boottime.Now().Add(d)
	kit.Must(f.t, f.lease.Write(until))
	return until
}

// process starts a process that does nothing.
func (f *fixture) process() *exec.Cmd {
	f.t.Helper()
	cmd := exec.Command("sleep", "1000")
	kit.Must(f.t, cmd.Start())
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// guard starts a guard of the agent, as the agent does, and returns it when it works.
func (f *fixture) guard() Record {
	f.t.Helper()
	agent, err := process.RefOf(f.agent.Process.Pid)
	kit.Must(f.t, err)
	cmd := exec.Command(os.Args[0], Args(Of{f.files, agent, f.device})...)
	log, err := os.OpenFile(f.files.Dir+"/log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	kit.Must(f.t, err)
	defer log.Close()
	cmd.Stderr = log
	before, err := ReadRecord(f.files.Memory)
	kit.Must(f.t, err)
	kit.Must(f.t, cmd.Run())
	f.t.Cleanup(func() {
		if f.t.Failed() {
			text, _ := os.ReadFile(f.files.Dir + "/log")
			f.t.Logf("the log of the guard:\n%s", text)
		}
		f.kill()
	})
	var now Record
	f.eventually("the guard works", func() bool {
		now, err = ReadRecord(f.files.Memory)
		works, err2 := Works(f.files.Memory, agent)
		return err == nil && err2 == nil && now.Guard != before.Guard && works
	})
	return now
}

// kill kills the newest guard, which may have orders.
func (f *fixture) kill() {
	f.t.Helper()
	r, err := ReadRecord(f.files.Memory)
	kit.Must(f.t, err)
	ctx, cancel := timeout(time.Minute)
	defer cancel()
	kit.Must(f.t, r.Guard.Kill(ctx))
	kit.Must(f.t, removeOwnCgroup())
}

// task starts a task in a cgroup of its own.
func (f *fixture) task(name string) (*cgroups.Group, *exec.Cmd) {
	f.t.Helper()
	name = fmt.Sprintf("%s-%d", name, time.Now().UnixNano())
	group, err := cgroups.Detect().New(testCgroup, name, cgroups.Limits{})
	kit.Must(f.t, err)
	f.t.Cleanup(func() {
		ctx, cancel := timeout(time.Minute)
		defer cancel()
		kit.Must(f.t, group.Kill(ctx))
		kit.Must(f.t, group.Remove())
	})
	return group, f.startIn(group)
}

// startIn starts a process in a cgroup.
func (f *fixture) startIn(group *cgroups.Group) *exec.Cmd {
	f.t.Helper()
	cmd := f.process()
	for _, dir := range group.Dirs() {
		procs := filepath.Join(dir, "cgroup.procs")
		kit.Must(f.t, os.WriteFile(procs, []byte(strconv.Itoa(cmd.Process.Pid)), 0))
	}
	return cmd
}

// volume mounts a staged volume, and publishes it for an allocation.
func (f *fixture) volume(allocID string) OrderedVolume {
	f.t.Helper()
	dir := filepath.Dir(f.files.Dir)
	v := OrderedVolume{ID: "v", Stage: dir + "/stage", Target: dir + "/" + allocID}
	table, err := mounts.Read()
	kit.Must(f.t, err)
	if !table.Mounted(v.Stage) {
		f.mount("tmpfs", v.Stage, "tmpfs", 0)
	}
	f.mount(v.Stage, v.Target, "", unix.MS_BIND)
	return v
}

func (f *fixture) mount(source, target, kind string, flags uintptr) {
	f.t.Helper()
	kit.Must(f.t, os.MkdirAll(target, 0o700))
	kit.Must(f.t, unix.Mount(source, target, kind, flags, ""))
	f.t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
}

// put orders the end of an allocation.
func (f *fixture) put(o *Order) {
	f.t.Helper()
	o.BootID = f.boot
	kit.Must(f.t, f.files.Put(o))
}

// ended waits for the record of an allocation that fits.
func (f *fixture) ended(allocID string, fits func(*Ended) bool) *Ended {
	f.t.Helper()
	var e *Ended
	f.eventually("the end of "+allocID+" is recorded", func() bool {
		var err error
		e, err = f.files.Ended(allocID)
		return err == nil && e != nil && fits(e)
	})
	return e
}

func anyRecord(*Ended) bool { return true }

func unmounted(e *Ended) bool { return e.Unmounted }

// eventually waits until check reports true. It polls, because other processes make the changes.
func (f *fixture) eventually(what string, check func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !check() {
		if time.Now().After(deadline) {
			f.t.Fatalf("waited without success: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// killed waits for the end of a process and checks that a signal ended it.
func (f *fixture) killed(cmd *exec.Cmd) {
	f.t.Helper()
	_ = cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signal() != unix.SIGKILL {
		f.t.Errorf("the task ended with %v", cmd.ProcessState)
	}
}

func (f *fixture) isMounted(path string) bool {
	f.t.Helper()
	table, err := mounts.Read()
	kit.Must(f.t, err)
	return table.Mounted(path)
}

func (f *fixture) runs(cmd *exec.Cmd) bool {
	return cmd.Process.Signal(unix.Signal(0)) == nil
}
