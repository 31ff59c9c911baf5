package hostpath

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/moby/sys/mountinfo"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/csi"
	"berth/plugins/hostpath/disk"
	"berth/test/kit"
)

// The test binary is also the driver's process: with driverEnv it runs a driver (and kills itself at the
// point that crashEnv names). With namespaceEnv it has a mount namespace of its own.
const (
	driverEnv = "BERTH_TEST_DRIVER"
	crashEnv  = "BERTH_TEST_CRASH"

	namespaceEnv = "BERTH_TEST_NAMESPACE"
)

func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or each driver takes a second to end under -race
	if cfg := os.Getenv(driverEnv); cfg != "" {
		os.Exit(runDriver(cfg))
	}
	err := enterMountNamespace()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}

// enterMountNamespace replaces the process by itself in a mount namespace of its own. A container that
// another program starts copies the mounts of the host, and keeps the copies until it has its own root: a
// Volume would stay in use after its last unmount here.
func enterMountNamespace() error {
	if os.Getenv(namespaceEnv) != "" || os.Geteuid() != 0 {
		return os.Unsetenv(namespaceEnv)
	}
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), namespaceEnv+"=1"))
}

func runDriver(config string) int {
	var cfg Config
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Debug})
	if at := os.Getenv(crashEnv); at != "" {
		crash = func(point string) {
			if point == at {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := Run(ctx, cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// fixture has a data directory, a socket and directories to stage and publish in. The test removes them at
// its end.
type fixture struct {
	t    *testing.T
	dir  string
	cfg  Config
	cmd  *exec.Cmd
	attr syscall.SysProcAttr // of the driver's process
	end  func()              // ends a driver in this process
	*csi.Client
}

// newFixture prepares a driver. needRoot names the missing privileges.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp("/tmp", "bhp*w") // no name is the beginning of another one
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Endpoint: "unix://" + dir + "/csi.sock",
		NodeID:   "node-a",
		DataDir:  dir + "/data",
	}
	w := &fixture{t: t, dir: dir, cfg: cfg}
	for _, d := range []string{"stage", "targets"} {
		if err := os.Mkdir(w.path(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	before := allLoops(t)
	t.Cleanup(func() { w.clean(before) })
	return w
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it mounts and makes loop devices")
	}
}

func needLoops(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		kit.SkipLacking(t, "loop devices are missing: "+err.Error())
	}
}

func (w *fixture) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

// clean ends the process, removes its leftovers, and fails the test for each of them: a test removes what it
// creates.
func (w *fixture) clean(before []string) {
	w.kill()
	for _, m := range slices.Backward(mountsBelow(w.t, w.dir)) {
		_ = unix.Unmount(m, unix.MNT_DETACH)
		if !w.t.Failed() {
			w.t.Errorf("mount left: %s", m)
		}
	}
	images, _ := filepath.Glob(w.dir + "/data/*/*/image")
	for _, i := range images {
		_ = disk.DetachLoop(i)
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Error(err)
	}
	for _, l := range allLoops(w.t) {
		if !slices.Contains(before, l) && strings.Contains(l, w.dir) {
			w.t.Errorf("loop device left: %s", l)
		}
	}
}

// start runs the driver in a separate process and waits until it is ready.
func (w *fixture) start(env ...string) {
	w.t.Helper()
	w.must("start", w.launch(env...))
}

func (w *fixture) launch(env ...string) error {
	cfg, err := json.Marshal(w.cfg)
	if err != nil {
		return err
	}
	w.cmd = exec.Command(os.Args[0])
	w.cmd.Env = append(append(os.Environ(), driverEnv+"="+string(cfg)), env...)
	attr := w.attr
	attr.Pdeathsig = syscall.SIGKILL
	w.cmd.SysProcAttr = &attr
	log := &testLog{w.t}
	w.cmd.Stdout = log
	w.cmd.Stderr = log
	if err := w.cmd.Start(); err != nil {
		return err
	}
	if err := w.dial(); err != nil {
		return err
	}
	return w.awaitReady()
}

func (w *fixture) dial() (err error) {
	if w.Client != nil {
		return nil
	}
	w.Client, err = csi.Dial(w.cfg.Endpoint, csi.Options{})
	if err != nil {
		return err
	}
	w.t.Cleanup(func() { _ = w.Close() })
	return nil
}

// awaitReady probes until the driver answers that it is ready. A probe fails at once without a socket, so a
// short timer bounds the rate of the loop.
func (w *fixture) awaitReady() error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		ready, err := w.Probe(context.Background())
		if err == nil && ready {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("driver is not ready: %w", err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// startHere runs the driver in this process until endHere or the end of the test. A process of its own costs
// a fifth of a second of computing, so only tests that kill or signal a driver start one.
func (w *fixture) startHere() {
	w.t.Helper()
	cfg := w.cfg
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &testLog{w.t}, Level: hclog.Debug})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	w.end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the driver ended with %v", err)
		}
	})
	w.t.Cleanup(w.end)
	w.must("dial", w.dial())
	w.must("start", w.awaitReady())
}

// endHere ends a driver of startHere, if there is one.
func (w *fixture) endHere() {
	if w.end != nil {
		w.end()
	}
}

// kill kills the process.
func (w *fixture) kill() {
	if w.cmd != nil {
		_ = w.cmd.Process.Kill()
		w.awaitKilled()
	}
}

// awaitKilled waits for the end of a process that was killed.
func (w *fixture) awaitKilled() {
	w.t.Helper()
	err := w.cmd.Wait()
	w.cmd = nil
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		w.t.Errorf("the driver ended by itself: %v", err)
	}
}

// terminate ends the process with SIGTERM.
func (w *fixture) terminate() {
	w.t.Helper()
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("the driver ended with %v", err)
	}
	w.cmd = nil
}

// testLog shows the driver's log when a test fails, and makes each finding of the race detector in it a
// failure.
type testLog struct{ t *testing.T }

func (l *testLog) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("DATA RACE")) {
		l.t.Error("the driver has a data race")
	}
	l.t.Log(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

func mountsBelow(t *testing.T, dir string) (at []string) {
	t.Helper()
	list, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		at = append(at, m.Mountpoint)
	}
	return at
}

// allLoops names each loop device in use with its file.
func allLoops(t *testing.T) (all []string) {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil {
			all = append(all, f+" "+strings.TrimSpace(string(b)))
		}
	}
	return all
}
