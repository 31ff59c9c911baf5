// Package dockertest has docker daemons for tests: a scriptable one in the process of the test, and a real
// one in directories of the test.
package dockertest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
)

// Fake is a docker daemon of API version 1.41 without containers: it only keeps records. A test changes its
// answers with Handle, ends and begins it with Stop and Serve, and ends containers with End.
type Fake struct {
	t    testing.TB
	path string

	// Stop waits for them: a handler must not use the test after its end.
	serving sync.WaitGroup // the calls

	// It guards the fields below, but for the two that are set before the first call.
	mu         sync.Mutex
	server     *http.Server
	served     chan struct{} // closed when the server has ended
	script     map[string]http.HandlerFunc
	containers map[string]*FakeContainer
	images     map[string]string // IDs by reference and by ID
	calls      []string
	// The number of the last created container, of which its ID is made.
	created int
	// LiveRestore is what the daemon says of itself. It is set before the first call.
	LiveRestore bool
	// Networks are the networks of each container. They are set before the first call.
	Networks map[string]*network.EndpointSettings
}

// FakeContainer is a record of a container. Its fields must not be changed while the daemon serves.
type FakeContainer struct {
	ID      string
	Name    string
	Created time.Time
	Request container.CreateRequest
	State   container.State
	// A test sees the SIGKILL that follows.
	Ignores bool // it does not end with SIGTERM

	image  string
	output []line
	// Each change replaces it, so a waiting call finds the record again.
	changed chan struct{} // closed at the next change
}

// line is a message of a container's output.
type line struct {
	stream byte
	at     time.Time
	text   string
}

// NewFake makes a daemon and lets it serve until the end of the test.
func NewFake(t testing.TB) *Fake {
	t.Helper()
	dir, err := os.MkdirTemp("", "fd")
	if err != nil {
		t.Fatal(err)
	}

	f := &Fake{
		t:          t,
		path:       filepath.Join(dir, "docker.sock"),
		script:     map[string]http.HandlerFunc{},
		containers: map[string]*FakeContainer{},
		images:     map[string]string{},
	}

	f.Serve()
	t.Cleanup(func() {
		f.Stop()
		_ = os.RemoveAll(dir)
	})

	return f
}

// Endpoint is the daemon's address.
func (f *Fake) Endpoint() string { return "unix://" + f.path }

// Serve begins the daemon again after Stop.
func (f *Fake) Serve() {
	f.t.Helper()
	// Each start listens on the same path, as a service does.
	listener, err := net.Listen("unix", f.path)
	if err != nil {
		f.t.Fatal(err)
	}

	server := &http.Server{Handler: http.HandlerFunc(f.serve)}
	served := make(chan struct{})
	f.mu.Lock()
	f.server = server
	f.served = served
	f.mu.Unlock()
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
}

// Stop ends the daemon: it breaks all connections and removes the socket.
func (f *Fake) Stop() {
	f.mu.Lock()
	server := f.server
	served := f.served
	f.mu.Unlock()
	_ = server.Close()
	<-served
	// Close does not wait for the calls that still run.
	f.serving.Wait()
}

// Handle replaces the answer to a call, "GET /info" for example; nil restores it. {id} stands for the ID of a
// container.
func (f *Fake) Handle(call string, h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h == nil {
		delete(f.script, call)
		return
	}
	f.script[call] = h
}

// Hang makes a call take until its caller gives up.
func (f *Fake) Hang(call string) {
	f.Handle(call, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that the caller has gone
		<-r.Context().Done()
	})
}

// Calls returns the calls so far that begin with a text.
func (f *Fake) Calls(prefix string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.calls),
		func(c string) bool { return !strings.HasPrefix(c, prefix) })
}

// AddImage gives the daemon an image.
func (f *Fake) AddImage(ref, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images[ref] = id
	f.images[id] = id
}

// RemoveImage takes an image from the daemon.
func (f *Fake) RemoveImage(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.images, func(_, other string) bool { return other == id })
}

// HasImage reports whether the daemon has an image, by reference or ID.
func (f *Fake) HasImage(ref string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.images[ref] != ""
}

// Find returns a copy of the record of a container, by ID or name, nil if there is none.
func (f *Fake) Find(id string) *FakeContainer {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.find(id)
	if c == nil {
		return nil
	}
	found := *c
	// The record may change after the lock is released.
	return &found
}

// find needs the lock.
func (f *Fake) find(id string) *FakeContainer {
	for _, c := range f.containers {
		if c.ID == id || c.Name == id {
			return c
		}
	}
	return nil
}

// Containers returns the IDs of all containers.
func (f *Fake) Containers() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.containers))
}

// Change changes the record of a container.
func (f *Fake) Change(id string, change func(*FakeContainer)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.find(id)
	if c == nil {
		f.t.Errorf("the daemon has no container %s", id)
		return
	}

	change(c)
	// A channel that is closed wakes all calls that wait for the container.
	close(c.changed)
	c.changed = make(chan struct{})
}

// End ends a container.
func (f *Fake) End(id string, code int) {
	f.Change(id, func(c *FakeContainer) { c.end(code) })
}

// end sets the state as the daemon shows it after an end.
func (c *FakeContainer) end(code int) {
	c.State.Running = false
	c.State.Status = "exited"
	c.State.ExitCode = code
}

// Print adds a message to a container's output: 1 is standard output, 2 standard error.
func (f *Fake) Print(id string, stream byte, at time.Time, text string) {
	f.Change(id, func(c *FakeContainer) { c.output = append(c.output, line{stream, at, text}) })
}

var inContainers = regexp.MustCompile(`^/containers/([^/]+)`)

// serve answers a call.
func (f *Fake) serve(w http.ResponseWriter, r *http.Request) {
	f.serving.Add(1)
	defer f.serving.Done()
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/v1.41"); ok {
		path = rest
	} else if path != "/_ping" {
		fail(w, http.StatusBadRequest, "client version is too new. Maximum supported API version is 1.41")
		return
	}

	id := ""
	if m := inContainers.FindStringSubmatch(path); m != nil && m[1] != "create" && m[1] != "json" {
		id = m[1]
		path = strings.Replace(path, m[1], "{id}", 1)
	}

	call := r.Method + " " + path
	// Scripts name the call with {id}, since a test does not know the IDs before.
	f.mu.Lock()
	f.calls = append(f.calls, call)
	scripted := f.script[call]
	f.mu.Unlock()
	if scripted != nil {
		scripted(w, r)
		return
	}

	// References have slashes, so that no fixed text could name these calls.
	if strings.HasPrefix(path, "/images/") {
		f.serveImages(w, r, strings.TrimPrefix(path, "/images/"))
		return
	}

	f.serveCall(w, r, call, id)
}

// serveCall answers the calls that no script answers. The driver must not need any other call.
func (f *Fake) serveCall(w http.ResponseWriter, r *http.Request, call, id string) {
	switch call {
	case "HEAD /_ping", "GET /_ping":
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Ostype", "linux")
	case "GET /info":
		answer(w, map[string]any{
			"ServerVersion":      "20.10.0",
			"OSType":             "linux",
			"CgroupVersion":      "1",
			"LiveRestoreEnabled": f.LiveRestore,
		})

	case "POST /containers/create":
		f.create(w, r)
	case "GET /containers/json":
		f.list(w, r)
	default:
		f.serveContainer(w, r, strings.Replace(call, "/containers/{id}", "", 1), id)
	}
}

// serveContainer answers the calls for one container. call lacks the path of the container.
func (f *Fake) serveContainer(w http.ResponseWriter, r *http.Request, call, id string) {
	c := f.Find(id)
	if c == nil {
		fail(w, http.StatusNotFound, "No such container: "+id)
		return
	}

	switch call {
	case "GET /json":
		f.inspect(w, c)
	case "POST /start":
		f.Change(id, func(c *FakeContainer) {
			c.State.Running = true
			c.State.Status = "running"
			c.State.Pid = 4711
		})

		w.WriteHeader(http.StatusNoContent)

	case "POST /wait":
		f.wait(w, r, id)
	case "POST /kill":
		f.kill(w, r.URL.Query().Get("signal"), c)
	case "GET /logs":
		f.logs(w, r, id)
	case "GET /stats":
		answer(w, map[string]any{
			"cpu_stats": map[string]any{"cpu_usage": map[string]any{"total_usage": 42}},
			"memory_stats": map[string]any{
				"usage":     8,
				"max_usage": 9,
				"stats":     map[string]any{"total_rss": 7, "rss": 3},
			},
			"pids_stats": map[string]any{"current": 5},
		})

	case "DELETE ":
		f.mu.Lock()
		delete(f.containers, c.ID)
		f.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)

	default:
		fail(w, http.StatusNotFound, "the fake daemon does not know "+call)
	}
}

// create records a container. It checks only what the driver depends on: the name and the image.
func (f *Fake) create(w http.ResponseWriter, r *http.Request) {
	var request container.CreateRequest
	err := json.NewDecoder(r.Body).Decode(&request)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	name := r.URL.Query().Get("name")
	if f.find(name) != nil {
		fail(w, http.StatusConflict, "the container name is already in use")
		return
	}

	image := f.images[request.Image]
	if image == "" {
		fail(w, http.StatusNotFound, "No such image: "+request.Image)
		return
	}

	f.created++
	c := &FakeContainer{
		ID:      fmt.Sprintf("c%d", f.created),
		Name:    name,
		Created: time.Now(),
		Request: request,
		State:   container.State{Status: "created"},
		image:   image,
		changed: make(chan struct{}),
	}

	f.containers[c.ID] = c
	w.WriteHeader(http.StatusCreated)
	answer(w, map[string]any{"Id": c.ID})
}

// list answers with the containers that have all labels of the filter.
func (f *Fake) list(w http.ResponseWriter, r *http.Request) {
	var filters struct{ Label map[string]bool }
	err := json.Unmarshal([]byte(r.URL.Query().Get("filters")), &filters)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	list := []map[string]any{}
	for _, c := range f.containers {
		if !c.hasLabels(filters.Label) {
			continue
		}

		list = append(list, map[string]any{
			"Id":      c.ID,
			"Names":   []string{"/" + c.Name},
			"Created": c.Created.Unix(),
			"Labels":  c.Request.Labels,
			"State":   c.State.Status,
			"ImageID": c.image,
		})
	}

	answer(w, list)
}

// hasLabels compares names and values. The daemon also takes names alone, which the driver does not use.
func (c *FakeContainer) hasLabels(wanted map[string]bool) bool {
	for label := range wanted {
		name, value, _ := strings.Cut(label, "=")
		if c.Request.Labels[name] != value {
			return false
		}
	}
	return true
}

func (f *Fake) inspect(w http.ResponseWriter, c *FakeContainer) {
	answer(w, map[string]any{
		"Id":              c.ID,
		"Name":            "/" + c.Name,
		"Image":           c.image,
		"State":           c.State,
		"NetworkSettings": map[string]any{"Networks": f.Networks},
		"Config":          c.Request.Config,
		"HostConfig":      c.Request.HostConfig,
	})
}

// kill ends a container as its signal does. The codes are as the kernel's: 128 and the signal.
func (f *Fake) kill(w http.ResponseWriter, signal string, c *FakeContainer) {
	if !c.State.Running {
		fail(w, http.StatusConflict, "the container is not running")
		return
	}

	switch {
	case signal == "SIGKILL":
		f.End(c.ID, 137)
	case signal == "SIGTERM" && !c.Ignores:
		f.End(c.ID, 143)
	}

	w.WriteHeader(http.StatusNoContent)
}

// await returns when a container has changed since it was found, or the caller has gone.
func (f *Fake) await(r *http.Request, c *FakeContainer) bool {
	select {
	case <-c.changed:
		return true
	case <-r.Context().Done():
		return false
	}
}

// answer writes an answer in JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// fail writes an error in the form of the daemon.
func fail(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"message": message})
}
