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

const ownSecret = "of-the-agent"

// agentFiles makes the files of an agent in a directory of the host, which tasks see as /host, and returns a
// driver that hides them. One file is a link, and one directory is reached by a link.
func (r *fixture) agentFiles() (host string, hiding *fixture) {
	r.t.Helper()
	host = filepath.Join(r.dir, "host")
	for _, file := range []string{
		"etc/berth/key.pem", "etc/berth/keyring", "etc/berth/tls.hcl", "etc/berth/sub/ca-key.pem",
		"own/agent.hcl", "own/bmc-password", "linked/token", "elsewhere/agent.hcl", "data/alloc/x",
	} {
		r.writeTaskFile(host, file, ownSecret+"\n")
		if err := os.Chmod(filepath.Join(host, file), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	r.writeTaskFile(host, "etc/public", "public\n")
	r.writeTaskFile(host, "links/public", "")
	links := map[string]string{"links/token": "../linked/token", "config": "elsewhere"}
	for link, to := range links {
		if err := os.Symlink(to, filepath.Join(host, link)); err != nil {
			r.t.Fatal(err)
		}
	}
	return host, r.withConfig(func(c *exec.Config) {
		c.ChrootEnv[host] = "/host"
		// One is in another hidden directory, and one is nowhere.
		c.Hidden = append(c.Hidden, host+"/etc/berth/sub/ca-key.pem", "/etc/passwd/none")
		for _, own := range []string{
			"etc/berth", "own/agent.hcl", "links/token", "config", "data", "none/x", "none",
		} {
			c.OwnFiles = append(c.OwnFiles, filepath.Join(host, own))
		}
	})
}

// probe lists and reads all that a task may find of the agent and of the private files of the machine.
const probe = `
	for d in etc/berth own linked links elsewhere config data; do ls -A /host/$d; done
	find /host -type f -exec cat {} +
	cat /etc/shadow /etc/gshadow /etc/shadow- /etc/gshadow- /etc/sudoers 2>/dev/null
	ls -A /etc/ssl/private /etc/ssh /etc/sudoers.d 2>/dev/null | grep -v : | grep .
	echo end`

func TestHidden_NoTaskReadsTheFilesOfTheAgent(t *testing.T) {
	base := newFixture(t)
	_, r := base.agentFiles()
	for i, user := range []string{"", "root", "0:0", "nobody"} {
		cfg := r.task(fmt.Sprint("t", i), probe)
		cfg.User = user
		if res, out := r.run(cfg); out != "public\nend\n" || !res.Successful() {
			t.Errorf("user %q: got the end %+v and the output %q", user, res, out)
		}
	}
}

// The files of the agent that appear or are replaced while a task runs stay hidden, also from a command
// beside the task.
func TestHidden_LaterFilesOfTheAgentToo(t *testing.T) {
	base := newFixture(t)
	host, r := base.agentFiles()
	cfg := r.task("t", "echo up; while ! test -e /local/go; do sleep 0.01; done"+probe+"; exec sleep 1000")
	r.start(cfg)
	r.awaitOutput(cfg, "up")
	for _, file := range []string{"etc/berth/key.pem", "etc/berth/later", "own/agent.hcl", "links/token"} {
		r.writeTaskFile(host, file+".new", ownSecret)
		path := filepath.Join(host, file)
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	r.writeTaskFile(cfg.Dirs.Local, "go", "")
	r.awaitOutput(cfg, "end")
	if out := r.readLog(cfg, "stdout"); out != "up\npublic\nend\n" {
		t.Errorf("the task finds %q", out)
	}
	if _, out, err := r.command(cfg.ID, probe); err != nil || out != "public\nend\n" {
		t.Errorf("a command finds %q, %v", out, err)
	}
}

// The files of the task and of its volumes are in the places of hidden files, which stay hidden.
func TestHidden_TheTasksOwnFilesAreShown(t *testing.T) {
	base := newFixture(t)
	_, r := base.agentFiles()
	cfg := r.task("t", `cat /etc/hostname /etc/berth-files-test/x /host/own/x /host/data/mark
		cat /etc/shadow; ls -A /host/etc/berth /host/own /host/data`)
	for _, file := range []string{"etc/hostname", "etc/berth-files-test/x", "host/own/x"} {
		r.writeTaskFile(cfg.Dirs.Task, file, "task\n")
	}
	data := filepath.Join(r.dir, "volume")
	r.writeTaskFile(data, "mark", "volume\n")
	cfg.Mounts = []driver.Mount{{HostPath: data, TaskPath: "/host/data"}}
	want := "task\ntask\ntask\nvolume\n/host/data:\nmark\n\n/host/etc/berth:\n\n/host/own:\nx\n"
	if res, out := r.run(cfg); out != want || !res.Successful() {
		t.Errorf("got the end %+v and the output %q, want %q", res, out, want)
	}
}

// A task may have a file of its own, from a template, in the place of a private file of the machine.
func TestHidden_ATasksFileReplacesAPrivateOne(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", "cat /etc/shadow; cat /etc/hostname")
	r.writeTaskFile(cfg.Dirs.Task, "etc/shadow", "of the task\n")
	r.writeTaskFile(cfg.Dirs.Task, "etc/hostname", "of the task\n")
	if res, out := r.run(cfg); out != "of the task\nof the task\n" {
		t.Errorf("got the end %+v and the output %q", res, out)
	}
}

// A privileged task, which runs a CSI plugin, is root of the machine. Nothing is hidden from it.
func TestHidden_PrivilegedTasksSeeAll(t *testing.T) {
	base := newFixture(t)
	_, r := base.agentFiles()
	cfg := r.task("t", "cat /host/etc/berth/key.pem")
	cfg.Privileged = true
	if res, out := r.run(cfg); out != ownSecret+"\n" {
		t.Errorf("got the end %+v and the output %q", res, out)
	}
}

// A file of the agent in a directory that tasks need cannot be hidden for good: no task starts, and the
// driver says so.
func TestHidden_NoTaskStartsWhereAFileCannotBeHidden(t *testing.T) {
	base := newFixture(t)
	host, _ := base.agentFiles()
	for name, own := range map[string]string{
		"a file of a shown path":         filepath.Join(host, "agent.hcl"),
		"the shown path itself":          host,
		"a directory above a shown path": base.dir,
		"a directory that tasks need":    "/usr/share",
	} {
		base.writeTaskFile(host, "agent.hcl", "")
		r := base.withConfig(func(c *exec.Config) {
			c.ChrootEnv[host] = "/host"
			c.OwnFiles = []string{own}
		})
		_, err := r.Start(r.ctx(), r.task("t", "true"))
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), own+",") {
			t.Errorf("%s: got %v", name, err)
		}
		info := r.Fingerprint(r.ctx())
		if info.Healthy || !strings.Contains(info.HealthDescription, own+",") {
			t.Errorf("%s: the driver says %+v", name, info)
		}
	}
}

// A task does not start if a hidden path cannot be found.
func TestHidden_NoTaskStartsWhereAPathIsALoop(t *testing.T) {
	base := newFixture(t)
	loop := filepath.Join(base.dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	r := base.withConfig(func(c *exec.Config) { c.Hidden = []string{loop} })
	_, err := r.Start(r.ctx(), r.task("t", "true"))
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "hiding "+loop) {
		t.Errorf("got %v", err)
	}
}

func TestHidden_IsASetting(t *testing.T) {
	base := newFixture(t)
	host, r := base.agentFiles()
	above := r.withConfig(func(c *exec.Config) {
		c.ChrootEnv[host] = "/host"
		c.Hidden = []string{base.dir}
	})
	cfg := above.task("above", "ls -A /host")
	if res, out := above.run(cfg); out != "" {
		t.Errorf("below a hidden directory: got the end %+v and the output %q", res, out)
	}
	for name, hidden := range map[string][]string{"default": nil, "none": {}} {
		r := r.withConfig(func(c *exec.Config) { c.Hidden = hidden })
		cfg := r.task(name, "cat /etc/shadow | wc -c")
		res, out := r.run(cfg)
		if empty := strings.TrimSpace(out) == "0"; empty != (hidden == nil) {
			t.Errorf("%s: got the end %+v and the output %q", name, res, out)
		}
	}
	for _, bad := range []string{"", "etc", "/etc/", "/", "/etc/../x"} {
		c := exec.DefaultConfig()
		c.Hidden = []string{bad}
		if err := c.Validate(); !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	c := exec.DefaultConfig()
	c.Hidden = make([]string, 257)
	err := c.Validate()
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "at most 256") {
		t.Errorf("got %v", err)
	}
}
