package manager

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/client/drivers/docker"
	"berth/client/drivers/driver"
	"berth/client/drivers/drivertest"
	"berth/client/drivers/exec"
	"berth/client/drivers/executor"
	"berth/client/drivers/rawexec"
	"berth/structs"
	"berth/test/kit"
)

func TestMain(m *testing.M) {
	// The driver exec tries a sandbox with the executable of its process.
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:]))
	}
	if drivertest.PluginMain() {
		return
	}
	goleak.VerifyTestMain(m)
}

// fakeDriver answers fingerprints; its other methods are not called.
type fakeDriver struct {
	driver.Driver
	name   string
	answer atomic.Pointer[structs.DriverInfo]
	stuck  bool
}

func (f *fakeDriver) Name() string { return f.name }

func (f *fakeDriver) Fingerprint(ctx context.Context) *structs.DriverInfo {
	if f.stuck {
		<-ctx.Done()
	}
	info := *f.answer.Load()
	info.UpdateTime = time.Now()
	return &info
}

func newFakeDriver(name string) *fakeDriver {
	f := &fakeDriver{name: name}
	f.answer.Store(&structs.DriverInfo{Detected: true, Healthy: true})
	return f
}

// startManager runs a manager until the test's bubble is over.
func startManager(t *testing.T, ds ...driver.Driver) *Manager {
	m := newManager(ds, hclog.NewNullLogger())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return m
}

func hasChanged(m *Manager) bool {
	synctest.Wait()
	select {
	case <-m.Changes():
		return true
	default:
		return false
	}
}

func TestChanges_AreSignalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFakeDriver("a"), newFakeDriver("b")
		m := startManager(t, a, b)
		if err := m.WaitFirst(t.Context()); err != nil {
			t.Fatal(err)
		}
		infos := m.Infos()
		if len(infos) != 2 || !infos["a"].Healthy || !hasChanged(m) {
			t.Fatalf("known are %v", infos)
		}
		time.Sleep(fingerprintInterval + time.Second)
		if hasChanged(m) {
			t.Fatal("a fingerprint that differs only in its time counts as a change")
		}
		b.answer.Store(&structs.DriverInfo{HealthDescription: "broken"})
		time.Sleep(fingerprintInterval)
		if !hasChanged(m) || m.Infos()["b"].HealthDescription != "broken" ||
			!m.Infos()["a"].Healthy {
			t.Fatalf("known are %v", m.Infos())
		}
	})
}

// guardedDriver makes the cgroups of its tasks itself, and knows them before their start or not.
type guardedDriver struct {
	*fakeDriver
	fault error
}

func (g guardedDriver) Guardable() error { return g.fault }

// The scheduler places no allocation with a volume under the policy "lease" where its node would reject it.
func TestInfos_TellWhichTasksNoGuardEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := newFakeDriver("broken")
		broken.answer.Store(&structs.DriverInfo{HealthDescription: "broken"})
		m := startManager(t, newFakeDriver("podman"), broken,
			guardedDriver{newFakeDriver("good"), nil},
			guardedDriver{newFakeDriver("faulty"), structs.Preconditionf("cgroup v1")},
			guardedDriver{newFakeDriver("late"), structs.Unavailablef("no answer yet")})
		if err := m.WaitFirst(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"podman": "this node does not find all processes of its tasks by a cgroup",
			"faulty": "cgroup v1",
			"good":   "",
			"late":   "",
			"broken": "",
		} {
			got := m.Infos()[name].Attributes[structs.AttrUnguarded(name)]
			if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
}

func TestWaitFirst_NamesLateDrivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newFakeDriver("slow")
		slow.stuck = true
		m := startManager(t, newFakeDriver("quick"), slow)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := m.WaitFirst(ctx)
		if err == nil || !strings.Contains(err.Error(), "slow") ||
			strings.Contains(err.Error(), "quick") {
			t.Fatalf("waiting ended with %v", err)
		}
		if err := m.WaitFirst(t.Context()); err != nil { // its patience ends
			t.Fatal(err)
		}
	})
}

func TestDriver_IsFoundByName(t *testing.T) {
	m, err := New(Config{}, Options{Dir: t.TempDir(), Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{exec.Name, rawexec.Name, docker.Name} {
		if d, err := m.Driver(name); err != nil || d.Name() != name {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
	if _, err := m.Driver("podman"); !structs.IsKind(err, structs.KindInvalid) ||
		!strings.Contains(err.Error(), "exec, raw_exec") {
		t.Errorf("an unknown driver: %v", err)
	}
}

func TestAllows_KnowsBothLists(t *testing.T) {
	for _, c := range []struct {
		allowed, denied []string
		want            bool
	}{
		{nil, nil, true},
		{[]string{"exec"}, nil, true},
		{[]string{"docker"}, nil, false},
		{nil, []string{"exec"}, false},
		{nil, []string{"docker"}, true},
		{[]string{"exec"}, []string{"exec"}, false},
	} {
		cfg := Config{Allowed: c.allowed, Denied: c.denied}
		if got := cfg.Allows("exec"); got != c.want {
			t.Errorf("allowed %q, denied %q: got %t", c.allowed, c.denied, got)
		}
	}
}

// The tasks of a driver that is denied since a restart of the agent are not forgotten.
func TestDriver_ThatIsDeniedStartsNothing(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Denied = []string{exec.Name}
	m, err := New(cfg, Options{Dir: t.TempDir(), Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	if names := m.names(); slices.Contains(names, exec.Name) || !slices.Contains(names, rawexec.Name) {
		t.Errorf("the drivers of the node are %q", names)
	}
	d, err := m.Driver(exec.Name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Start(t.Context(), &driver.TaskConfig{})
	if !structs.IsKind(err, structs.KindDenied) || !structs.IsKind(d.Validate(nil), structs.KindDenied) {
		t.Errorf("got %v", err)
	}
	err = d.Recover(t.Context(), &driver.Handle{TaskID: "a1/web"})
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("it does not look for its tasks: %v", err)
	}
}

// stuckReporter is an external driver that never reports, and takes a while to end.
type stuckReporter struct {
	driver.Driver
	ended chan struct{}
}

func (*stuckReporter) Name() string { return "stuck" }

func (s *stuckReporter) Run(ctx context.Context, _ func(*structs.DriverInfo)) {
	<-ctx.Done()
	time.Sleep(time.Minute)
	close(s.ended)
}

func TestRun_ADriverThatNeverReportsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := &stuckReporter{ended: make(chan struct{})}
		m := newManager([]driver.Driver{stuck, newFakeDriver("quick")}, hclog.NewNullLogger())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.Run(ctx)
		}()
		if !hasChanged(m) || !m.Infos()["quick"].Healthy {
			t.Errorf("known are %v", m.Infos())
		}
		waiting, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		err := m.WaitFirst(waiting)
		if err == nil || !strings.Contains(err.Error(), "not fingerprinted yet: stuck:") {
			t.Errorf("waiting for the first fingerprints ended with %v", err)
		}
		cancel()
		<-done
		select {
		case <-stuck.ended:
		default:
			t.Error("Run returned before a driver had ended")
		}
	})
}

func TestManager_FingerprintsTheRealDrivers(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: the exec driver makes control groups and namespaces")
	}
	m, err := New(Config{}, Options{Dir: t.TempDir(), Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	defer func() { cancel(); <-done }()
	if err := m.WaitFirst(ctx); err != nil {
		t.Fatal(err)
	}
	infos := m.Infos()
	if !infos["exec"].Healthy || infos["raw_exec"].Detected {
		t.Errorf("exec %+v, raw_exec %+v", infos["exec"], infos["raw_exec"])
	}
}

func TestConfig_IsValidated(t *testing.T) {
	for _, good := range []Config{DefaultConfig(), {}} {
		if err := good.Validate(); err != nil {
			t.Error(err)
		}
	}
	bad := Config{
		Exec: exec.Config{
			ChrootEnv: map[string]string{"bin": "/bin", "/usr": "/tmp"},
			MaxFiles:  1,
			Seccomp:   "off",
		},
		RawExec: rawexec.Config{CgroupConfig: executor.CgroupConfig{CgroupParent: "../x"}},
	}
	bad.Exec.CgroupConfig = executor.CgroupConfig{CgroupParent: "/x", PIDsLimit: 7}
	err := bad.Validate()
	for _, want := range []string{`exec.chroot_env: "bin"`, `exec.chroot_env["/usr"]: "/tmp"`,
		"exec.cgroup_parent", "exec.max_open_files", "exec.pids_limit: 7", `exec.seccomp: "off"`,
		"raw_exec.cgroup_parent"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named: %v", want, err)
		}
	}
	_, err = New(bad, Options{Dir: t.TempDir(), Logger: hclog.NewNullLogger()})
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("a bad config was accepted: %v", err)
	}
}
