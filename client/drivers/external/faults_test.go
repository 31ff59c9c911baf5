package external

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/client/drivers/driver"
	"berth/client/drivers/drivertest"
	"berth/structs"
)

// helpers are the processes that keep logs.
func (f *fixture) helpers() []string {
	var names []string
	entries, _ := os.ReadDir(filepath.Join(f.dir, "tasks"))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// expiring is a context whose deadline comes when it is cancelled.
type expiring struct{ context.Context }

func (e expiring) Err() error {
	if e.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

func TestStart_OfAFaultyPluginFailsAndLeavesNothing(t *testing.T) {
	shorten(t)
	for fault, want := range map[string]structs.Kind{
		drivertest.Hang:    structs.KindTimeout,
		drivertest.Exit:    structs.KindUnavailable,
		drivertest.Huge:    structs.KindUnavailable,
		drivertest.Garbage: structs.KindUnavailable,
		drivertest.Fail:    structs.KindInternal,
		drivertest.Retry:   structs.KindUnavailable,
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			a := f.agent()
			cfg := f.task("a1", "exit 7")
			f.plugin.Set("StartTask", fault)
			ctx, expire := context.WithCancel(t.Context())
			defer expire()
			if fault == drivertest.Hang {
				go func() {
					f.plugin.Await("StartTask", 1)
					expire()
				}()
			}
			_, err := a.Start(expiring{ctx}, cfg)
			if !structs.IsKind(err, want) {
				t.Errorf("got %v, want an error of kind %s", err, want)
			}
			f.plugin.Set("StartTask", "")
			f.until("nothing is left", func() bool { return a.Destroy(t.Context(), cfg.ID, nil) == nil })
			if left := f.helpers(); len(left) != 0 {
				t.Errorf("helpers are left: %v", left)
			}
			f.until("the task starts", func() bool {
				_, err = a.Start(t.Context(), cfg)
				return err == nil
			})
			if result := a.wait(cfg.ID); result.ExitCode != 7 {
				t.Errorf("got %+v", result)
			}
			a.destroy(cfg.ID)
		})
	}
}

// A plugin that hangs in a call delays its caller by the bound of the call, and no other call.
func TestCalls_OfAPluginThatHangsHaveABound(t *testing.T) {
	shorten(t)
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", loops)
	h := a.start(cfg)
	ctx := t.Context()
	lost := &driver.Handle{
		Driver:  f.name,
		TaskID:  "a2/web",
		Version: handleVersion,
		State:   h.State,
	}
	calls := map[string]func() error{
		"RecoverTask": func() error { return a.Recover(ctx, lost) },
		"StopTask":    func() error { return a.Stop(ctx, cfg.ID, "", 100*time.Millisecond) },
		"SignalTask":  func() error { return a.Signal(ctx, cfg.ID, "SIGHUP") },
		"DestroyTask": func() error { return a.Destroy(ctx, cfg.ID, nil) },
		"TaskStats": func() error {
			_, err := a.Stats(ctx, cfg.ID)
			return err
		},
	}
	for method := range calls {
		f.plugin.Set(method, drivertest.Hang)
	}
	began := time.Now()
	var all sync.WaitGroup
	for method, call := range calls {
		all.Go(func() {
			err := call()
			if !structs.IsKind(err, structs.KindTimeout) {
				t.Errorf("%s: got %v after %s", method, err, time.Since(began))
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > time.Duration(len(calls)-1)*callTimeout {
		t.Errorf("the calls waited for each other: %s", took)
	}
	for method := range calls {
		f.plugin.Set(method, "")
	}
	results := a.waiting(cfg.ID)
	f.end(cfg)
	if result := <-results; result == nil || result.ExitCode != 0 {
		t.Errorf("got %+v", result)
	}
	a.destroy(cfg.ID)
}

func TestRun_EndsWhateverHangs(t *testing.T) {
	t.Parallel()
	for _, method := range []string{
		"TaskConfigSchema", "Capabilities", "Fingerprint", "TaskEvents", "StreamStdio",
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.plugin.Set(method, drivertest.Hang)
			a := f.launch()
			f.plugin.Await(method, 1)
			began := time.Now()
			a.stop()
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestHealth_OfAPluginThatFailsAtOnce(t *testing.T) {
	shorten(t)
	faults := map[string]string{ // the description of the driver
		drivertest.Hang:    "does not run",
		drivertest.Exit:    "does not run",
		drivertest.Huge:    "does not run",
		drivertest.Garbage: "does not run",
		drivertest.Fail:    "this call fails",
	}
	for _, method := range []string{"TaskConfigSchema", "Capabilities"} {
		for fault, want := range faults {
			t.Run(method+" "+fault, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				f.plugin.Set(method, fault)
				a := f.launch()
				a.awaitUnhealthy(want)
				f.plugin.Set(method, "")
				a.await("healthy", func(info *structs.DriverInfo) bool { return info.Healthy })
			})
		}
	}
}

func TestHealth_OfAPluginThatDoesNotAnswer(t *testing.T) {
	shorten(t)
	f := newFixture(t)
	a := f.agent()
	f.plugin.Set("Capabilities", drivertest.Hang)
	a.awaitUnhealthy("does not answer")
	f.plugin.Set("Capabilities", "")
	a.await("healthy again", func(info *structs.DriverInfo) bool { return info.Healthy })
}

func TestHealth_OfAPluginThatDoesNotReport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.plugin.Set("Fingerprint", drivertest.Hang)
	a := f.launch()
	a.awaitUnhealthy("has not reported its health")
	f.plugin.Set("Fingerprint", "")
	a.await("healthy", func(info *structs.DriverInfo) bool { return info.Healthy })
}

func TestHealth_IsThatOfThePlugin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	f.plugin.Set("health", "unhealthy")
	a.await("unhealthy", func(info *structs.DriverInfo) bool { return info.Detected && !info.Healthy })
	f.plugin.Set("health", "undetected")
	a.await("undetected", func(info *structs.DriverInfo) bool { return !info.Detected })
}

func TestHealth_KeepsTheSameAttributesOfTooMany(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.plugin.Set("attributes", "1000")
	a := f.launch()
	for _, health := range []string{"unhealthy", ""} {
		f.plugin.Set("health", health)
		info := a.await("as it says", func(info *structs.DriverInfo) bool {
			return info.Detected && info.Healthy == (health == "")
		})
		first, ok := info.Attributes["driver.test-driver.00000"]
		if len(info.Attributes) != maxPairs || !ok || first != "0" {
			t.Errorf("it has %d attributes, the first is %q", len(info.Attributes), first)
		}
	}
}

func TestHealth_OfAPluginThatFloodsIsPaced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.plugin.Set("flood", "yes")
	a := f.launch()
	healthy := func(info *structs.DriverInfo) bool { return info.Healthy }
	first := a.await("healthy", healthy)
	last := first
	const more = 5
	for range more {
		last = a.await("healthy", healthy)
	}
	if took := last.UpdateTime.Sub(first.UpdateTime); took < more*reportPause {
		t.Errorf("%d more reports in %s", more, took)
	}
}

func TestStreams_ThatEndAreReopenedWithABackoff(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{drivertest.Close, drivertest.Huge, drivertest.Garbage, drivertest.Fail} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.plugin.Set("Fingerprint", fault)
			f.plugin.Set("TaskEvents", fault)
			began := time.Now()
			a := f.launch()
			a.awaitUnhealthy("failed to fingerprint the driver")
			for _, method := range []string{"Fingerprint", "TaskEvents"} {
				f.plugin.Await(method, 4)
				n := f.plugin.Calls(method)
				if took := time.Since(began); n > 2+int(took/reopen.Min) {
					t.Errorf("%s was called %d times in %s", method, n, took)
				}
			}
			f.plugin.Set("Fingerprint", "")
			f.plugin.Set("TaskEvents", "")
			a.await("healthy", func(info *structs.DriverInfo) bool { return info.Healthy })
			f.plugin.Emit("a1", "web", "hello")
			event := <-a.events
			if event.AllocID != "a1" || event.Task != "web" || event.Message != "hello" ||
				event.Annotations["from"] != "test" || time.Since(event.Time) > time.Minute {
				t.Errorf("got %+v", event)
			}
		})
	}
}

// A process that cannot take a task up now may do it later.
func TestWait_RepeatsWhatTheNewProcessRejectsForNow(t *testing.T) {
	shorten(t)
	for _, fault := range []string{drivertest.Retry, drivertest.Hang, drivertest.Garbage, drivertest.Huge} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			first := f.agent()
			cfg := f.task("a1", loops)
			h := first.start(cfg)
			first.stop()
			f.open(map[string]any{"label": "new"}) // for a process that does not know the task
			second := f.agent()
			if err := second.Recover(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			known, err := second.findTask(cfg.ID)
			if err != nil {
				t.Fatal(err)
			}
			known.forget(known.holder)
			f.plugin.Set("RecoverTask", fault)
			results := second.waiting(cfg.ID)
			f.plugin.Await("RecoverTask", 3)
			f.plugin.Set("RecoverTask", "")
			f.end(cfg)
			if result := <-results; result == nil || result.Err != "" {
				t.Errorf("got %+v", result)
			}
			second.destroy(cfg.ID)
		})
	}
}

func TestWait_OfATaskThatThePluginLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", loops)
	a.start(cfg)
	f.plugin.Set("WaitTask", drivertest.Fail)
	result := a.wait(cfg.ID)
	if n := f.plugin.Calls("WaitTask"); result.Err == "" || n != maxLost {
		t.Errorf("got %+v after %d calls", result, n)
	}
	a.destroy(cfg.ID)
}

// An agent that was killed in a start has no handle of the task.
func TestDestroy_ReachesATaskWithoutAHandle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.agent()
	cfg := f.task("a1", loops)
	first.start(cfg)
	results := first.waiting(cfg.ID)
	f.plugin.Await("WaitTask", 1)
	second := f.launchBeside(first)
	err := second.Recover(t.Context(), &driver.Handle{Driver: f.name, TaskID: cfg.ID})
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("without a handle: %v", err)
	}
	second.destroy(cfg.ID)
	if result := <-results; result == nil || result.Signal != 9 && result.Err == "" {
		t.Errorf("the task ended by itself: %+v", result)
	}
	first.destroy(cfg.ID)
}

// An allocation may be stopped before the driver has found its task again.
func TestDestroy_ReachesATaskThatWasNotRecovered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.agent()
	cfg := f.task("a1", "echo $$ > local/pid; "+loops)
	h := first.start(cfg)
	f.awaitOutput(cfg, "up\n")
	text, err := os.ReadFile(filepath.Join(cfg.Dirs.Local, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	cmdline := filepath.Join("/proc", strings.TrimSpace(string(text)), "cmdline")
	first.stop()
	f.open(map[string]any{"label": "new"}) // for a process that does not know the task
	second := f.agent()
	err = second.Destroy(t.Context(), cfg.ID, h)
	if err != nil {
		t.Fatal(err)
	}
	left, _ := os.ReadFile(cmdline) // a zombie's is empty
	if len(left) != 0 {
		t.Errorf("the process is left: %q", left)
	}
}

// A plugin that cannot remove a task has it still.
func TestDestroy_ThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", loops)
	a.start(cfg)
	f.plugin.Set("DestroyTask", drivertest.Fail)
	if err := a.Destroy(t.Context(), cfg.ID, nil); !structs.IsKind(err, structs.KindInternal) {
		t.Errorf("got %v", err)
	}
	f.plugin.Set("DestroyTask", "")
	results := a.waiting(cfg.ID)
	f.plugin.Await("WaitTask", 1)
	a.destroy(cfg.ID)
	if result := <-results; result == nil || result.Signal != 9 && result.Err == "" {
		t.Errorf("the task ended with %+v", result)
	}
}

// launchBeside is a driver that shares the process of another one.
func (f *fixture) launchBeside(other *agent) *agent {
	d := New(f.name, other.cfg, other.logger)
	d.process = other.process
	return &agent{Driver: d, f: f}
}
