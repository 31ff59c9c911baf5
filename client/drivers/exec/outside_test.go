package exec_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/client/drivers/driver"
)

// throughPid1 are links of the first thread of pid 1, which is among the mounts of the host.
var throughPid1 = []string{"/proc/1/root", "/proc/1/task/1/root"}

// toTheHost has links of other threads, too. They may start late and end early.
var toTheHost = append(slices.Clone(throughPid1), "/proc/2/root", "/proc/3/root")

// linked makes a task with the link /local/link.
func (r *fixture) linked(name, script, to string) *driver.TaskConfig {
	r.t.Helper()
	cfg := r.task(name, script)
	if err := os.Symlink(to, cfg.Dirs.Local+"/link"); err != nil {
		r.t.Fatal(err)
	}
	return cfg
}

func (r *fixture) rejects(cfg *driver.TaskConfig) {
	r.t.Helper()
	_, err := r.Start(r.ctx(), cfg)
	if err == nil {
		r.t.Errorf("a task with %v and %v was started: %+v", cfg.Config, cfg.Mounts, r.wait(cfg))
	}
}

// A job names a directory or a program of the host, itself or in a file.
func TestStart_UsesNothingOfTheHost(t *testing.T) {
	r := newFixture(t)
	for i, host := range toTheHost {
		for j, dir := range []string{host, host + r.dir, "/local/link" + r.dir} {
			cfg := r.linked(fmt.Sprint("dir", i, j), "true", host)
			cfg.Config["work_dir"] = dir
			r.rejects(cfg)
		}
		cfg := r.linked(fmt.Sprint("command", i), "true", host)
		cfg.Config["command"] = "/local/link/bin/sh"
		r.rejects(cfg)
		cfg = r.task(fmt.Sprint("script", i), "true")
		script := "#!" + host + "/bin/true\n"
		if err := os.WriteFile(cfg.Dirs.Local+"/script", []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		cfg.Config["command"] = "/local/script"
		r.rejects(cfg)
	}
}

// The error of a start is the same whether or not the host has the file that the job names. Threads that may
// end are left out: whether they are there changes the error.
func TestStart_TellsNothingOfTheHost(t *testing.T) {
	r := newFixture(t)
	files := []string{"/bin/sh", "/etc/passwd", "/usr/bin", "/no/such"}
	for field, edit := range map[string]func(cfg *driver.TaskConfig, path string){
		"command":  func(cfg *driver.TaskConfig, path string) { cfg.Config["command"] = path },
		"work_dir": func(cfg *driver.TaskConfig, path string) { cfg.Config["work_dir"] = path },
		"PATH": func(cfg *driver.TaskConfig, path string) {
			cfg.Config["command"] = filepath.Base(path)
			cfg.Env = map[string]string{"PATH": filepath.Dir(path)}
		},
	} {
		for i, host := range throughPid1 {
			told := map[string]bool{}
			for j, file := range files {
				cfg := r.linked(fmt.Sprint(field, i, j), "true", host)
				edit(cfg, "/local/link"+file)
				_, err := r.Start(r.ctx(), cfg)
				if err == nil {
					t.Fatalf("%s %s: the task was started", field, file)
				}
				told[strings.NewReplacer(
					"/local/link"+file, "FILE",
					"/local/link"+filepath.Dir(file), "DIR",
					strconv.Quote(filepath.Base(file)), "NAME",
				).Replace(err.Error())] = true
			}
			if len(told) != 1 {
				t.Errorf("the errors for %s at %s differ: %q", field, host, slices.Collect(maps.Keys(told)))
			}
		}
	}
}

// A job names a directory of the host by a file that pid 1 has open.
func TestStart_UsesNoOpenDirectory(t *testing.T) {
	r := newFixture(t)
	for fd := range 24 {
		cfg := r.task(fmt.Sprint("fd", fd), "true")
		cfg.Config["work_dir"] = fmt.Sprintf("/proc/self/fd/%d/../../../../..%s", fd, r.dir)
		r.rejects(cfg)
	}
}

// Root in a task replaces its working directory before a command starts there.
func TestExec_UsesNothingOfTheHost(t *testing.T) {
	r := newFixture(t)
	for i, host := range toTheHost {
		cfg := r.linked(fmt.Sprint("t", i), `rmdir /local/dir && ln -s link /local/dir && echo up
			exec sleep 1000`, host)
		if err := os.Mkdir(cfg.Dirs.Local+"/dir", 0o755); err != nil {
			t.Fatal(err)
		}
		cfg.Config["work_dir"] = "/local/dir"
		r.start(cfg)
		r.awaitOutput(cfg, "up")
		if res, out, err := r.command(cfg.ID, "ls -d ."+r.dir); err == nil {
			t.Errorf("%s: a command was started: %+v %s", host, res, out)
		}
	}
}

// A mount of a job is to be made at a path of the host.
func TestMounts_MakeNothingOnTheHost(t *testing.T) {
	r := newFixture(t)
	file := filepath.Join(r.dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for i, host := range toTheHost {
		for j, source := range []string{r.dir, file} {
			cfg := r.linked(fmt.Sprint("t", i, j), "true", host)
			target := "/local/link" + r.dir + "/made/" + filepath.Base(source)
			cfg.Mounts = []driver.Mount{{HostPath: source, TaskPath: target}}
			r.rejects(cfg)
		}
	}
	if exists(r.dir + "/made") {
		t.Error("the start of a task has made a directory of the host")
	}
}

// A job replaces the devices that its supervisor opens for it.
func TestDevices_AreNotOfTheHost(t *testing.T) {
	r := newFixture(t)
	dev := filepath.Join(r.dir, "dev")
	if err := os.Mkdir(dev, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, to := range []string{"/proc/1/root/etc/passwd", "/proc/1/environ", "/proc/1/root/dev/null"} {
		cfg := r.task(fmt.Sprint("null", i), `cat`)
		if err := os.Symlink(to, dev+"/null"); err != nil {
			t.Fatal(err)
		}
		cfg.Mounts = []driver.Mount{{HostPath: dev, TaskPath: "/dev"}}
		r.rejects(cfg)
		if err := os.Remove(dev + "/null"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/proc/1/root/dev/pts/ptmx", dev+"/ptmx"); err != nil {
		t.Fatal(err)
	}
	cfg := r.task("terminal", `echo up; exec sleep 1000`)
	cfg.Mounts = []driver.Mount{{HostPath: dev, TaskPath: "/dev/pts"}}
	r.start(cfg)
	r.awaitOutput(cfg, "up")
	u := r.terminal(r.ctx(), cfg.ID, "true")
	if err := <-u.ended; err == nil {
		t.Errorf("a command has a terminal of the host: %+v", u.exit)
	}
}
