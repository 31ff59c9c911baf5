package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// binary is the berth under test: $BERTH_BIN, or built once.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Geteuid() != 0 {
		fmt.Println("e2e: these tests mount file systems and start isolated tasks; they need root")
		return 0
	}
	if binary = os.Getenv("BERTH_BIN"); binary == "" {
		dir, err := os.MkdirTemp("", "berth-e2e-bin-")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "berth")
		build := exec.Command("go", "build", "-tags", "hashicorpmetrics", "-o", binary, "berth/cmd/berth")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Printf("building berth: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// agent is one berth process with what it needs to be started again as it was.
type agent struct {
	t    *testing.T
	name string
	dir  string
	http int
	args []string
	cmd  *exec.Cmd
	log  *os.File
}

// freePorts finds ports nobody listens on, so that a restarted agent can have the same ones.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	var held []net.Listener
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, l := range held {
		l.Close()
	}
	return ports
}

// newAgent makes an agent that is server and node, not started yet.
func newAgent(t *testing.T, name string, extra ...string) *agent {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "be2e-")
	if err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t, 3)
	a := &agent{t: t, name: name, dir: dir, http: ports[0]}
	a.args = append([]string{"agent", "-data-dir", filepath.Join(dir, "data"), "-bind", "127.0.0.1", "-name", name,
		"-http-port", strconv.Itoa(ports[0]), "-rpc-port", strconv.Itoa(ports[1]), "-serf-port", strconv.Itoa(ports[2])}, extra...)
	if a.log, err = os.Create(filepath.Join(dir, "agent.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.clean)
	return a
}

// start starts the process and waits until its node is ready.
func (a *agent) start() {
	a.t.Helper()
	a.cmd = exec.Command(binary, a.args...)
	a.cmd.Stdout, a.cmd.Stderr = a.log, a.log
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	eventually(a.t, a.name+" answers", func() error {
		out, err := a.run("node", "status")
		if err == nil && !strings.Contains(out, "ready") {
			err = errors.New("its node is not ready")
		}
		return err
	})
}

// kill ends the process without warning, as a crash does.
func (a *agent) kill() {
	a.t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		a.t.Fatal(err)
	}
	_ = a.cmd.Wait()
	a.cmd = nil
}

// stop ends the process as an operator does.
func (a *agent) stop() {
	if a.cmd == nil {
		return
	}
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	cmd := a.cmd
	go func() { _ = cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		a.t.Errorf("%s did not end within 20 s of SIGTERM", a.name)
		_ = cmd.Process.Kill()
		<-done
	}
	a.cmd = nil
}

// run runs a command of the CLI against this agent.
func (a *agent) run(args ...string) (string, error) {
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "BERTH_ADDR=http://127.0.0.1:"+strconv.Itoa(a.http))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("berth %s: %w: %s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// must runs a command that has to succeed.
func (a *agent) must(args ...string) string {
	a.t.Helper()
	out, err := a.run(args...)
	if err != nil {
		a.t.Fatalf("%v", err)
	}
	return out
}

// decode reads a JSON answer of the CLI.
func decode[T any](t *testing.T, out string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return v
}

// file writes a job or volume file and returns its path.
func (a *agent) file(name, content string) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// clean ends everything of the agent, whatever state the test left it in, and reports what was left over.
func (a *agent) clean() {
	if a.t.Failed() {
		log, _ := os.ReadFile(a.log.Name())
		if len(log) > 12000 {
			log = log[len(log)-12000:]
		}
		a.t.Logf("the log of %s ends:\n%s", a.name, log)
	}
	a.stop()
	a.log.Close()
	for _, pid := range processesOf(a.dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	eventually(a.t, "no process of "+a.dir, func() error {
		if left := processesOf(a.dir); len(left) > 0 {
			return fmt.Errorf("still there: %v", left)
		}
		return nil
	})
	for _, m := range mountsBelow(a.dir) {
		_ = unix.Unmount(m, unix.MNT_DETACH)
	}
	detachLoops(a.dir)
	if err := os.RemoveAll(a.dir); err != nil {
		a.t.Errorf("removing %s: %v", a.dir, err)
	}
}

// processesOf finds the processes whose command line names a path below dir.
func processesOf(dir string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if bytes.Contains(cmdline, []byte(dir)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// mountsBelow lists the mount points below dir, the deepest first.
func mountsBelow(dir string) []string {
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return nil
	}
	var points []string
	for _, i := range infos {
		points = append(points, i.Mountpoint)
	}
	sort.Sort(sort.Reverse(sort.StringSlice(points)))
	return points
}

// loopsBelow lists the loop devices whose file is below dir.
func loopsBelow(dir string) (devices []string) {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range files {
		if backing, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(backing), dir) {
			devices = append(devices, "/dev/"+strings.Split(f, "/")[3])
		}
	}
	return devices
}

func detachLoops(dir string) {
	for _, d := range loopsBelow(dir) {
		_ = exec.Command("losetup", "-d", d).Run()
	}
}

// eventually waits, up to a generous bound, until check has no complaint. It looks again every 50 ms:
// what it waits for happens in other processes.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	err := errors.New("not checked")
	for time.Now().Before(deadline) {
		if err = check(); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("waited in vain: %s: %v", what, err)
}
