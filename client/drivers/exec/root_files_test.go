package exec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/client/drivers/driver"
	"berth/client/drivers/exec"
	"berth/structs"
)

func (r *fixture) writeTaskFile(dir, path, text string) {
	r.t.Helper()
	path = filepath.Join(dir, path)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o755)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// The files that templates and artifacts put beside local are at the same paths of the task's root, among the
// files of the host, which do not change.
func TestFilesOfTheTask_AreInItsRoot(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `
		berth-files-test.sh; /bin/berth-files-test2.sh
		cat /new/deep/x /top /etc/berth-files-test/x /etc/hostname /srv/a/x
		ls /usr/local/bin/berth-files-test.sh && test -x /usr/bin/env && echo kept
		for p in /usr/local/bin/x /new/y /new/deep/x /usr/bin/x; do (: > $p) 2>/dev/null && echo wrote $p; done
		test -e /link || echo no link; test -e /dev/x || echo no device`)
	cfg.User = "nobody"
	for path, text := range map[string]string{
		"usr/local/bin/berth-files-test.sh": "#!/bin/sh\necho in usr\n",
		"bin/berth-files-test2.sh":          "#!/bin/sh\necho in bin\n",
		"new/deep/x":                        "new\n",
		"top":                               "top\n",
		"etc/berth-files-test/x":            "in etc\n",
		"etc/hostname":                      "replaced\n",
		"srv/a/x":                           "in srv\n",
		"dev/x":                             "",
	} {
		r.writeTaskFile(cfg.Dirs.Task, path, text)
	}
	err := os.Symlink("/root", filepath.Join(cfg.Dirs.Task, "link"))
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile("/etc/hostname")
	if err != nil {
		t.Fatal(err)
	}
	want := "in usr\nin bin\nnew\ntop\nin etc\nreplaced\nin srv\n" +
		"/usr/local/bin/berth-files-test.sh\nkept\nno link\nno device\n"
	res, out := r.run(cfg)
	if out != want || !res.Successful() {
		t.Fatalf("got the end %+v and the output %q, want %q", res, out, want)
	}
	after, err := os.ReadFile("/etc/hostname")
	if err != nil || string(after) != string(before) {
		t.Errorf("the host's file changed: %q, %v", after, err)
	}
	for _, path := range []string{
		"/usr/local/bin/berth-files-test.sh", "/usr/bin/berth-files-test2.sh",
		"/etc/berth-files-test", "/new", "/top",
	} {
		if exists(path) {
			t.Errorf("the host has %s", path)
		}
	}
}

// A task starts only if its root can show each of its files.
func TestFilesOfTheTask_ThatItsRootCannotShow(t *testing.T) {
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprintf("etc/berth-files-test-%d", i)
	}
	for _, c := range []struct {
		paths []string
		says  string
	}{
		{[]string{"usr"}, "the file /usr of the task would hide a directory of its root"},
		{[]string{"usr/bin"}, "the file /usr/bin of the task would hide a directory of its root"},
		{[]string{"var/tmp/x"}, "showing the file /var/tmp of the task"},
		{[]string{"var/run/x"}, "the file /var/run/x of the task cannot be shown in /run, which is writable"},
		{many, "the task has more than 1000 files beside local, secrets, tmp and alloc"},
	} {
		r := newFixture(t)
		cfg := r.task("t", "true")
		for _, path := range c.paths {
			r.writeTaskFile(cfg.Dirs.Task, path, "")
		}
		_, err := r.Start(t.Context(), cfg)
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: got %v, want %q", c.paths[0], err, c.says)
		}
	}
}

// A running task sees that a file in a directory is replaced, as a later rendering of a template does. A file
// in no directory is another one after a restart.
func TestFilesOfTheTask_FollowLaterRenderings(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `
		cat /etc/berth-files-test/x /new/x /top
		while ! grep -q second /etc/berth-files-test/x || ! grep -q second /new/x; do sleep 0.01; done
		cat /etc/berth-files-test/x /new/x /top; echo end`)
	replace := func(text string) {
		for _, path := range []string{"etc/berth-files-test/x", "new/x", "top"} {
			r.writeTaskFile(cfg.Dirs.Task, path+".new", text)
			at := filepath.Join(cfg.Dirs.Task, path)
			if err := os.Rename(at+".new", at); err != nil {
				t.Fatal(err)
			}
		}
	}
	replace("first\n")
	r.start(cfg)
	r.awaitOutput(cfg, "first\nfirst\nfirst\n")
	replace("second\n")
	r.awaitOutput(cfg, "second\nsecond\nfirst\nend")
	r.destroy(cfg)
	res, out := r.run(cfg)
	if !strings.HasSuffix(out, "second\nsecond\nsecond\nsecond\nsecond\nsecond\nend\n") || !res.Successful() {
		t.Errorf("after a restart: got the end %+v and the output %q", res, out)
	}
}

// The files of directories one in another are shown beside the files of the host and of the mounts below
// them, all of which stay read-only.
func TestFilesOfTheTask_LeaveTheMountsBelow(t *testing.T) {
	base := newFixture(t)
	host := base.dir + "/host"
	for _, dir := range []string{host + "/a/b/c", host + "/a/mount"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	base.writeTaskFile(host, "a/b/c/kept", "kept\n")
	base.mountTmpfs(host + "/a/mount")
	if err := os.Mkdir(host+"/a/mount/inner", 0o755); err != nil {
		t.Fatal(err)
	}
	base.mountTmpfs(host + "/a/mount/inner")
	for _, privileged := range []bool{false, true} {
		r := base.withConfig(func(c *exec.Config) { c.ChrootEnv[host] = "/host" })
		cfg := r.task(fmt.Sprintf("t%v", privileged), `
			cat /host/one /host/a/two /host/a/b/three /host/a/b/c/four /host/a/b/c/kept /host/a/mount/inner/five
			cat /host/a/mount/mark /host/a/mount/inner/mark; echo
			for d in /host /host/a /host/a/b/c /host/a/mount /host/a/mount/inner /run/berth/files/host/a; do
				(: > $d/x) 2>/dev/null && echo wrote in $d
			done; echo end`)
		cfg.Privileged = privileged
		for path, text := range map[string]string{
			"host/one":                "one\n",
			"host/a/two":              "two\n",
			"host/a/b/three":          "three\n",
			"host/a/b/c/four":         "four\n",
			"host/a/mount/inner/five": "five\n",
		} {
			r.writeTaskFile(cfg.Dirs.Task, path, text)
		}
		res, out := r.run(cfg)
		if out != "one\ntwo\nthree\nfour\nkept\nfive\nhosthost\nend\n" || !res.Successful() {
			t.Errorf("privileged %v: got the end %+v and the output %q", privileged, res, out)
		}
	}
	entries, err := os.ReadDir(host)
	if err != nil || len(entries) != 1 {
		t.Errorf("the host has %v, %v", entries, err)
	}
}

// The device files of the host, which a privileged task may write, get no link through a symbolic link.
func TestFilesOfTheTask_WriteNothingInTheDevicesOfTheHost(t *testing.T) {
	base := newFixture(t)
	host := base.dir + "/host"
	if err := os.Mkdir(host, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev", host+"/devices"); err != nil {
		t.Fatal(err)
	}
	r := base.withConfig(func(c *exec.Config) { c.ChrootEnv[host] = "/host" })
	cfg := r.task("t", "true")
	cfg.Privileged = true
	r.writeTaskFile(cfg.Dirs.Task, "host/devices/berth-files-test", "")
	_, err := r.Start(t.Context(), cfg)
	rejected := structs.IsKind(err, structs.KindPrecondition)
	if !rejected || !strings.Contains(err.Error(), "/dev, which is writable") {
		t.Errorf("got %v", err)
	}
	if exists("/dev/berth-files-test") {
		t.Error("the host has a link in /dev")
		_ = os.Remove("/dev/berth-files-test")
	}
}

// A mount at the path of a file of the task hides it.
func TestFilesOfTheTask_AreBelowTheMountsOfTheJob(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", "cat /etc/hostname /new/x /etc/berth-files-test/in/mark")
	data := r.dir + "/data"
	r.writeTaskFile(data, "mark", "mount\n")
	for _, path := range []string{"etc/hostname", "new/x", "etc/berth-files-test/in/mark"} {
		r.writeTaskFile(cfg.Dirs.Task, path, "task\n")
	}
	cfg.Mounts = []driver.Mount{
		{HostPath: data + "/mark", TaskPath: "/etc/hostname"},
		{HostPath: data + "/mark", TaskPath: "/new/x"},
		{HostPath: data, TaskPath: "/etc/berth-files-test/in"},
	}
	res, out := r.run(cfg)
	if out != "mount\nmount\nmount\n" || !res.Successful() {
		t.Errorf("got the end %+v and the output %q", res, out)
	}
}
