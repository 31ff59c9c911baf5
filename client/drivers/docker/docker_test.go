package docker

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/client/drivers/docker/dockertest"
	"berth/client/drivers/driver"
	"berth/structs"
)

func TestRun_ReportsTheDaemonsHealth(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	reports := f.run(d)
	info := f.await(reports, true)
	for name, want := range map[string]string{
		"driver.docker":                    "1",
		"driver.docker.version":            "20.10.0",
		"driver.docker.api_version":        "1.41",
		"driver.docker.os_type":            "linux",
		"driver.docker.cgroup_version":     "1",
		"driver.docker.live_restore":       "false",
		"driver.docker.volumes.enabled":    "false",
		"driver.docker.privileged.enabled": "false",
	} {
		if info.Attributes[name] != want {
			t.Errorf("%s is %q, want %q", name, info.Attributes[name], want)
		}
	}
	f.Stop()
	d.noteFailure(structs.Unavailablef("a call has failed"))
	info = f.await(reports, false)
	if !info.Detected || !strings.Contains(info.HealthDescription, f.Endpoint()+" (there is no such socket): ") {
		t.Errorf("without a daemon: %+v", info)
	}
	f.Serve()
	f.await(reports, true)
}

func TestFingerprint_DescribesABadDaemon(t *testing.T) {
	for name, c := range map[string]struct {
		answer, want string
	}{
		"garbage":          {"no json", "asking for information"},
		"of another world": {`{"OSType":"windows"}`, `runs containers of "windows"`},
	} {
		f := newFixture(t)
		f.Handle("GET /info", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, c.answer) })
		info := f.agent(f.config()).Fingerprint(t.Context())
		if info.Healthy || !strings.Contains(info.HealthDescription, c.want) {
			t.Errorf("%s: %+v", name, info)
		}
	}
	shorten(t, &lookTimeout)
	f := newFixture(t)
	f.Hang("GET /info")
	info := f.agent(f.config()).Fingerprint(t.Context())
	if info.Healthy || !info.Detected || !strings.Contains(info.HealthDescription, "does not answer") {
		t.Errorf("a daemon that hangs: %+v", info)
	}
	cfg := f.config()
	cfg.Endpoint = "unix://" + filepath.Join(t.TempDir(), "none.sock")
	info = f.agent(cfg).Fingerprint(t.Context())
	if info.Detected || info.Healthy || !strings.Contains(info.HealthDescription, "start dockerd") {
		t.Errorf("without a socket: %+v", info)
	}
}

func TestStart_RunsAContainer(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	cfg := f.task("a1")
	h := f.start(d, cfg)
	c := f.container(cfg)
	if h.Driver != Name || h.TaskID != cfg.ID || h.PID != 4711 || c.Name != "web-a1" || !c.State.Running {
		t.Errorf("got %+v, container %+v", h, c)
	}
	if f.output.started[cfg.ID] != 1 {
		t.Error("its output is not collected")
	}
	for label, want := range map[string]string{
		"berth.node_id": "n1", "berth.node_name": "node", "berth.task_id": "a1/web", "berth.job_id": "job",
		"berth.job_name": "name", "berth.namespace": "ns", "berth.task_group": "group", "berth.task": "web",
		"berth.alloc_id": "a1", "berth.alloc_name": "name.group[0]", "com.hashicorp.nomad.alloc_id": "a1",
	} {
		if got := c.Request.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	ended := f.waiting(d, cfg)
	f.End(c.ID, 7)
	if got := f.result(ended); !reflect.DeepEqual(got, &driver.ExitResult{ExitCode: 7}) {
		t.Errorf("got %+v", got)
	}
	if err := d.Destroy(t.Context(), cfg.ID, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Destroy(t.Context(), cfg.ID, nil); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if len(f.Containers()) != 0 || f.output.stopped[cfg.ID] == 0 {
		t.Errorf("left are %v, output %+v", f.Containers(), f.output)
	}
	if _, err := d.Wait(t.Context(), cfg.ID); !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("waiting for a destroyed task: %v", err)
	}
}

func TestStart_LeavesNothingAfterAFailure(t *testing.T) {
	reject := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	for _, call := range []string{
		"GET /images/a:1/json", "POST /containers/create", "POST /containers/{id}/start",
	} {
		f := newFixture(t)
		d := f.agent(f.config())
		f.Handle(call, reject)
		cfg := f.task("a1")
		if _, err := d.Start(t.Context(), cfg); err == nil {
			t.Errorf("%s: no error", call)
		}
		if len(f.Containers()) != 0 || len(d.tasks.all()) != 0 || f.output.stopped[cfg.ID] == 0 {
			t.Errorf("%s: left are %v, %v, %+v", call, f.Containers(), d.tasks.all(), f.output)
		}
		f.Handle(call, nil)
		f.start(d, cfg)
	}
	f := newFixture(t)
	d := f.agent(f.config())
	f.output.fault = errors.New("no helper")
	if _, err := d.Start(t.Context(), f.task("a1")); err == nil || len(f.Containers()) != 0 {
		t.Errorf("without output: %v, left are %v", err, f.Containers())
	}
}

func TestStart_ReplacesOnlyItsOwnContainer(t *testing.T) {
	f := newFixture(t)
	cfg := f.task("a1")
	first := f.agent(f.config())
	f.start(first, cfg)
	old := f.container(cfg).ID
	if _, err := first.Start(t.Context(), cfg); !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("a running task: %v", err)
	}
	if c := f.container(cfg); c.ID != old || !c.State.Running {
		t.Errorf("a rejected start has changed the container: %+v", c)
	}
	// An agent that lost its records starts the task again.
	f.start(f.agent(f.config()), cfg)
	if c := f.container(cfg); c.ID == old || len(f.Containers()) != 1 {
		t.Errorf("there are %v", f.Containers())
	}
	f.Change("web-a1", func(c *dockertest.FakeContainer) { c.Request.Labels[labelNode] = "n2" })
	_, err := f.agent(f.config()).Start(t.Context(), cfg)
	if !structs.IsKind(err, structs.KindConflict) || !strings.Contains(err.Error(), "web-a1") {
		t.Errorf("a container of another node: %v", err)
	}
	if len(f.Containers()) != 1 {
		t.Error("the container of another node is gone")
	}
}

func TestRecover_FindsTasks(t *testing.T) {
	f := newFixture(t)
	cfg := f.task("a1")
	h := f.start(f.agent(f.config()), cfg)
	for name, handle := range map[string]*driver.Handle{
		"by its handle": h,
		"by its name":   {Driver: Name, TaskID: cfg.ID},
	} {
		d := f.agent(f.config())
		if err := d.Recover(t.Context(), handle); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found, err := d.tasks.find(cfg.ID)
		want := logSettings{Dir: cfg.Dirs.Logs, Task: "web", MaxFiles: 2, MaxFileSizeMB: 3}
		if err != nil || found.logs != want || found.image != "sha256:a" {
			t.Errorf("%s: got %+v, %v", name, found, err)
		}
	}
	if f.output.started[cfg.ID] != 3 {
		t.Errorf("the output was ensured %d times", f.output.started[cfg.ID])
	}
	d := f.agent(f.config())
	f.End("web-a1", 3)
	if err := d.Recover(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if got := f.result(f.waiting(d, cfg)); got.ExitCode != 3 {
		t.Errorf("an ended task: %+v", got)
	}
}

// The agent and the daemon were away at the same time.
func TestRecover_SaysThatATaskEndedWithTheDaemon(t *testing.T) {
	f := newFixture(t)
	cfg := f.task("a1")
	h := f.start(f.agent(f.config()), cfg)
	d := f.agent(f.config())
	f.Stop()
	if err := d.Recover(t.Context(), h); !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("without a daemon: %v", err)
	}
	f.End("web-a1", 137)
	f.Serve()
	if err := d.Recover(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if got := f.result(f.waiting(d, cfg)); !strings.Contains(got.Err, "ended with the docker daemon") {
		t.Errorf("got %+v", got)
	}
}

func TestRecover_ReportsTasksThatAreGone(t *testing.T) {
	f := newFixture(t)
	cfg := f.task("a1")
	h := f.start(f.agent(f.config()), cfg)
	d := f.agent(f.config())
	f.Stop()
	if err := d.Recover(t.Context(), h); !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("without a daemon: %v", err)
	}
	f.Serve()
	for name, bad := range map[string]*driver.Handle{
		"another container": {TaskID: "a2/web", Version: 1, State: h.State},
		"no container":      {TaskID: "a2/web"},
		"an unknown handle": {TaskID: cfg.ID, Version: 9, State: h.State},
		"a damaged handle":  {TaskID: cfg.ID, Version: 1, State: []byte("{")},
	} {
		if err := d.Recover(t.Context(), bad); !structs.IsKind(err, structs.KindNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.Change("web-a1", func(c *dockertest.FakeContainer) {
		c.State.Running = false
		c.State.Status = "created"
	})
	if err := d.Recover(t.Context(), h); !structs.IsKind(err, structs.KindNotFound) || len(f.Containers()) != 0 {
		t.Errorf("a container that was not started: %v, %v", err, f.Containers())
	}
}

func TestWait_SurvivesTheDaemon(t *testing.T) {
	for _, c := range []struct {
		live, ends bool
		code       int
		want       string
	}{
		{true, false, 137, ""},
		{true, true, 137, ""},
		{true, false, 255, ""},
		{true, true, 255, "ended while the docker daemon was away"},
		{false, false, 137, ""},
		{false, true, 137, "ended with the docker daemon, whose live-restore is off (exit code 137)"},
	} {
		t.Run(fmt.Sprintf("live-restore=%t,ends=%t,code=%d", c.live, c.ends, c.code), func(t *testing.T) {
			f := newFixture(t)
			f.LiveRestore = c.live
			d := f.agent(f.config())
			f.await(f.run(d), true)
			cfg := f.task("a1")
			f.start(d, cfg)
			ended := f.waiting(d, cfg)
			f.awaitCalls("POST /containers/{id}/wait", 1)
			f.Stop()
			awaitEvent(t, f)
			if c.ends {
				f.End("web-a1", c.code)
			}
			f.Serve()
			if !c.ends {
				f.awaitCalls("POST /containers/{id}/wait", 2)
				f.End("web-a1", c.code)
			}
			got := f.result(ended)
			if got.ExitCode != c.code || !strings.Contains(got.Err, c.want) {
				t.Errorf("got %+v", got)
			}
			if c.want == "" && got.Err != "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// awaitEvent waits for the event of a daemon that is away.
func awaitEvent(t *testing.T, f *fixture) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		n := len(f.events)
		f.mu.Unlock()
		if n == 1 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("there are %d events", n)
		}
	}
	e := f.events[0]
	if e.AllocID != "a1" || e.Task != "web" || !strings.Contains(e.Message, "daemon is away") {
		t.Errorf("the event is %+v", e)
	}
}

func TestWait_ReportsTheEnd(t *testing.T) {
	for _, c := range []struct {
		change func(*dockertest.FakeContainer)
		want   driver.ExitResult
	}{
		{func(c *dockertest.FakeContainer) {
			c.State.ExitCode = 137
			c.State.OOMKilled = true
		}, driver.ExitResult{ExitCode: 137, Signal: 9, OOMKilled: true}},
		{func(c *dockertest.FakeContainer) { c.State.OOMKilled = true }, driver.ExitResult{}},
		{func(c *dockertest.FakeContainer) { c.State.ExitCode = 255 }, driver.ExitResult{ExitCode: 255}},
		{func(c *dockertest.FakeContainer) { c.State.Error = "why" }, driver.ExitResult{Err: "why"}},
	} {
		f := newFixture(t)
		d := f.agent(f.config())
		cfg := f.task("a1")
		f.start(d, cfg)
		f.Change("web-a1", func(record *dockertest.FakeContainer) {
			record.State.Running = false
			c.change(record)
		})
		if got := f.result(f.waiting(d, cfg)); *got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}

func TestWait_ReportsAContainerThatAnotherProgramRemoved(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	cfg := f.task("a1")
	f.start(d, cfg)
	if err := d.engine.Remove(t.Context(), "web-a1"); err != nil {
		t.Fatal(err)
	}
	if got := f.result(f.waiting(d, cfg)); !strings.Contains(got.Err, "removed by another program") {
		t.Errorf("got %+v", got)
	}
	if err := d.Destroy(t.Context(), cfg.ID, nil); err != nil {
		t.Error(err)
	}
}

func TestStop_KillsAfterTheTimeout(t *testing.T) {
	for _, ignores := range []bool{false, true} {
		f := newFixture(t)
		d := f.agent(f.config())
		cfg := f.task("a1")
		f.start(d, cfg)
		f.Change("web-a1", func(c *dockertest.FakeContainer) { c.Ignores = ignores })
		if err := d.Stop(t.Context(), cfg.ID, "", 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		want := 143
		if ignores {
			want = 137
		}
		if got := f.result(f.waiting(d, cfg)); got.ExitCode != want {
			t.Errorf("ignores=%t: got %+v", ignores, got)
		}
		if err := d.Stop(t.Context(), cfg.ID, "SIGTERM", time.Second); err != nil {
			t.Errorf("a second time: %v", err)
		}
		if err := d.Signal(t.Context(), cfg.ID, "SIGHUP"); !structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("a signal for an ended task: %v", err)
		}
	}
}

// A daemon that fails to send a signal is no task that has ended.
func TestStop_ReportsASignalThatWasNotSent(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	cfg := f.task("a1")
	f.start(d, cfg)
	f.Handle("POST /containers/{id}/kill", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, "the runtime is broken")
	})
	err := d.Stop(t.Context(), cfg.ID, "SIGTERM", time.Minute)
	if err == nil || !strings.Contains(err.Error(), "the runtime is broken") {
		t.Errorf("stop: %v", err)
	}
	if err := d.Destroy(t.Context(), cfg.ID, nil); err == nil {
		t.Error("destroy: no error")
	}
	f.Handle("POST /containers/{id}/kill", nil)
	if err := d.Destroy(t.Context(), cfg.ID, nil); err != nil {
		t.Error(err)
	}
}

func TestSignal_ChecksTheName(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	cfg := f.task("a1")
	f.start(d, cfg)
	if err := d.Signal(t.Context(), cfg.ID, "HANGUP"); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("got %v", err)
	}
	if err := d.Signal(t.Context(), cfg.ID, "SIGHUP"); err != nil {
		t.Error(err)
	}
	if err := d.Signal(t.Context(), "a2/web", "SIGHUP"); !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("an unknown task: %v", err)
	}
}

func TestStats_ReadsTheDaemonsNumbers(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	cfg := f.task("a1")
	f.start(d, cfg)
	got, err := d.Stats(t.Context(), cfg.ID)
	if err != nil || got.CPUTotal != 42 || got.MemoryRSS != 7 || got.MemoryUsage != 8 ||
		got.MemoryMax != 9 || got.PIDs != 5 || got.CollectedAt == 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A task whose daemon hangs in any call holds up neither a context that ends nor another task.
func TestDriver_IsNotHeldUpByAHungDaemon(t *testing.T) {
	shorten(t, &cleanupTimeout)
	f := newFixture(t)
	d := f.agent(f.config())
	cfg := f.task("a1")
	f.start(d, cfg)
	for _, call := range []string{
		"GET /containers/{id}/json", "POST /containers/{id}/kill", "POST /containers/{id}/wait",
		"DELETE /containers/{id}",
	} {
		f.Hang(call)
	}
	soon := func(name string, run func(*fixture) error) {
		if err := run(f); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ctx := shortContext(t)
	soon("stop", func(*fixture) error { return d.Stop(ctx, cfg.ID, "SIGTERM", time.Minute) })
	soon("wait", func(*fixture) error { _, err := d.Wait(ctx, cfg.ID); return err })
	soon("destroy", func(*fixture) error { return d.Destroy(ctx, cfg.ID, nil) })
	soon("start", func(f *fixture) error { _, err := d.Start(ctx, f.task("a2")); return err })
	if info := d.Fingerprint(t.Context()); !info.Healthy {
		t.Errorf("a call that is answered: %+v", info)
	}
}

func TestStart_LoadsAnArchiveInsideTheTask(t *testing.T) {
	f := newFixture(t)
	f.Handle("POST /images/load", func(w http.ResponseWriter, r *http.Request) {
		images, _, err := dockertest.ReadSaved(r.Body)
		if err != nil || len(images) != 1 {
			t.Errorf("the daemon gets %+v, %v", images, err)
			return
		}
		f.AddImage(images[0].RepoTags[0], "sha256:loaded")
		fmt.Fprint(w, `{"stream":"Loaded image"}`)
	})
	archive := dockertest.Saved(t, []dockertest.SavedImage{{RepoTags: []string{"a:1"}}})
	cfg := f.task("a1")
	d := f.agent(f.config())
	outside := filepath.Join(f.dir, "secret.tar")
	for _, err := range []error{
		os.WriteFile(filepath.Join(cfg.Dirs.Local, "image.tar"), archive, 0o600),
		os.WriteFile(outside, archive, 0o600),
		os.Symlink(outside, filepath.Join(cfg.Dirs.Local, "link.tar")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, good := range map[string]bool{
		"image.tar": true, "local/image.tar": true, "/local/image.tar": true,
		"none.tar": false, "link.tar": false, "../../../secret.tar": false, outside: false, ".": false,
	} {
		cfg.Config = map[string]any{"image": "a:1", "load": path}
		_, err := d.Start(t.Context(), cfg)
		if (err == nil) != good {
			t.Errorf("%s: %v", path, err)
		}
		if err == nil {
			if err := d.Destroy(t.Context(), cfg.ID, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}
