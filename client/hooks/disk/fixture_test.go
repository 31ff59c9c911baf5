package disk

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/hooks"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

// cluster is the servers, in memory, and some nodes.
type cluster struct {
	t      *testing.T
	rpc    *rpc.Server
	nodes  map[string]*node
	down   map[string]bool
	allocs map[string]*structs.Allocation

	mu    sync.Mutex
	pages int
	// fail is the error of a call for a page, if it is not nil. It gets the number of the call.
	fail func(page int) error
	// edit changes a page on its way.
	edit func(*nodecalls.AllocDataResponse)
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{
		t:      t,
		nodes:  map[string]*node{},
		down:   map[string]bool{},
		allocs: map[string]*structs.Allocation{},
		fail:   func(int) error { return nil },
		edit:   func(*nodecalls.AllocDataResponse) {},
	}
	c.rpc = rpc.NewServer(hclog.NewNullLogger(),
		rpc.Handle(structs.AllocGet, c.alloc),
		rpc.Handle(nodecalls.AllocData, c.data))
	return c
}

// Call implements rpc.Caller.
func (c *cluster) Call(ctx context.Context, method string, req, resp any) error {
	return c.rpc.Call(ctx, method, req, resp)
}

func (c *cluster) alloc(_ context.Context, r *structs.AllocGetRequest) (*structs.AllocGetResponse, error) {
	a := c.allocs[r.AllocID]
	if a == nil {
		return nil, structs.NotFoundf("no allocation %s", r.AllocID)
	}
	return &structs.AllocGetResponse{Alloc: a}, nil
}

func (c *cluster) data(
	ctx context.Context, r *nodecalls.AllocDataRequest,
) (*nodecalls.AllocDataResponse, error) {
	c.mu.Lock()
	c.pages++
	err := c.fail(c.pages)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	from := c.allocs[r.AllocID].NodeID
	if c.down[from] {
		return nil, structs.Preconditionf("it is down, or not registered any more")
	}
	resp, err := c.nodes[from].config().serve(ctx, r)
	if err == nil {
		c.edit(resp)
	}
	return resp, err
}

// node is a node of the cluster.
type node struct {
	*cluster
	id     string
	dir    string
	local  map[string]Local
	said   []string // progress
	events []string

	settings Settings
}

func (c *cluster) addNode(id string) *node {
	n := &node{cluster: c, id: id, dir: c.t.TempDir(), local: map[string]Local{}, settings: DefaultSettings()}
	c.nodes[id] = n
	return n
}

func (n *node) config() Config {
	complete := make(chan struct{})
	close(complete)
	return Config{
		NodeID:   n.id,
		Servers:  n.cluster,
		Logger:   hclog.NewNullLogger(),
		Complete: complete,
		Local: func(id string) (Local, bool) {
			a, ok := n.local[id]
			return a, ok
		},
		Settings: func() Settings {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.settings
		},
		Progress: func(id, reason string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.said = append(n.said, id+": "+reason)
		},
		Report: func(id, message string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, id+": "+message)
		},
	}
}

// group is a group with a sticky disk.
func group(migrate bool, tasks ...string) *structs.TaskGroup {
	g := &structs.TaskGroup{
		Name:          "g",
		EphemeralDisk: &structs.EphemeralDisk{SizeMB: 10, Sticky: true, Migrate: migrate},
	}
	for _, name := range tasks {
		g.Tasks = append(g.Tasks, &structs.Task{Name: name})
	}
	return g
}

// place adds an allocation with the directories that its runner makes. It has ended, unless the caller opens
// its channel again.
func (n *node) place(id, previous string, g *structs.TaskGroup) Local {
	n.t.Helper()
	a := &structs.Allocation{
		ID:                 id,
		NodeID:             n.id,
		PreviousAllocation: previous,
		TaskGroup:          g.Name,
		ClientStatus:       structs.AllocComplete,
		Job:                &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{g}},
	}
	n.allocs[id] = a
	ended := make(chan struct{})
	close(ended)
	n.local[id] = Local{a, filepath.Join(n.dir, id), ended}
	for _, dir := range append(dataDirs(g), "alloc/logs") {
		n.make(id, dir)
	}
	return n.local[id]
}

func (n *node) make(elem ...string) {
	n.t.Helper()
	kit.Must(n.t, os.MkdirAll(filepath.Join(append([]string{n.dir}, elem...)...), 0o755))
}

// write writes files, path and content, of an allocation.
func (n *node) write(id string, files map[string]string) {
	n.t.Helper()
	for path, text := range files {
		n.make(id, filepath.Dir(path))
		kit.Must(n.t, os.WriteFile(filepath.Join(n.dir, id, path), []byte(text), 0o640))
	}
}

// files returns the files of an allocation, without this package's own.
func (n *node) files(id string) map[string]string {
	n.t.Helper()
	files := map[string]string{}
	kit.Must(n.t, filepath.WalkDir(filepath.Join(n.dir, id), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		below, _ := filepath.Rel(filepath.Join(n.dir, id), path)
		if strings.HasPrefix(below, ownDir) || !e.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		files[below] = string(text)
		return err
	}))
	return files
}

func (n *node) hook(id string) (hooks.Alloc, *hooks.AllocEnv) {
	a := n.local[id]
	env := &hooks.AllocEnv{Alloc: a.Alloc, Group: a.Alloc.Job.TaskGroups[0], Dir: a.Dir}
	return New(env, n.config()), env
}

// up sets up the disk of an allocation.
func (n *node) up(id string) {
	n.t.Helper()
	h, env := n.hook(id)
	kit.Must(n.t, h.Up(context.Background(), env))
	if Waits(env.Alloc, env.Dir) != "" {
		n.t.Errorf("allocation %s still waits for data", id)
	}
	left, err := os.ReadDir(filepath.Join(env.Dir, ownDir))
	if err != nil || len(left) != 1 || left[0].Name() != doneName {
		n.t.Errorf("allocation %s has left %v, %v", id, left, err)
	}
	kit.Must(n.t, h.Down(context.Background()))
}

func (n *node) expect(id string, want map[string]string) {
	n.t.Helper()
	if got := n.files(id); !maps.Equal(got, want) {
		n.t.Errorf("allocation %s has %v, want %v", id, got, want)
	}
}

// tree describes all files below a directory, one per line.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var lines []string
	kit.Must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		line := fmt.Sprintf("%s %s %d:%d", strings.TrimPrefix(path, dir), info.Mode(), st.Uid, st.Gid)
		switch {
		case info.Mode().IsRegular():
			text, err := os.ReadFile(path)
			kit.Must(t, err)
			line += fmt.Sprintf(" %s %x", info.ModTime().UTC().Format("15:04:05.000000"), text)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			kit.Must(t, err)
			line += " -> " + target
		}
		lines = append(lines, line)
		return nil
	}))
	slices.Sort(lines)
	return lines
}
