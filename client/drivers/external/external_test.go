package external

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/structs"
)

// eachDriver runs a test with a driver that nobody here wrote, and with one of ours.
func eachDriver(t *testing.T, test func(t *testing.T, f *fixture)) {
	for name, made := range map[string]func(*testing.T) *fixture{"peer": newPeer, "ours": newFixture} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, made(t))
		})
	}
}

func TestDriver_RunsATask(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, f *fixture) {
		a := f.agent()
		cfg := f.task("a1", "echo $GREETING; echo oops >&2; exit 7")
		a.start(cfg)
		result := a.wait(cfg.ID)
		if result.ExitCode != 7 || result.Err != "" {
			t.Errorf("got %+v", result)
		}
		a.destroy(cfg.ID)
		for kind, want := range map[string]string{"stdout": "hello\n", "stderr": "oops\n"} {
			text, err := os.ReadFile(filepath.Join(cfg.Dirs.Logs, "web."+kind+".0"))
			if err != nil || string(text) != want {
				t.Errorf("%s has %q, %v, want %q", kind, text, err, want)
			}
		}
		if _, err := a.Wait(t.Context(), cfg.ID); !structs.IsKind(err, structs.KindNotFound) {
			t.Errorf("a destroyed task: %v", err)
		}
	})
}

// Without a signal, each plugin uses its own: SIGINT, or SIGUSR2.
func TestDriver_StopsATask(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, f *fixture) {
		a := f.agent()
		cfg := f.task("a1", "trap 'exit 3' INT USR2; echo up; while [ -d local ]; do sleep 0.1; done")
		a.start(cfg)
		f.awaitOutput(cfg, "up\n")
		if err := a.Stop(t.Context(), cfg.ID, "", 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if result := a.wait(cfg.ID); !stopped(result) {
			t.Errorf("got %+v", result)
		}
		a.destroy(cfg.ID)
	})
}

// stopped reports whether the script was stopped. The peer's driver closes the connection to its own helper
// at a stop, and may lose the exit code; then it says so. Ours does not know the exit code of a task that it
// took up.
func stopped(r *driver.ExitResult) bool {
	return r.ExitCode == 3 || *r == (driver.ExitResult{}) || strings.Contains(r.Err, "error waiting on process")
}

func TestDriver_ChecksTheConfigurationOfATask(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", "")
	cfg.Config = map[string]any{"scrpt": "x"}
	_, started := a.Start(t.Context(), cfg)
	for name, err := range map[string]error{"Validate": a.Validate(cfg.Config), "Start": started} {
		for _, want := range []string{`"scrpt"`, `"script"`} {
			if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s is not in %v", name, want, err)
			}
		}
	}
	if n := f.plugin.Calls("StartTask"); n != 0 {
		t.Errorf("the plugin got the configuration %d times", n)
	}
}

// Before the start of a task a value with a placeholder may be any string, also the text of a number. Other
// faults of the configuration are known.
func TestDriver_ChecksAConfigurationWithPlaceholders(t *testing.T) {
	t.Parallel()
	a := newFixture(t).agent()
	err := a.Validate(map[string]any{"script": "${meta.program} %{x", "nice": "${meta.nice}"})
	if err != nil {
		t.Errorf("placeholders: %v", err)
	}
	err = a.Validate(map[string]any{"script": "${meta.program}", "scrpt": "x"})
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), `"scrpt"`) {
		t.Errorf("a wrong key beside a placeholder: %v", err)
	}
	if err := New("x", Config{}, hclog.NewNullLogger()).Validate(map[string]any{"scrpt": "x"}); err != nil {
		t.Errorf("without a process: %v", err)
	}
}

// Without a process nothing is known of a task: it is neither started nor gone.
func TestDriver_WithoutAProcessIsUnavailable(t *testing.T) {
	d := New("x", Config{}, hclog.NewNullLogger())
	h := &driver.Handle{TaskID: "a1/web", Version: handleVersion, State: []byte{}}
	_, started := d.Start(t.Context(), &driver.TaskConfig{ID: "a1/web"})
	for name, err := range map[string]error{
		"Start":   started,
		"Recover": d.Recover(t.Context(), h),
		"Destroy": d.Destroy(t.Context(), "a1/web", nil),
	} {
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if info := d.Fingerprint(t.Context()); info.Detected || info.Healthy {
		t.Errorf("the driver is %+v", info)
	}
}

func TestDriver_TasksOutliveTheAgent(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, f *fixture) {
		first := f.agent()
		cfg := f.task("a1", "trap 'echo bye; exit 3' TERM; echo up; while [ -d local ]; do sleep 0.1; done")
		h := first.start(cfg)
		f.awaitOutput(cfg, "up\n")
		process := f.record().Process
		first.stop()
		second := f.agent()
		if again := f.record().Process; again != process {
			t.Errorf("process %v was started beside %v", again, process)
		}
		if err := second.Recover(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if err := second.Stop(t.Context(), cfg.ID, "SIGTERM", 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if result := second.wait(cfg.ID); !stopped(result) {
			t.Errorf("got %+v", result)
		}
		second.destroy(cfg.ID)
		text, err := os.ReadFile(filepath.Join(cfg.Dirs.Logs, "web.stdout.0"))
		if err != nil || string(text) != "up\nbye\n" {
			t.Errorf("got %q, %v", text, err)
		}
	})
}

func TestDriver_TasksOutliveThePlugin(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, f *fixture) {
		a := f.agent()
		cfg := f.task("a1", loops)
		a.start(cfg)
		f.awaitOutput(cfg, "up\n")
		results := a.waiting(cfg.ID)
		old := f.record().Process
		if err := unix.Kill(old.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		a.await("undetected", func(info *structs.DriverInfo) bool {
			return !info.Detected && strings.Contains(info.HealthDescription, "signal: killed")
		})
		a.await("healthy again", func(info *structs.DriverInfo) bool { return info.Healthy })
		if again := f.record().Process; again == old {
			t.Errorf("process %v is recorded, which has ended", old)
		}
		select {
		case result := <-results:
			t.Fatalf("the task ended with its plugin: %+v", result)
		default:
		}
		f.end(cfg)
		if result := <-results; result == nil || result.Err != "" {
			t.Errorf("got %+v", result)
		}
		a.destroy(cfg.ID)
	})
}

func TestDriver_AnotherConfigurationNeedsAnotherProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.agent()
	cfg := f.task("a1", loops)
	h := first.start(cfg)
	process := f.record().Process
	first.stop()
	f.open(map[string]any{"label": "new"})
	second := f.agent()
	if again := f.record().Process; again == process {
		t.Error("the process with the earlier configuration is used")
	}
	if pid, err := unix.Wait4(process.PID, nil, unix.WNOHANG, nil); pid != process.PID {
		t.Errorf("it still runs: %d, %v", pid, err)
	}
	if err := second.Recover(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	second.destroy(cfg.ID)
}
