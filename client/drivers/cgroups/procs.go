package cgroups

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/backoff"
)

// Entry holds the open files with which a thread forks a process into a group. Close it after the fork.
type Entry struct {
	tasks []*os.File // v1: a thread that writes 0 joins the group, and its children inherit it
	v2    *os.File   // v2: an argument of clone3
	procs *os.File   // v2: moves a process
}

// Entry opens the files with which a thread forks processes into the group.
func (g *Group) Entry() (*Entry, error) {
	e := &Entry{}
	for _, dir := range g.Dirs() {
		var f *os.File
		var err error
		if dir == g.V2 {
			err = e.openUnified(dir)
		} else {
			f, err = os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0)
			e.tasks = append(e.tasks, f)
		}
		if err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

// openUnified opens the group of the unified hierarchy, its directory through a read-only mount of its own if
// this process may make one: a fork copies the open files, and the path of a program through the directory,
// by /proc/self/fd, must lead neither to the host nor to a control file that it can write.
func (e *Entry) openUnified(dir string) error {
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, flags)
	if err == nil {
		e.v2 = os.NewFile(uintptr(fd), dir)
		readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, readOnly)
	} else if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) { // no program of a sandbox
		e.v2, err = os.Open(dir)
	}
	if err != nil {
		return fmt.Errorf("opening the cgroup %s: %w", dir, err)
	}

	// This path is of the host's mount, because the copy is read-only.
	e.procs, err = os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	return err
}

// OnOwnThread runs fn on a thread that ends when fn has returned. fn may change that thread for the processes
// it forks.
func OnOwnThread(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // a locked thread ends with its goroutine
		if unix.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread() // but not the main thread: keep it busy and take another
			OnOwnThread(fn)
			return
		}
		fn()
	}()
	<-done
}

// MoveThread moves the calling thread into the group's v1 hierarchies, in OnOwnThread.
func (e *Entry) MoveThread() error {
	for _, f := range e.tasks {
		if _, err := f.WriteString("0"); err != nil {
			return fmt.Errorf("entering the cgroup: %w", err)
		}
	}
	return nil
}

// MoveProcess moves a process into the group of the unified hierarchy, if there is one.
func (e *Entry) MoveProcess(pid int) error {
	if e.procs == nil {
		return nil
	}
	_, err := e.procs.WriteString(strconv.Itoa(pid))
	if err != nil {
		return fmt.Errorf("entering the cgroup: %w", err)
	}
	return nil
}

// FD is the directory to hand to clone3, and whether there is one.
func (e *Entry) FD() (int, bool) {
	if e.v2 == nil {
		return -1, false
	}
	return int(e.v2.Fd()), true
}

// Close closes the files.
func (e *Entry) Close() error {
	var errs []error
	for _, f := range append(slices.Clone(e.tasks), e.v2, e.procs) {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// PIDs lists the processes in the group and in the groups that the task made below it, without the calling
// process.
func (g *Group) PIDs() ([]int, error) {
	var pids []int
	for _, top := range g.Dirs() {
		for _, dir := range groupTree(top) {
			in, err := processesIn(dir)
			if err != nil {
				return nil, err
			}
			pids = append(pids, in...)
		}
	}
	slices.Sort(pids)
	// A process is in one group of each hierarchy, so it comes once for each.
	pids = slices.Compact(pids)
	return slices.DeleteFunc(pids, func(pid int) bool {
		// 0 stands for a process of another pid namespace, which cannot be signalled by a pid from here.
		return pid == os.Getpid() || pid == 0
	}), nil
}

// Populated reports whether the group, or a group below it, has a process. A group that does not exist has
// none. Only the kernel of cgroup v2 answers for the whole tree at once: in v1 a process may move while its
// tree is read, so the caller repeats the question.
func (g *Group) Populated() (bool, error) {
	pids, err := g.PIDs()
	if err != nil || len(pids) > 0 || g.V2 == "" {
		return len(pids) > 0, err
	}
	events, err := os.ReadFile(filepath.Join(g.V2, "cgroup.events"))

	// ENODEV is of a group that was removed while the file was open.
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return false, nil
	}
	return bytes.Contains(events, []byte("populated 1")), err
}

// groupTree lists a group's directory and those below it, each after its parent. It omits one that is gone.
func groupTree(top string) []string {
	var dirs []string
	_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

// processesIn lists the processes of a directory. One that is gone has none.
func processesIn(dir string) ([]int, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, os.ErrNotExist) ||
		errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	var pids []int
	for _, s := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("%s holds %q: %w", dir, s, err)
		}
		pids = append(pids, pid)
	}
	return pids, err
}

// pause is the time between two reads of a group during a kill.
const pause = 5 * time.Millisecond

// Kill kills all processes in the group and returns when there are none, or with ctx's error. The pids
// controller prevents new ones meanwhile. Without it Kill repeats until none are left.
func (g *Group) Kill(ctx context.Context) error {
	// Both are best effort, because the loop below decides: v1 has no cgroup.kill, nor has a kernel before
	// 5.14.
	for _, dir := range g.Dirs() {
		_ = writeControl(filepath.Join(dir, "cgroup.kill"), "1")
		_ = writeControl(filepath.Join(dir, "pids.max"), "0")
	}

	for {
		pids, err := g.PIDs()
		if err != nil || len(pids) == 0 {
			return err
		}

		// The members may fork meanwhile, so the next turn reads them again.
		for _, pid := range pids {
			if err := g.killMember(pid); err != nil {
				return err
			}
		}

		if !backoff.Sleep(ctx, pause) {
			return fmt.Errorf("processes %v do not end: %w", pids, ctx.Err())
		}
	}
}

// killMember kills a process of the group. The pidfd names one process, so it checks the membership after it
// has opened the pidfd: by then the pid may belong to another process.
func (g *Group) killMember(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	gone := errors.Is(err, unix.ESRCH)
	if gone || errors.Is(err, unix.EINVAL) { // EINVAL: a thread's id
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening process %d: %w", pid, err)
	}
	defer unix.Close(fd)

	pids, err := g.PIDs()
	if err != nil || !slices.Contains(pids, pid) {
		return err
	}

	err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", pid, err)
	}

	return nil
}

// Remove removes the group's directories, and the directories that the task made below them. It is
// idempotent.
func (g *Group) Remove() error {
	var errs []error
	for _, top := range g.Dirs() {
		for _, dir := range slices.Backward(groupTree(top)) {
			errs = append(errs, removeGroup(dir))
		}
	}
	return errors.Join(errs...)
}

// removeGroup waits a moment for the kernel, which frees an ended group later.
func removeGroup(dir string) error {
	err := backoff.RetryEBUSY(context.Background(), func() error {
		return unix.Rmdir(dir)
	})
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("removing the cgroup %s: %w", dir, err)
}
