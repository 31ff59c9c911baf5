package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/client/drivers/docker/dockertest"
	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/client/machine/netns"
	"berth/structs"
	"berth/test/kit"
)

// patience bounds a test with a real daemon.

const patience = 5 * time.Minute

// node is a node with a real daemon.
type node struct {
	*dockertest.Daemon
	t   *testing.T
	ctx context.Context
	dir string
	cfg taskconfig.Settings
	// pause is the program of pause containers: the test's own may be linked dynamically.
	pause string
}

func newNode(t *testing.T, args ...string) *node {
	t.Helper()
	return nodeOf(t, dockertest.Start(t, args...))
}

func nodeOf(t *testing.T, d *dockertest.Daemon) *node {
	t.Helper()
	n := &node{Daemon: d, t: t}
	dir, err := os.MkdirTemp("", "dn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Helpers are left only by a test that failed.
		dockertest.KillAll(dir, func(program string) bool { return program == kit.PlainProgram() })
		_ = os.RemoveAll(dir)
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	n.ctx = ctx
	n.dir = dir
	n.cfg = taskconfig.DefaultSettings()
	n.cfg.Endpoint = n.Endpoint()
	n.Import("program:1")
	n.pause = staticProgram(t)
	return n
}

// agent is the driver of one life of the agent. It runs until stop.
func (n *node) agent() (d *Driver, stop func()) {
	n.t.Helper()
	d = n.driver()
	return d, n.launch(d)
}

// driver is a driver that does not run.
func (n *node) driver() *Driver {
	n.t.Helper()
	return New(n.cfg, Options{
		Dir:     filepath.Join(n.dir, "driver"),
		Command: []string{kit.PlainProgram(), "executor"},
		Pause:   []string{n.pause, netns.PauseArg},
		NodeID:  "n1",
		Logger:  nullLogger,
	})
}

// launch runs a driver until stop, and waits until it is healthy.
func (n *node) launch(d *Driver) (stop func()) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	healthy := make(chan struct{}, 1)
	go func() {
		defer close(done)
		d.Run(ctx, func(info *structs.DriverInfo) {
			if info.Healthy {
				select {
				case healthy <- struct{}{}:
				default:
				}
			}
		})
	}()
	stop = func() {
		cancel()
		<-done
	}
	n.t.Cleanup(stop)
	select {
	case <-healthy:
	case <-n.ctx.Done():
		n.t.Fatal("the driver does not become healthy")
	}
	return stop
}

// task is a configuration of a container that carries out steps.
func (n *node) task(alloc string, steps ...string) *driver.TaskConfig {
	n.t.Helper()
	root := filepath.Join(n.dir, "allocs", alloc)
	args := []any{}
	for _, s := range steps {
		args = append(args, s)
	}
	cfg := &driver.TaskConfig{
		ID:        alloc + "/web",
		Task:      "web",
		Config:    map[string]any{"image": "program:1", "args": args, "network_mode": "none"},
		Env:       map[string]string{"GREETING": "hello"},
		Resources: structs.Resources{CPU: 100, MemoryMB: 64},
		Dirs: driver.Dirs{
			Task:        filepath.Join(root, "web"),
			AllocShared: filepath.Join(root, "alloc"),
			Local:       filepath.Join(root, "web", "local"),
			Secrets:     filepath.Join(root, "web", "secrets"),
			Logs:        filepath.Join(root, "alloc", "logs"),
		},
		LogConfig: structs.LogConfig{MaxFiles: 5, MaxFileSizeMB: 5},
	}
	for _, dir := range []string{cfg.Dirs.Local, cfg.Dirs.Secrets, cfg.Dirs.Logs} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			n.t.Fatal(err)
		}
	}
	return cfg
}

func (n *node) start(d *Driver, cfg *driver.TaskConfig) *driver.Handle {
	n.t.Helper()
	h, err := d.Start(n.ctx, cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	return h
}

func (n *node) wait(d *Driver, cfg *driver.TaskConfig) *driver.ExitResult {
	n.t.Helper()
	result, err := d.Wait(n.ctx, cfg.ID)
	if err != nil {
		n.t.Fatal(err)
	}
	return result
}

func (n *node) destroy(d *Driver, cfg *driver.TaskConfig) {
	n.t.Helper()
	if err := d.Destroy(n.ctx, cfg.ID, nil); err != nil {
		n.t.Error(err)
	}
}

// run runs a container to its end and returns its output.
func (n *node) run(d *Driver, cfg *driver.TaskConfig) (*driver.ExitResult, string) {
	n.t.Helper()
	n.start(d, cfg)
	result := n.wait(d, cfg)
	n.destroy(d, cfg)
	return result, n.output(cfg, "stdout")
}

func TestDaemon_RunsContainers(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	for name, test := range map[string]func(*testing.T, *node, *Driver){
		"exit":       exits,
		"program":    hasItsProgram,
		"dirs":       hasItsDirs,
		"user":       hasItsUser,
		"secrets":    readsTheFilesOfTheAgent,
		"limits":     hasItsLimits,
		"privileges": hasFewPrivileges,
		"mounts":     hasItsMounts,
		"devices":    hasItsDevices,
		"stop":       stops,
		"stats":      isMeasured,
		"terminal":   hasATerminal,
		"commands":   runsCommands,
		"archive":    comesFromAnArchive,
		"failure":    leavesNothing,
		"plugin":     sharesItsMounts,
		"guard":      isEndedByItsCgroup,
	} {
		t.Run(name, func(t *testing.T) {
			sub := *n
			sub.t = t
			test(t, &sub, d)
		})
	}
}

func exits(t *testing.T, n *node, d *Driver) {
	cfg := n.task("exit", "out:hello", "err:oops", "exit:7")
	result, out := n.run(d, cfg)
	if *result != (driver.ExitResult{ExitCode: 7}) || out != "hello\n" || n.output(cfg, "stderr") != "oops\n" {
		t.Errorf("got %+v, %q, %q", result, out, n.output(cfg, "stderr"))
	}
	result, _ = n.run(d, n.task("exit0"))
	if !result.Successful() {
		t.Errorf("got %+v", result)
	}
}

func hasItsProgram(t *testing.T, n *node, d *Driver) {
	cfg := n.task("program", "env:GREETING", "dir", "args", "cat:/proc/sys/kernel/hostname")
	cfg.Config["work_dir"] = "/etc"
	cfg.Config["hostname"] = "box"
	_, out := n.run(d, cfg)
	if want := "hello\n/etc\n/program env:GREETING dir args cat:/proc/sys/kernel/hostname\nbox\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	cfg = n.task("entry")
	cfg.Config["entrypoint"] = []any{"/program", "out:entry"}
	cfg.Config["command"] = "args"
	if _, out := n.run(d, cfg); out != "entry\n/program out:entry args\n" {
		t.Errorf("with an entry point of its own: %q", out)
	}
}

func hasItsDirs(t *testing.T, n *node, d *Driver) {
	cfg := n.task("dirs", "make:/alloc/a", "make:/local/l", "make:/secrets/s")
	if result, _ := n.run(d, cfg); !result.Successful() {
		t.Fatalf("got %+v: %s", result, n.output(cfg, "stderr"))
	}
	for _, path := range []string{
		filepath.Join(cfg.Dirs.AllocShared, "a"),
		filepath.Join(cfg.Dirs.Local, "l"),
		filepath.Join(cfg.Dirs.Secrets, "s"),
	} {
		if text, err := os.ReadFile(path); err != nil || string(text) != "made" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}

func hasItsUser(t *testing.T, n *node, d *Driver) {
	for user, want := range map[string]string{"web": "1234:4321\n", "7:8": "7:8\n", "": "0:0\n"} {
		cfg := n.task("user"+strings.ReplaceAll(user, ":", "-"), "user", "make:/secrets/s")
		cfg.User = user
		result, out := n.run(d, cfg)
		if out != want || !result.Successful() {
			t.Errorf("user %q: got %q, %+v, %s", user, out, result, n.output(cfg, "stderr"))
		}
	}
	cfg := n.task("nobody")
	cfg.User = "nosuch"
	_, err := d.Start(n.ctx, cfg)
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("an unknown user: %v", err)
	}
}

func hasItsLimits(t *testing.T, n *node, d *Driver) {
	told := false
	for try := 0; try < 5 && !told; try++ { // the daemon may see the end before the kernel's event
		cfg := n.task(fmt.Sprint("memory", try), "eat:200")
		cfg.Resources.MemoryMB = 32
		result, _ := n.run(d, cfg)
		if result.ExitCode != 137 || result.Signal != 9 {
			t.Errorf("without memory: got %+v", result)
		}
		told = result.OOMKilled
	}
	if !told {
		t.Error("the daemon never says that memory ran out")
	}
	cfg := n.task("memory_max", "eat:100")
	cfg.Resources.MemoryMB = 32
	cfg.Resources.MemoryMaxMB = 256
	result, _ := n.run(d, cfg)
	if !result.Successful() {
		t.Errorf("with memory_max: got %+v", result)
	}
}

// hasFewPrivileges compares the capabilities of containers: allow_caps has 13 of the kernel's.
func hasFewPrivileges(t *testing.T, n *node, d *Driver) {
	const usual, withoutKill = "00000000a80405fb", "00000000a80405db"
	_, out := n.run(d, n.task("caps", "status:CapEff"))
	if out != usual+"\n" {
		t.Errorf("by default: got %q", out)
	}
	cfg := n.task("dropped", "status:CapEff")
	cfg.Config["cap_drop"] = []any{"KILL"}
	if _, out := n.run(d, cfg); out != withoutKill+"\n" {
		t.Errorf("without kill: got %q", out)
	}
	cfg = n.task("privileged", "status:CapEff", "status:Seccomp", "tmpfs:/tmp", "cat:/dev/null")
	cfg.Privileged = true
	result, out := n.run(d, cfg)
	if !result.Successful() || !strings.Contains(out, "\n0\n") {
		t.Errorf("privileged: got %+v, %q, %s", result, out, n.output(cfg, "stderr"))
	}
}

func hasItsMounts(t *testing.T, n *node, d *Driver) {
	volume := filepath.Join(n.dir, "volume")
	if err := os.MkdirAll(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := n.task("mounts", "make:/data/x", "make:/local/sub/y", "make:/scratch/z", "list:/sub", "make:/ro/no")
	cfg.Mounts = []driver.Mount{
		{HostPath: volume, TaskPath: "/data"},
		{HostPath: volume, TaskPath: "/ro", ReadOnly: true},
	}
	cfg.Config["volumes"] = []any{"local/sub:/sub"}
	cfg.Config["tmpfs"] = []any{"/scratch:size=64k"}
	result, out := n.run(d, cfg)
	if result.ExitCode != 1 || out != "/sub/y\n" ||
		!strings.Contains(n.output(cfg, "stderr"), "read-only file system") {
		t.Errorf("got %+v, %q, %q", result, out, n.output(cfg, "stderr"))
	}
	if _, err := os.Stat(filepath.Join(volume, "x")); err != nil {
		t.Error(err)
	}
}

func hasItsDevices(t *testing.T, n *node, d *Driver) {
	cfg := n.task("devices", "cat:/dev/mine", "make:/dev/mine")
	cfg.Mounts = []driver.Mount{{HostPath: "/dev/null", TaskPath: "/dev/mine", Device: true}}
	if result, _ := n.run(d, cfg); !result.Successful() {
		t.Errorf("got %+v, %s", result, n.output(cfg, "stderr"))
	}
	// The device rejects each write. Without the permission the open fails before.
	for permissions, want := range map[string]string{"rw": "invalid argument", "r": "operation not permitted"} {
		cfg := n.task("devices-"+permissions, "make:/dev/mine")
		cfg.Mounts = []driver.Mount{{
			HostPath:    "/dev/loop-control",
			TaskPath:    "/dev/mine",
			Device:      true,
			Permissions: permissions,
		}}
		n.run(d, cfg)
		if got := n.output(cfg, "stderr"); !strings.Contains(got, want) {
			t.Errorf("with %s: the container says %q", permissions, got)
		}
	}
}

func stops(t *testing.T, n *node, d *Driver) {
	for steps, c := range map[string]struct {
		timeout time.Duration
		want    driver.ExitResult
	}{
		"trap:3": {patience, driver.ExitResult{ExitCode: 3}},
		"ignore": {time.Second, driver.ExitResult{ExitCode: 137, Signal: 9}},
	} {
		cfg := n.task("stop"+steps[:4], steps)
		n.start(d, cfg)
		n.awaitOutput(cfg, "ready\n")
		if err := d.Stop(n.ctx, cfg.ID, "SIGTERM", c.timeout); err != nil {
			t.Fatal(err)
		}
		if got := n.wait(d, cfg); *got != c.want {
			t.Errorf("%s: got %+v", steps, got)
		}
		n.destroy(d, cfg)
	}
}

func isMeasured(t *testing.T, n *node, d *Driver) {
	cfg := n.task("stats", "eat:20", "ignore")
	n.start(d, cfg)
	n.awaitOutput(cfg, "20\nready\n")
	got, err := d.Stats(n.ctx, cfg.ID)
	if err != nil || got.MemoryRSS < 20<<20 || got.PIDs == 0 || got.CPUTotal == 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	n.destroy(d, cfg)
}

func hasATerminal(t *testing.T, n *node, d *Driver) {
	cfg := n.task("tty", "out:one", "err:two", "count:3 1ms")
	cfg.Config["tty"] = true
	if _, out := n.run(d, cfg); out != "one\r\ntwo\r\n0\r\n1\r\n2\r\n" {
		t.Errorf("got %q", out)
	}
}

func comesFromAnArchive(t *testing.T, n *node, d *Driver) {
	n.Import("archived:1")
	archive := n.Save("archived:1")
	if err := d.engine.RemoveImage(n.ctx, "archived:1"); err != nil {
		t.Fatal(err)
	}
	cfg := n.task("archive", "out:loaded")
	cfg.Config["image"] = "archived:1"
	cfg.Config["load"] = "image.tar"
	err := os.WriteFile(filepath.Join(cfg.Dirs.Local, "image.tar"), archive, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, out := n.run(d, cfg); out != "loaded\n" {
		t.Errorf("got %q", out)
	}
	err = os.WriteFile(filepath.Join(cfg.Dirs.Local, "image.tar"), []byte("garbage"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(n.ctx, cfg); err == nil {
		t.Error("garbage was loaded")
	}
}

// TestDaemon_ReportsAFullDisk loads an archive into a daemon that has no space for it.
func TestDaemon_ReportsAFullDisk(t *testing.T) {
	t.Parallel()
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, 48<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	other := dockertest.Start(t)
	other.ImportFiles("big:1", map[string]string{"/big": big})
	n := nodeOf(t, dockertest.StartSmall(t, 32<<20))
	d, _ := n.agent()
	cfg := n.task("full")
	cfg.Config["image"] = "big:1"
	cfg.Config["load"] = "image.tar"
	err := os.WriteFile(filepath.Join(cfg.Dirs.Local, "image.tar"), other.Save("big:1"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Start(n.ctx, cfg)
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("got %v", err)
	}
	_, err = d.engine.Image(n.ctx, "big:1")
	list, listErr := d.engine.List(n.ctx, labelTask+"="+cfg.ID)
	if !structs.IsKind(err, structs.KindNotFound) || listErr != nil || len(list) != 0 {
		t.Errorf("left are the image: %v; containers: %v, %v", err, list, listErr)
	}
	if result, out := n.run(d, n.task("after", "out:works")); out != "works\n" {
		t.Errorf("after that: %+v, %q", result, out)
	}
}

func leavesNothing(t *testing.T, n *node, d *Driver) {
	for name, change := range map[string]func(*driver.TaskConfig){
		"a program that is not there": func(cfg *driver.TaskConfig) { cfg.Config["entrypoint"] = []any{"/none"} },
		"a network that is not there": func(cfg *driver.TaskConfig) { cfg.Config["network_mode"] = "nosuch" },
		"an image that is not there": func(cfg *driver.TaskConfig) {
			cfg.Config["image"] = "localhost:1/nosuch:1"
		},
	} {
		cfg := n.task("failure")
		change(cfg)
		if _, err := d.Start(n.ctx, cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
		list, err := d.engine.List(n.ctx, labelTask+"="+cfg.ID)
		if err != nil || len(list) != 0 {
			t.Errorf("%s: left are %v, %v", name, list, err)
		}
		processes, err := os.ReadDir(filepath.Join(n.dir, "driver", "output")) // not there before the first task
		if err != nil && !os.IsNotExist(err) || len(processes) != 0 {
			t.Errorf("%s: left are %v, %v", name, processes, err)
		}
	}
}
