package dockertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"berth/client/drivers/docker/engine"
	"berth/test/kit"
)

// Daemon is a real docker daemon with its own directories. It has no registry, and a bridge only if a test
// asks for it. Its containers are children of a containerd beside it, as on a machine where both are
// services.
type Daemon struct {
	t   testing.TB
	dir string
	// Settings beside Run's, for each start of the daemon.
	args []string
	// It is open in both processes, and shown if the test fails.
	log        *os.File
	containerd *exec.Cmd
	cmd        *exec.Cmd // nil: the daemon does not run
	namespace  *os.File  // the network namespace of StartBridged, otherwise nil
}

// startTimeout bounds the start of a daemon, which starts another one for itself, and the removal of its
// containers.
const startTimeout = 3 * time.Minute

// Start starts a daemon until the end of the test. It skips the test without root or without a daemon.
func Start(t testing.TB, args ...string) *Daemon {
	t.Helper()
	d := prepare(t, args)
	d.runContainerd()
	d.Run()
	return d
}

// StartSmall starts a daemon whose data has a file system of that many bytes.
func StartSmall(t testing.TB, size int) *Daemon {
	t.Helper()
	d := prepare(t, nil)
	err := os.Mkdir(d.path("data"), 0o700)
	if err == nil {
		err = unix.Mount("small", d.path("data"), "tmpfs", 0, fmt.Sprintf("size=%d", size))
	}
	if err != nil {
		t.Fatal(err)
	}

	d.runContainerd()
	d.Run()
	return d
}

// prepare makes the directory of a daemon.
func prepare(t testing.TB, args []string) *Daemon {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a docker daemon makes namespaces and mounts")
	}

	if _, err := exec.LookPath("dockerd"); err != nil {
		kit.SkipLacking(t, "no docker daemon: install Debian's docker.io, as `make setup-all` does")
	}

	dir, err := os.MkdirTemp("/tmp", "dd") // short, for the sockets in it, and not below /dev
	if err != nil {
		t.Fatal(err)
	}

	d := &Daemon{t: t, dir: dir, args: args}
	t.Cleanup(d.remove)
	d.log, err = os.Create(d.path("log"))
	if err != nil {
		t.Fatal(err)
	}

	return d
}

// containerdConfig has only what containers need.
const containerdConfig = `version = 2
disabled_plugins = ["io.containerd.grpc.v1.cri"]
`

// runContainerd starts containerd. The daemon would start one of its own, which would end with it.
func (d *Daemon) runContainerd() {
	d.t.Helper()
	config := d.path("containerd.toml")
	err := os.WriteFile(config, []byte(containerdConfig), 0o600)
	if err != nil {
		d.t.Fatal(err)
	}

	d.containerd = d.command("containerd", "--config", config, "--address", d.path("containerd.sock"),
		"--root", d.path("root"), "--state", d.path("state"))
	err = d.containerd.Start()
	if err != nil {
		d.t.Fatal(err)
	}
}

// command makes a command whose output is in the log.
func (d *Daemon) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Stdout = d.log
	cmd.Stderr = d.log

	// In a session of its own it gets no signals of the terminal: a test that is interrupted still needs it
	// to remove the containers.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

func (d *Daemon) path(name string) string { return filepath.Join(d.dir, name) }

// Dir is the directory with all files of the daemon. Its processes name it, and its cgroup has its name.
func (d *Daemon) Dir() string { return d.dir }

// Endpoint is the daemon's address.
func (d *Daemon) Endpoint() string { return "unix://" + d.path("docker.sock") }

// Run starts the daemon again after Stop or Kill, and waits until it answers.
func (d *Daemon) Run() {
	d.t.Helper()
	args := append([]string{
		"--data-root", d.path("data"),
		"--exec-root", d.path("exec"),
		"--pidfile", d.path("pid"),
		"--host", d.Endpoint(),
		"--storage-driver", "vfs", // the others do not work everywhere, and the images of tests are small
		// The machine's network stays as it is. A test that needs a bridge has a namespace of its own.
		"--bridge", "none",
		"--iptables=false",
		"--ip6tables=false",
		"--exec-opt", "native.cgroupdriver=cgroupfs",
		// All containers are below this cgroup, by which a test finds their processes.
		"--cgroup-parent", "/" + filepath.Base(d.dir),
		"--config-file", d.path("none.json"),
		"--containerd", d.path("containerd.sock"),
	}, d.args...)

	// Without a file of its own, the daemon would read the machine's.
	err := os.WriteFile(d.path("none.json"), []byte("{}"), 0o600)
	if err != nil {
		d.t.Fatal(err)
	}

	d.cmd = d.command("dockerd", args...)
	err = d.Inside(d.cmd.Start)
	if err != nil {
		d.t.Fatal(err)
	}

	// The daemon makes its socket late, and answers even later.
	e := engine.New(d.Endpoint())
	for limit := time.Now().Add(startTimeout); ; time.Sleep(20 * time.Millisecond) {
		_, err := e.Info(context.Background())
		if err == nil {
			return
		}

		if time.Now().After(limit) {
			text, _ := os.ReadFile(d.log.Name())
			d.t.Fatalf("the docker daemon does not answer: %v; its log ends with\n%s", err, tail(text))
		}
	}
}

// tail returns the end of a log. A failed test shows it.
func tail(text []byte) []byte { return text[max(0, len(text)-4096):] }

// Stop ends the daemon as an operator does.
func (d *Daemon) Stop() { d.end(syscall.SIGTERM) }

// Kill ends the daemon without warning. Its containers run on.
func (d *Daemon) Kill() { d.end(syscall.SIGKILL) }

// end ends the daemon and waits for it. A daemon that has ended is no error.
func (d *Daemon) end(signal syscall.Signal) {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(signal)
	_ = d.cmd.Wait()
	d.cmd = nil
}

// remove removes all that the daemon made: containers, processes, mounts, cgroups and files.
// The order follows dependence: a shim keeps mounts, and a mount keeps its directory.
func (d *Daemon) remove() {
	e := engine.New(d.Endpoint())
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if d.cmd != nil {
		d.removeContainers(ctx, e)
	}

	d.Stop()
	if d.containerd != nil {
		_ = d.containerd.Process.Signal(syscall.SIGTERM)
		_ = d.containerd.Wait()
	}

	// A containerd that ends leaves the shims running.
	d.killLeft()
	for range 5 { // a mount may be below another one
		mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(d.dir))
		if err != nil || len(mounts) == 0 {
			break
		}

		for _, m := range slices.Backward(mounts) {
			_ = unix.Unmount(m.Mountpoint, unix.MNT_DETACH)
		}
	}

	d.removeCgroups()
	if d.t.Failed() {
		text, _ := os.ReadFile(d.log.Name())
		d.t.Logf("the log of the docker daemon ends with\n%s", tail(text))
	}

	_ = d.log.Close()
	err := os.RemoveAll(d.dir)
	if err != nil {
		d.t.Error(err)
	}
}

// removeContainers removes the containers that the test has left.
func (d *Daemon) removeContainers(ctx context.Context, e *engine.Engine) {
	api, err := client.New(client.WithHost(d.Endpoint()))
	if err != nil {
		d.t.Error(err)
		return
	}
	defer api.Close()
	list, err := api.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		d.t.Error(err)
	}

	for _, c := range list.Items {
		if err := e.Remove(ctx, c.ID); err != nil {
			d.t.Error(err)
		}
	}
}

// killLeft kills the shims of containers that were not removed: they name the daemon's directory.
func (d *Daemon) killLeft() {
	KillAll(d.dir, func(program string) bool {
		return strings.HasPrefix(filepath.Base(program), "containerd-shim")
	})
}

// KillAll kills the processes that name a directory of a test in their arguments, and whose program is
// chosen.
func KillAll(dir string, chosen func(program string) bool) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		// The arguments of the test process have the directory, too, if it was given there.
		if err != nil || pid == os.Getpid() {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		program, _, _ := bytes.Cut(text, []byte{0})
		if err == nil && bytes.Contains(text, []byte(dir)) && chosen(string(program)) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Processes lists the processes of all containers: they are in the cgroups of the daemon.
func (d *Daemon) Processes() []int {
	var pids []int
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range entries {
		text, err := os.ReadFile(filepath.Join(path, "cgroup"))
		pid, convErr := strconv.Atoi(filepath.Base(path))
		// The slashes keep a name apart from one that begins with it.
		if err == nil && convErr == nil && bytes.Contains(text, []byte("/"+filepath.Base(d.dir)+"/")) {
			pids = append(pids, pid)
		}
	}

	slices.Sort(pids)
	return pids
}

// Output is the standard output of a container, as the daemon has it in its log.
func (d *Daemon) Output(container string) string {
	d.t.Helper()
	c, err := engine.New(d.Endpoint()).Inspect(d.t.Context(), container)
	if err != nil {
		d.t.Fatal(err)
	}

	file, err := os.Open(c.LogPath)
	if err != nil {
		d.t.Fatal(err)
	}
	defer file.Close()

	var all strings.Builder
	// The log is a sequence of JSON objects.
	for dec := json.NewDecoder(file); ; {
		var m struct{ Log, Stream string }
		err := dec.Decode(&m)
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			d.t.Fatal(err)
		}

		if m.Stream == "stdout" {
			all.WriteString(m.Log)
		}
	}
}

// removeCgroups removes the cgroups of the daemon in every hierarchy, with the processes of containers that
// were not removed.
func (d *Daemon) removeCgroups() {
	name := filepath.Base(d.dir)
	dirs, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
	more, _ := filepath.Glob("/sys/fs/cgroup/" + name)
	for _, dir := range append(dirs, more...) {
		// A cgroup with others in it cannot be removed, so the cgroups of containers are first.
		inner, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
		for _, path := range append(inner, filepath.Join(dir, "cgroup.procs")) {
			text, _ := os.ReadFile(path)
			for _, pid := range strings.Fields(string(text)) {
				// A process of another PID namespace is listed as 0, which would be the group of this
				// process.
				n, err := strconv.Atoi(pid)
				if err == nil && n > 1 {
					_ = syscall.Kill(n, syscall.SIGKILL)
				}
			}
			removeCgroup(filepath.Dir(path))
		}
	}
}

// removeCgroup waits for the end of killed processes.
func removeCgroup(dir string) {
	for range 100 {
		err := syscall.Rmdir(dir)
		if !errors.Is(err, unix.EBUSY) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
