package stats

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/csi/helpers"
	"berth/client/csi/stats/statfs"
	"berth/internal/testskip"
	"berth/structs"
	"berth/structs/volumeusage"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == statfs.Arg {
		os.Exit(statfs.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mount mounts a file system for a test.
func mount(t *testing.T, kind, options string) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		testskip.Lacking(t, "root: it mounts")
	}
	dir = t.TempDir()
	must(t, unix.Mount("none", dir, kind, 0, options))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestStatfs_MeasuresAFileSystem(t *testing.T) {
	dir := mount(t, "tmpfs", "size=1m,nr_inodes=100")
	must(t, os.WriteFile(filepath.Join(dir, "file"), make([]byte, 256<<10), 0o600))
	h := helpers.New([]string{os.Args[0]})
	u, err := askFileSystem(t.Context(), h, dir)
	must(t, err)
	want := volumeusage.UsageAmount{Total: 1 << 20, Used: 256 << 10, Available: 768 << 10}
	if *u.Bytes != want || u.Inodes.Total != 100 || u.Inodes.Used != 2 || u.Inodes.Available != 98 ||
		u.Source != volumeusage.SourceStatfs {
		t.Errorf("%+v, %+v, %+v", u, u.Bytes, u.Inodes)
	}

	_, err = askFileSystem(t.Context(), h, dir+"/gone")
	if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	if n := h.Running(); n != 0 {
		t.Errorf("%d helpers run", n)
	}
}

// A FUSE file system whose server never answers blocks every process that asks it.
func TestStatfs_DoesNotWaitForAFileSystemThatHangs(t *testing.T) {
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		testskip.Lacking(t, "FUSE: "+err.Error())
	}
	defer fuse.Close()
	dir := mount(t, "fuse", fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse.Fd()))

	h := helpers.New([]string{os.Args[0]})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = askFileSystem(ctx, h, dir)
	if !structs.IsKind(err, structs.KindTimeout) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
}

// The kernel may hold a process for ever. Here its output, which a child keeps open, does the same.
func TestStatfs_BoundsTheHelpersThatDoNotEnd(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "helper")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\nsleep 1000 &\necho $! > "+dir+"/$$\nwait\n"), 0o700))
	h := helpers.New([]string{script})
	t.Cleanup(func() { killAll(t, dir) })
	for i := range helpers.Max {
		// The helper has written its file before the end of the context.
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			for len(children(dir)) <= i && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}()
		_, err := askFileSystem(ctx, h, "/")
		if !structs.IsKind(err, structs.KindTimeout) {
			t.Fatalf("helper %d: %v", i, err)
		}
	}
	_, err := askFileSystem(t.Context(), h, "/")
	if !structs.IsKind(err, structs.KindUnavailable) || len(children(dir)) != helpers.Max {
		t.Errorf("got %v with %d helpers", err, len(children(dir)))
	}
}

// children returns the processes of which the helpers of a directory wrote.
func children(dir string) (pids []int) {
	files, _ := filepath.Glob(dir + "/[0-9]*")
	for _, f := range files {
		text, _ := os.ReadFile(f)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func killAll(t *testing.T, dir string) {
	for _, pid := range children(dir) {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Error(err)
		}
	}
}

func TestStatfs_NamesAFailedHelper(t *testing.T) {
	h := helpers.New([]string{"/nonexistent"})
	if _, err := askFileSystem(t.Context(), h, "/"); err == nil || h.Running() != 0 {
		t.Errorf("got %v", err)
	}
	echo, err := exec.LookPath("echo")
	must(t, err)
	h = helpers.New([]string{echo})
	if _, err := askFileSystem(t.Context(), h, "/"); !structs.IsKind(err, structs.KindInternal) {
		t.Errorf("got %v", err)
	}
}

func TestAmount_LeavesOutImpossibleNumbers(t *testing.T) {
	for _, c := range [][3]uint64{{0, 0, 0}, {10, 11, 0}, {10, 0, 11}, {1 << 63, 0, 0}} {
		if got := amount(c[0], c[1], c[2]); got != nil {
			t.Errorf("%v: %+v", c, got)
		}
	}
}
