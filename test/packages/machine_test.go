package packages

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds the repetitions of a command that comes too early, and the start of an agent.
const patience = 2 * time.Minute

// asMachine is the first argument of this binary as the first process of a machine.
const asMachine = "machine"

// runMachine is the first process of a machine. Its argument is the directory of the test, which the machine
// has at /mnt.
func runMachine(dir string) error {
	layer := filepath.Join(dir, "layer")
	root := filepath.Join(layer, "root")
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		os.Mkdir(layer, 0o755),
		unix.Mount("tmpfs", layer, "tmpfs", 0, ""), // not every file system takes the layer of another one
		os.Mkdir(layer+"/upper", 0o755),
		os.Mkdir(layer+"/work", 0o755),
		os.Mkdir(root, 0o755),
		unix.Mount("overlay", root, "overlay", 0,
			"lowerdir=/,upperdir="+layer+"/upper,workdir="+layer+"/work"),
		unix.Mount("/dev", root+"/dev", "", unix.MS_BIND|unix.MS_REC, ""),
		unix.Mount("/sys", root+"/sys", "", unix.MS_BIND|unix.MS_REC, ""),
		unix.Mount("proc", root+"/proc", "proc", 0, ""),
		unix.Mount("tmpfs", root+"/run", "tmpfs", 0, "mode=755"),
		unix.Mount("tmpfs", root+"/tmp", "tmpfs", 0, "mode=1777"),
		unix.Mount(dir, root+"/mnt", "", unix.MS_BIND, ""),
		os.Mkdir(root+"/run/former", 0o755),
		unix.PivotRoot(root, root+"/run/former"),
		os.Chdir("/"),
		unix.Unmount("/run/former", unix.MNT_DETACH),
		os.RemoveAll("/etc/berth"),
		os.RemoveAll("/var/lib/berth"),
		exec.Command("ip", "link", "set", "lo", "up").Run(),
	)
	if err != nil {
		return err
	}
	_, err = os.Stdout.WriteString("ready\n")
	if err != nil {
		return err
	}
	for { // the first process reaps those whose parents have ended
		_, err := unix.Wait4(-1, nil, 0, nil)
		if errors.Is(err, unix.ECHILD) {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// machine is a machine of a test.
type machine struct {
	t       *testing.T
	dir     string // its /mnt
	pid     string
	manager *net.UnixConn // hears the states of the agent
	agent   *exec.Cmd     // nil: no agent runs
}

// newMachine starts a machine. It ends with the test, with all its processes and mounts.
func newMachine(t *testing.T, dir string) *machine {
	t.Helper()
	runtime.LockOSThread() // the death signal is bound to it
	t.Cleanup(runtime.UnlockOSThread)
	cmd := exec.Command("/proc/self/exe", asMachine, dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUTS,
		Pdeathsig: unix.SIGKILL,
	}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it never ends by itself
		_ = cmd.Wait()         // the error is that of the kill
	})
	said := make([]byte, 4096)
	n, err := out.Read(said)
	if err != nil || string(said[:n]) != "ready\n" {
		t.Fatalf("the machine does not start: %s %v", said[:n], err)
	}

	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { _ = manager.Close() })
	return &machine{
		t:       t,
		dir:     dir,
		pid:     strconv.Itoa(cmd.Process.Pid),
		manager: manager,
	}
}

// command returns a command line of a shell on the machine, as root after a login.
func (m *machine) command(line string) *exec.Cmd {
	cmd := exec.Command("nsenter", "-t", m.pid, "-m", "-u", "-i", "-n", "-p", "-r", "-w", "sh", "-ec", line)
	cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"LC_ALL=C",
		"DEBIAN_FRONTEND=noninteractive",
	}
	return cmd
}

// must runs a command line that succeeds, and returns its output.
func (m *machine) must(line string) string {
	m.t.Helper()
	out, err := m.command(line).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v: %s\n%s", line, err, out, m.log())
	}
	return string(out)
}

// mustFail runs a command line that fails, and returns its output.
func (m *machine) mustFail(line string) string {
	m.t.Helper()
	out, err := m.command(line).CombinedOutput()
	if err == nil {
		m.t.Fatalf("%s: succeeds: %s", line, out)
	}
	return string(out)
}

// await runs a command line until it succeeds.
func (m *machine) await(line string) string {
	m.t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		out, err := m.command(line).CombinedOutput()
		if err == nil {
			return string(out)
		}
		if time.Now().After(limit) {
			m.t.Fatalf("%s: not within %s: %v: %s\n%s", line, patience, err, out, m.log())
		}
	}
}

// start starts the agent as the unit of the package does, and waits until it says that it is ready.
func (m *machine) start() {
	m.t.Helper()
	log, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(m.t, err)
	defer func() { _ = log.Close() }() // the agent has its own
	m.agent = m.command(`
		. /etc/default/berth
		line=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/berth.service)
		export NOTIFY_SOCKET=/mnt/notify
		eval exec "$line"`)
	m.agent.Stdout = log
	m.agent.Stderr = log
	must(m.t, m.agent.Start())
	m.hear("READY=1")
}

// hear waits for a state of the agent.
func (m *machine) hear(want string) {
	m.t.Helper()
	must(m.t, m.manager.SetReadDeadline(time.Now().Add(patience)))
	got := make([]byte, 64)
	n, err := m.manager.Read(got)
	if err != nil || string(got[:n]) != want {
		m.t.Fatalf("the agent says %q, %v; want %q\n%s", got[:n], err, want, m.log())
	}
}

// stop ends the agent as systemd does, and waits for its end.
func (m *machine) stop() {
	m.t.Helper()
	m.must("kill -TERM $(pgrep -f '^/usr/bin/berth agent')")
	m.hear("STOPPING=1")
	err := m.agent.Wait()
	if err != nil {
		m.t.Fatalf("the agent ends with %v\n%s", err, m.log())
	}
	m.agent = nil
}

// log returns the end of the log of the agents.
func (m *machine) log() string {
	const most = 8000
	text, err := os.ReadFile(filepath.Join(m.dir, "log"))
	if err != nil {
		return "" // no agent has started
	}
	return fmt.Sprintf("the agent: %s", text[max(0, len(text)-most):])
}

// removeCgroups removes the cgroups below a parent that tasks have left which were killed.
func removeCgroups(t *testing.T, parent string) {
	for limit := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		var left []string
		for _, pattern := range []string{"/*", ""} { // first the tasks, then their parent
			for _, root := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} { // v2 and v1
				found, _ := filepath.Glob(root + parent + pattern) // the pattern is valid
				for _, path := range found {
					info, err := os.Stat(path)
					if err == nil && info.IsDir() && unix.Rmdir(path) != nil {
						left = append(left, path)
					}
				}
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Errorf("these cgroups are busy: %s", strings.Join(left, " "))
			return
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
