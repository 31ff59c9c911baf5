package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/moby/moby/api/types/jsonstream"
	"go.uber.org/goleak"

	"berth/client/drivers/docker/dockertest"
	"berth/client/drivers/docker/engine"
	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newCoordinator(f *dockertest.Fake) *Coordinator {
	return New(Config{
		Engine:          engine.New(f.Endpoint()),
		Remove:          true,
		Delay:           time.Millisecond,
		ActivityTimeout: 10 * time.Minute,
		Logger:          hclog.NewNullLogger(),
	})
}

func request(task string) Request {
	return Request{TaskID: task, Ref: "a:1", Limit: time.Minute}
}

func TestAcquire_UsesTheDaemonsImage(t *testing.T) {
	f := dockertest.NewFake(t)
	f.AddImage("a:1", "sha256:a")
	c := newCoordinator(f)
	image, err := c.Acquire(t.Context(), request("t1"))
	if err != nil || image.ID != "sha256:a" || len(f.Calls("POST /images/create")) != 0 {
		t.Errorf("got %+v, %v, %q", image, err, f.Calls("POST"))
	}
	r := request("t2")
	r.Force = true
	image, err = c.Acquire(t.Context(), r)
	if err != nil || image.ID != "sha256:a:1" || len(f.Calls("POST /images/create")) != 1 {
		t.Errorf("force: got %+v, %v, %q", image, err, f.Calls("POST"))
	}
}

// download makes downloads begin, report and end when a test says so.
type download struct {
	begun  chan struct{}
	finish chan string // messages of the daemon; closed at the end
}

func newDownload(f *dockertest.Fake) *download {
	d := &download{begun: make(chan struct{}, 10), finish: make(chan string)}
	f.Handle("POST /images/create", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		d.begun <- struct{}{}
		for {
			select {
			case m, more := <-d.finish:
				if !more {
					f.AddImage("a:1", "sha256:a")
					return
				}
				_, _ = io.WriteString(w, m)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	return d
}

func TestAcquire_SharesADownload(t *testing.T) {
	f := dockertest.NewFake(t)
	d := newDownload(f)
	c := newCoordinator(f)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			image, err := c.Acquire(t.Context(), request(fmt.Sprint("t", i)))
			if err != nil || image.ID != "sha256:a" {
				t.Errorf("got %+v, %v", image, err)
			}
		})
	}
	<-d.begun
	c.awaitUsers(t, 8)
	close(d.finish)
	all.Wait()
	if n := len(f.Calls("POST /images/create")); n != 1 {
		t.Errorf("there were %d downloads", n)
	}
	if len(c.users["sha256:a"]) != 8 {
		t.Errorf("the users are %v", c.users)
	}
}

// awaitUsers waits until that many tasks wait for one download.
func (c *Coordinator) awaitUsers(t *testing.T, n int) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		users := 0
		for _, f := range c.flights {
			users += f.users
		}
		c.mu.Unlock()
		if users == n {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%d tasks wait, want %d", users, n)
		}
	}
}

func TestAcquire_EndsADownloadThatNobodyNeeds(t *testing.T) {
	f := dockertest.NewFake(t)
	d := newDownload(f)
	c := newCoordinator(f)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() { _, err := c.Acquire(ctx, request("t1")); failed <- err }()
	<-d.begun
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if len(c.flights) != 0 || len(c.users) != 0 {
		t.Errorf("left are %v, %v", c.flights, c.users)
	}
	go func() { _, err := c.Acquire(t.Context(), request("t2")); failed <- err }()
	<-d.begun // another download
	close(d.finish)
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

func TestAcquire_KeepsDownloadsWithOtherCredentialsApart(t *testing.T) {
	f := dockertest.NewFake(t)
	begun := make(chan struct{})
	deny := make(chan struct{})
	f.Handle("POST /images/create", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Registry-Auth") != "" {
			f.AddImage("a:1", "sha256:a")
			return
		}
		close(begun)
		<-deny
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "pull access denied")
	})
	c := newCoordinator(f)
	failed := make(chan error)
	go func() { _, err := c.Acquire(t.Context(), request("t1")); failed <- err }()
	<-begun
	r := request("t2")
	r.Auth = engine.Auth{Username: "u", Password: "p"}
	if _, err := c.Acquire(t.Context(), r); err != nil {
		t.Errorf("with credentials: %v", err)
	}
	close(deny)
	err := <-failed
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "pull access denied") {
		t.Errorf("without credentials: %v (%s)", err, structs.KindOf(err))
	}
}

func TestAcquire_FailsWithoutProgress(t *testing.T) {
	f := dockertest.NewFake(t)
	newDownload(f)
	c := newCoordinator(f)
	c.cfg.ActivityTimeout = 20 * time.Millisecond
	_, err := c.Acquire(t.Context(), request("t1"))
	if err == nil || !strings.Contains(err.Error(), "no progress for 20ms") {
		t.Errorf("got %v", err)
	}
}

func TestAcquire_FailsAtItsLimit(t *testing.T) {
	f := dockertest.NewFake(t)
	newDownload(f)
	c := newCoordinator(f)
	r := request("t1")
	r.Limit = 20 * time.Millisecond
	_, err := c.Acquire(t.Context(), r)
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "image_pull_timeout") {
		t.Errorf("got %v", err)
	}
}

func TestAcquire_TellsTheProgress(t *testing.T) {
	usual := progressInterval
	progressInterval = 0
	defer func() { progressInterval = usual }()
	f := dockertest.NewFake(t)
	d := newDownload(f)
	c := newCoordinator(f)
	told := make(chan string, 1)
	r := request("t1")
	r.Progress = func(text string) { told <- text }
	failed := make(chan error)
	go func() { _, err := c.Acquire(t.Context(), r); failed <- err }()
	<-d.begun
	d.finish <- `{"id":"l1","status":"Downloading","progressDetail":{"current":1000,"total":4000}}`
	select {
	case got := <-told:
		if got != "image a:1: 0 of 1 layers done, 1.0 kB of 4.0 kB downloaded" {
			t.Errorf("got %q", got)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the task hears nothing")
	}
	close(d.finish)
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

func progressOf(current, total int64) *jsonstream.Progress {
	return &jsonstream.Progress{Current: current, Total: total}
}

func TestProgress_AddsUpLayers(t *testing.T) {
	p := &progress{layers: map[string]layer{}}
	p.last = time.Now()
	for _, m := range []engine.Message{
		{ID: "1.0", Status: "Pulling from a"},
		{ID: "l1", Status: "Downloading", Progress: progressOf(500, 1000)},
		{ID: "l2", Status: "Downloading", Progress: progressOf(3000, 4000)},
		{ID: "l1", Status: "Pull complete"},
		{ID: "l2", Status: "Extracting", Progress: progressOf(1, 99999)},
	} {
		if text := p.add(&m); text != "" {
			t.Errorf("a text came too early: %s", text)
		}
	}
	p.last = time.Now().Add(-progressInterval)
	want := "1 of 3 layers done, 4.0 kB of 5.0 kB downloaded"
	if got := p.add(&engine.Message{}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for i := range 2 * maxLayers {
		p.add(&engine.Message{ID: fmt.Sprint(i)})
	}
	if len(p.layers) > maxLayers {
		t.Errorf("%d layers are kept", len(p.layers))
	}
}

// load makes the daemon take archives.
func load(f *dockertest.Fake, answer string, then func()) {
	f.Handle("POST /images/load", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		then()
		_, _ = io.WriteString(w, answer)
	})
}

func archive(t *testing.T, r Request) Request {
	r.Archive = "image.tar"
	r.Open = func() (io.ReadCloser, error) {
		return saved(t, dockertest.SavedImage{RepoTags: []string{r.Ref}}), nil
	}
	return r
}

// saved is an archive with one image.
func saved(t *testing.T, image dockertest.SavedImage) io.ReadCloser {
	return io.NopCloser(bytes.NewReader(dockertest.Saved(t, []dockertest.SavedImage{image})))
}

func TestAcquire_LoadsAnArchive(t *testing.T) {
	f := dockertest.NewFake(t)
	load(f, `{"stream":"Loaded image: a:1"}`, func() { f.AddImage(request("").loadedName(), "sha256:a") })
	c := newCoordinator(f)
	image, err := c.Acquire(t.Context(), archive(t, request("t1")))
	if err != nil || image.ID != "sha256:a" {
		t.Errorf("got %+v, %v", image, err)
	}
}

// A part of the name of a file in the archive is the ID that the job wants, but the image has another one.
func TestAcquire_RejectsALoadedImageWithAnotherID(t *testing.T) {
	f := dockertest.NewFake(t)
	r := request("t1")
	digits := strings.Repeat("ab", 32)
	r.Ref = "sha256:" + digits
	r.Archive = "image.tar"
	r.Open = func() (io.ReadCloser, error) {
		return saved(t, dockertest.SavedImage{Config: digits + ".json"}), nil
	}
	loaded := "sha256:" + strings.Repeat("cd", 32)
	load(f, "", func() { f.AddImage(r.loadedName(), loaded) })
	c := newCoordinator(f)
	if image, err := c.Acquire(t.Context(), r); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %+v, %v", image, err)
	}
	loaded = r.Ref
	if image, err := c.Acquire(t.Context(), r); err != nil || image.ID != r.Ref {
		t.Errorf("got %+v, %v", image, err)
	}
}

// Archives of several tasks have an image of the same name.
func TestAcquire_FindsTheImageOfItsOwnArchive(t *testing.T) {
	f := dockertest.NewFake(t)
	f.Handle("POST /images/load", func(_ http.ResponseWriter, r *http.Request) {
		images, _, err := dockertest.ReadSaved(r.Body)
		if err != nil || len(images) != 1 || len(images[0].RepoTags) != 1 {
			t.Errorf("the daemon gets %+v, %v", images, err)
			return
		}
		f.AddImage(images[0].RepoTags[0], images[0].Config)
	})
	c := newCoordinator(f)
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			want := fmt.Sprint("sha256:", i)
			r := request(fmt.Sprint("t", i))
			r.Archive = want + ".tar"
			r.Open = func() (io.ReadCloser, error) {
				return saved(t, dockertest.SavedImage{Config: want, RepoTags: []string{"a:1"}}), nil
			}
			image, err := c.Acquire(t.Context(), r)
			if err != nil || image.ID != want {
				t.Errorf("archive %s: got %+v, %v", r.Archive, image, err)
			}
		})
	}
	all.Wait()
}

func TestAcquire_ReportsAFailedLoad(t *testing.T) {
	full := `{"errorDetail":{"message":"write /layer: no space left on device"},"error":"x"}`
	for answer, want := range map[string]string{
		full:                         "no space left on device",
		`{"stream":"Loaded b:1"}`:    "the archive image.tar has no image a:1",
		`{"stream":"Loaded b:1"}{ga`: "",
	} {
		f := dockertest.NewFake(t)
		load(f, answer, func() {})
		c := newCoordinator(f)
		_, err := c.Acquire(t.Context(), archive(t, request("t1")))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", answer, err)
		}
		if len(c.users) != 0 || len(c.flights) != 0 {
			t.Errorf("%s: left are %v, %v", answer, c.users, c.flights)
		}
	}
}

// run runs the removal until the end of the test.
func run(t *testing.T, c *Coordinator) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func awaitCalls(t *testing.T, f *dockertest.Fake, call string, n int) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); len(f.Calls(call)) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%s was called %d times, want %d", call, len(f.Calls(call)), n)
		}
	}
}

func TestRun_RemovesUnusedImages(t *testing.T) {
	f := dockertest.NewFake(t)
	f.AddImage("a:1", "sha256:a")
	f.AddImage("other:1", "sha256:o")
	c := newCoordinator(f)
	run(t, c)
	for _, task := range []string{"t1", "t2"} {
		if _, err := c.Acquire(t.Context(), request(task)); err != nil {
			t.Fatal(err)
		}
	}
	c.Release("t1")
	c.Release("t1")
	c.Release("unknown")
	c.mu.Lock()
	due := len(c.due)
	c.mu.Unlock()
	if due != 0 {
		t.Error("an image in use is due")
	}
	c.Release("t2")
	awaitCalls(t, f, "DELETE /images/", 1)
	if !f.HasImage("other:1") {
		t.Error("an image that no task used is gone")
	}
}

// A task of the same image waits for a removal in flight, and downloads the image again.
func TestAcquire_WaitsForARemoval(t *testing.T) {
	f := dockertest.NewFake(t)
	f.AddImage("a:1", "sha256:a")
	c := newCoordinator(f)
	begun := make(chan struct{})
	finish := make(chan struct{})
	f.Handle("DELETE /images/sha256:a", func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-finish
		f.Handle("DELETE /images/sha256:a", nil)
		f.Handle("GET /images/a:1/json", nil)
		f.RemoveImage("sha256:a")
		_, _ = io.WriteString(w, "[]")
	})
	if _, err := c.Acquire(t.Context(), request("t1")); err != nil {
		t.Fatal(err)
	}
	run(t, c)
	c.Release("t1")
	<-begun
	got := make(chan *engine.Image)
	go func() {
		image, err := c.Acquire(t.Context(), request("t2"))
		if err != nil {
			t.Error(err)
		}
		got <- image
	}()
	awaitCalls(t, f, "GET /images/a:1/json", 2)
	close(finish)
	if image := <-got; image.ID != "sha256:a:1" {
		t.Errorf("got %+v", image)
	}
}

func TestHold_KeepsTheImageOfATaskThatWasFoundAgain(t *testing.T) {
	f := dockertest.NewFake(t)
	c := newCoordinator(f)
	c.Hold("sha256:a", "t1")
	c.Hold("sha256:b", "t1")
	if len(c.users) != 1 || c.ofTask["t1"] != "sha256:b" || c.due["sha256:a"].IsZero() {
		t.Errorf("got %v, %v, %v", c.users, c.ofTask, c.due)
	}
	c.Hold("sha256:a", "t2")
	if len(c.due) != 0 {
		t.Errorf("an image in use is due: %v", c.due)
	}
}
