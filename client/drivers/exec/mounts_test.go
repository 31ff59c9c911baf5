package exec_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/test/kit"
)

// sharedDir makes a directory with its own shared mount.
func (r *fixture) sharedDir(name string) string {
	r.t.Helper()
	dir := filepath.Join(r.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			r.t.Error(err)
		}
	})
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		r.t.Fatal(err)
	}
	return dir
}

func (r *fixture) mountTmpfs(dir string) {
	r.t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := unix.Mount("x", dir, "tmpfs", 0, "size=64k"); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // if the test fails
	if err := os.WriteFile(filepath.Join(dir, "mark"), []byte("host"), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestMounts_AreSeenByTheTask(t *testing.T) {
	r := newFixture(t)
	data := filepath.Join(r.dir, "data")
	if err := os.MkdirAll(data+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(data+"/file", []byte("content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := r.task("t", `
		cat /data/file /data/inner/file /srv/deep/er/file /srv/one
		echo new > /data/new && echo written
		echo new 2>/dev/null > /srv/deep/er/new || echo rejected
		touch /local/in/x && echo local`)
	cfg.Mounts = []driver.Mount{
		{HostPath: data, TaskPath: "/data/inner", ReadOnly: true}, // below the next one: order does not matter
		{HostPath: data, TaskPath: "/data"},
		{HostPath: data, TaskPath: "/srv/deep/er/", ReadOnly: true},
		{HostPath: data + "/file", TaskPath: "/srv/one", Propagation: "private"},
		{HostPath: data + "/sub", TaskPath: "/local/in", Propagation: "host-to-task"},
	}
	res, out := r.run(cfg)
	if out != "content\ncontent\ncontent\ncontent\nwritten\nrejected\nlocal\n" {
		t.Fatalf("got the end %+v and the output %q", res, out)
	}
	if !exists(data+"/new") || !exists(data+"/sub/x") {
		t.Fatal("the host does not see the files of the task")
	}
}

// The staging and publish directories of a plugin see mounts of both sides.
func TestDuty_A18_Bidirectional(t *testing.T) {
	r := newFixture(t)
	dir := r.sharedDir("v")
	cfg := r.task("t", `
		mkdir /csi/made && mount -t tmpfs x /csi/made && echo inside > /csi/made/mark && echo mounted
		while ! test -s /csi/late/mark; do sleep 0.01; done; cat /csi/late/mark; echo
		while ! test -e /local/go; do sleep 0.01; done
		umount /csi/made && echo unmounted
		mount -t tmpfs x /csi/made && touch /csi/made/stays && echo again
		exec sleep 1000`)
	cfg.Privileged = true
	cfg.Mounts = []driver.Mount{{HostPath: dir, TaskPath: "/csi", Propagation: "bidirectional"}}
	r.start(cfg)
	r.awaitOutput(cfg, "mounted")
	if b, err := os.ReadFile(dir + "/made/mark"); string(b) != "inside\n" {
		t.Fatalf("the host does not see a mount of the task: %q, %v", b, err)
	}
	r.mountTmpfs(dir + "/late")
	r.awaitOutput(cfg, "host")
	if err := os.WriteFile(cfg.Dirs.Local+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.awaitOutput(cfg, "again")
	if exists(dir+"/made/mark") || !exists(dir+"/made/stays") {
		t.Fatal("the host does not see that the task unmounted and mounted again")
	}
	r.destroy(cfg)
	if !exists(dir + "/made/stays") { // a plugin's mounts outlive it
		t.Fatal("the end of the task has removed its mount on the host")
	}
	if err := unix.Unmount(dir+"/made", 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(dir+"/late", 0); err != nil { // nothing holds it
		t.Fatal(err)
	}
}

func TestMounts_HostToTaskPropagates(t *testing.T) {
	r := newFixture(t)
	dir := r.sharedDir("v")
	cfg := r.task("t", `
		echo up
		while ! test -s /m/late/mark; do sleep 0.01; done; cat /m/late/mark; echo; echo closed
		while test -e /m/late/mark; do sleep 0.01; done; echo gone
		mkdir /m/made && mount -t tmpfs x /m/made && touch /m/made/mark && echo mounted
		exec sleep 1000`)
	cfg.Privileged = true
	cfg.Mounts = []driver.Mount{{HostPath: dir, TaskPath: "/m", Propagation: "host-to-task"}}
	r.start(cfg)
	r.awaitOutput(cfg, "up")
	r.mountTmpfs(dir + "/late")
	r.awaitOutput(cfg, "closed") // the kernel counts the task's open files
	// It also counts a look of the task at the file.
	r.waitUntil("the host unmounts it", func() bool {
		err := unix.Unmount(dir+"/late", 0)
		if err != nil && err != unix.EBUSY {
			t.Fatal(err)
		}
		return err == nil
	})
	r.awaitOutput(cfg, "mounted")
	if exists(dir + "/made/mark") {
		t.Fatal("the host sees a mount of the task")
	}
}

func TestMounts_PrivateStayPrivate(t *testing.T) {
	r := newFixture(t)
	dir := r.sharedDir("v")
	cfg := r.task("t", `
		mount -t tmpfs x /m/made && touch /m/made/mark && echo mounted
		while ! test -e /local/go; do sleep 0.01; done
		test -e /m/late/mark || echo unseen`)
	cfg.Privileged = true
	cfg.Mounts = []driver.Mount{{HostPath: dir, TaskPath: "/m"}}
	if err := os.Mkdir(dir+"/made", 0o755); err != nil {
		t.Fatal(err)
	}
	r.start(cfg)
	r.awaitOutput(cfg, "mounted")
	if exists(dir + "/made/mark") {
		t.Fatal("the host sees a mount of the task")
	}
	r.mountTmpfs(dir + "/late")
	if err := os.WriteFile(cfg.Dirs.Local+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.wait(cfg)
	r.awaitOutput(cfg, "unseen")
}

// A volume that was bound into a task can be unmounted as soon as the task has ended.
func TestMounts_EndWithTheTask(t *testing.T) {
	r := newFixture(t)
	dir := filepath.Join(r.dir, "vol")
	r.mountTmpfs(dir)
	for range 5 {
		cfg := r.task("t", `cat /m/mark`)
		cfg.Mounts = []driver.Mount{{HostPath: dir, TaskPath: "/m"}}
		r.run(cfg)
		if err := unix.Unmount(dir, 0); err != nil {
			t.Fatal(err)
		}
		if exists(dir + "/mark") {
			t.Fatal("the volume is mounted after its unmount")
		}
		r.mountTmpfs(dir)
	}
}

func TestMounts_ShowADevice(t *testing.T) {
	r := newFixture(t)
	// The device node of /dev/zero, because the task can read from it.
	dev := filepath.Join(r.dir, "dev")
	kit.MakeDevice(t, dev, unix.S_IFCHR|0o600, unix.Mkdev(1, 5))
	cfg := r.task("t",
		`for d in /dev/xvda /local/disk; do head -c 3 $d | wc -c; done; head -c 3 /srv/plain 2>&1 | grep -c denied`)
	cfg.Mounts = []driver.Mount{
		{HostPath: dev, TaskPath: "/dev/xvda", Device: true},
		{HostPath: dev, TaskPath: "/local/disk", Device: true},
		{HostPath: dev, TaskPath: "/srv/plain"}, // without Device, so the task must not open it
	}
	if res, out := r.run(cfg); out != "3\n3\n1\n" {
		t.Fatalf("got the end %+v and the output %q", res, out)
	}
}
