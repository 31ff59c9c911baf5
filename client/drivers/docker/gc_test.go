package docker

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"berth/client/drivers/docker/dockertest"
	"berth/client/drivers/docker/taskconfig"
)

// old makes a container old enough to be removed.
func (f *fixture) old(name string) {
	f.Change(name, func(c *dockertest.FakeContainer) { c.Created = time.Now().Add(-time.Hour) })
}

func TestDangling_RemovesOnlyUnknownContainersOfTheNode(t *testing.T) {
	f := newFixture(t)
	lost := f.agent(f.config())
	for _, alloc := range []string{"lost", "young", "foreign"} {
		f.start(lost, f.task(alloc))
	}
	f.old("web-lost")
	f.old("web-foreign")
	f.Change("web-foreign", func(c *dockertest.FakeContainer) { c.Request.Labels[labelNode] = "n2" })
	// An image that somebody makes from a container has its labels, and so have the containers of the image.
	_, err := lost.engine.Create(t.Context(), client.ContainerCreateOptions{
		Name:   "web-copy",
		Config: &container.Config{Image: "a:1", Labels: f.Find("web-lost").Request.Labels},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.old("web-copy")
	d := f.agent(f.config())
	f.start(d, f.task("held"))
	f.old("web-held")
	found := d.searchDangling(t.Context(), nil)
	if len(found) != 1 || f.Find("web-lost") == nil {
		t.Fatalf("the first search found %v", found)
	}
	d.searchDangling(t.Context(), found)
	for name, want := range map[string]bool{
		"lost": false, "young": true, "held": true, "foreign": true, "copy": true,
	} {
		if got := f.Find("web-"+name) != nil; got != want {
			t.Errorf("%s is there: got %t, want %t", name, got, want)
		}
	}
	if f.output.stopped["lost/web"] == 0 {
		t.Error("its output is still collected")
	}
}

// A start may take longer than the least age of a dangling container.
func TestDangling_KeepsATaskThatIsBeingStarted(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	f.Hang("POST /containers/{id}/start")
	ctx, cancel := context.WithCancel(t.Context())
	var starting sync.WaitGroup
	starting.Go(func() { _, _ = d.Start(ctx, f.task("slow")) })
	f.awaitCalls("POST /containers/{id}/start", 1)
	f.old("web-slow")
	found := d.searchDangling(t.Context(), d.searchDangling(t.Context(), nil))
	if len(found) != 0 || f.Find("web-slow") == nil {
		t.Errorf("a task that is being started counts as dangling: %v", found)
	}
	cancel()
	starting.Wait()
}

func TestDangling_KeepsContainers(t *testing.T) {
	for name, change := range map[string]func(*taskconfig.Settings){
		"in a dry run":      func(c *taskconfig.Settings) { c.GC.Dangling.DryRun = true },
		"that were to stay": func(c *taskconfig.Settings) { c.GC.Container = false },
	} {
		f := newFixture(t)
		cfg := f.config()
		change(&cfg)
		f.start(f.agent(cfg), f.task("lost"))
		f.old("web-lost")
		f.End("web-lost", 0)
		d := f.agent(cfg)
		d.searchDangling(t.Context(), d.searchDangling(t.Context(), nil))
		if f.Find("web-lost") == nil {
			t.Errorf("%s: it is gone", name)
		}
	}
}

func TestRun_SearchesAtIntervals(t *testing.T) {
	f := newFixture(t)
	cfg := f.config()
	cfg.GC.Dangling.Period = 10 * time.Millisecond
	f.start(f.agent(cfg), f.task("lost"))
	f.old("web-lost")
	f.run(f.agent(cfg))
	f.awaitCalls("DELETE /containers/{id}", 1)
}

// A helper that was killed gets a successor. An ended container needs none.
func TestRun_KeepsTheOutputOfRunningTasks(t *testing.T) {
	usual := keepInterval
	keepInterval = 2 * time.Millisecond
	t.Cleanup(func() { keepInterval = usual }) // after the end of the driver
	f := newFixture(t)
	d := f.agent(f.config())
	f.start(d, f.task("running"))
	f.start(d, f.task("ended"))
	f.End("web-ended", 0)
	f.run(d)
	started := func(id string) int {
		f.output.mu.Lock()
		defer f.output.mu.Unlock()
		return f.output.started[id]
	}
	for limit := time.Now().Add(2 * time.Minute); started("running/web") < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("nobody looks for its helper")
		}
	}
	if n := started("ended/web"); n != 1 {
		t.Errorf("the ended container had %d helpers", n)
	}
}

func TestDestroy_KeepsTheContainerIfTheNodeDoes(t *testing.T) {
	f := newFixture(t)
	cfg := f.config()
	cfg.GC.Container = false
	d := f.agent(cfg)
	task := f.task("a1")
	f.start(d, task)
	if err := d.Destroy(t.Context(), task.ID, nil); err != nil {
		t.Fatal(err)
	}
	if c := f.Find("web-a1"); c == nil || c.State.Running {
		t.Errorf("the container is %+v", c)
	}
	f.start(d, task) // in its place
}

func TestDestroy_FindsATaskWithoutARecord(t *testing.T) {
	f := newFixture(t)
	task := f.task("a1")
	f.start(f.agent(f.config()), task)
	if err := f.agent(f.config()).Destroy(t.Context(), task.ID, nil); err != nil {
		t.Fatal(err)
	}
	if len(f.Containers()) != 0 {
		t.Error("the container is there")
	}
}

func TestDestroy_RemovesTheImageLater(t *testing.T) {
	f := newFixture(t)
	cfg := f.config()
	cfg.GC.ImageDelay = time.Millisecond
	d := f.agent(cfg)
	f.run(d)
	task := f.task("a1")
	f.start(d, task)
	if err := d.Destroy(t.Context(), task.ID, nil); err != nil {
		t.Fatal(err)
	}
	f.awaitCalls("DELETE /images/sha256:a", 1)
}

func TestRecover_CountsTheUserOfTheImage(t *testing.T) {
	f := newFixture(t)
	task := f.task("a1")
	h := f.start(f.agent(f.config()), task)
	cfg := f.config()
	cfg.GC.ImageDelay = time.Millisecond
	d := f.agent(cfg)
	f.run(d)
	if err := d.Recover(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if err := d.Destroy(t.Context(), task.ID, nil); err != nil {
		t.Fatal(err)
	}
	f.awaitCalls("DELETE /images/sha256:a", 1)
}

func TestValidate_NamesEachFault(t *testing.T) {
	for _, good := range []taskconfig.Settings{{}, taskconfig.DefaultSettings()} {
		if err := good.Validate(); err != nil {
			t.Error(err)
		}
	}
	bad := taskconfig.Settings{
		Endpoint:            "tcp://10.0.0.1:2375",
		AllowCaps:           []string{"fly", "CAP_CHOWN", "ALL"},
		PIDsLimit:           2,
		PullActivityTimeout: time.Millisecond,
		Auth:                taskconfig.AuthConfig{Config: "x", Helper: "../x"},
	}
	bad.GC.ImageDelay = -1
	bad.GC.Dangling.Period = time.Millisecond
	bad.GC.Dangling.CreationGrace = 100 * 365 * 24 * time.Hour
	err := bad.Validate()
	for _, want := range []string{
		`docker.endpoint: "tcp://10.0.0.1:2375"`, `docker.allow_caps: "fly"`, "docker.pids_limit: 2",
		"docker.pull_activity_timeout: 1ms", "docker.gc.image_delay", "docker.gc.dangling_containers.period: 1ms",
		"docker.gc.dangling_containers.creation_grace", `docker.auth.config: "x"`, `docker.auth.helper: "../x"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "CHOWN") || strings.Contains(err.Error(), `"ALL"`) {
		t.Errorf("good names are in %v", err)
	}
	bad = taskconfig.Settings{Endpoint: "unix:///" + strings.Repeat("x", 200)}
	if err := bad.Validate(); err == nil {
		t.Error("a path that is too long for a socket is accepted")
	}
}
