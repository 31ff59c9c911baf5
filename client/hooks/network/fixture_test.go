package network

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/hooks"
	"berth/client/machine/cni"
	"berth/client/store"
	"berth/structs"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashVar); dir != "" {
		runAgent(dir)
		return
	}
	os.Exit(m.Run())
}

func openDB(t testing.TB, dir string) *store.DB {
	t.Helper()
	db, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// envOf returns the environment of an allocation whose group has the network.
func envOf(id string, n *structs.NetworkResource, ports ...structs.AllocatedPort) *hooks.AllocEnv {
	return &hooks.AllocEnv{
		Alloc: &structs.Allocation{
			ID:    id,
			Ports: ports,
		},
		Group:   &structs.TaskGroup{Networks: []*structs.NetworkResource{n}},
		Running: func() bool { return false },
		Expand:  func(text string) string { return strings.ReplaceAll(text, "${x}", "expanded") },
	}
}

// fake is a machine whose calls fail from a number on. It has the networks of one allocation.
type fake struct {
	t    *testing.T
	db   *store.DB
	path string
	live bool

	calls    []string
	failAt   int // the number of the first call that fails, from 1; 0: none
	detached [][]cni.Port
}

func newFake(t *testing.T) *fake {
	return &fake{t: t, db: openDB(t, t.TempDir())}
}

func (f *fake) config() Config {
	return Config{
		DB:         f.db,
		Dir:        filepath.Join(f.t.TempDir(), "files"),
		Namespaces: f,
		Networks:   f,
		Logger:     hclog.NewNullLogger(),
	}
}

// call notes a call, and whether a record of the allocation is there.
func (f *fake) call(name string) error {
	all, err := records.All(f.db, "")
	if err != nil {
		f.t.Fatal(err)
	}
	if len(all) > 0 {
		name += " (recorded)"
	}
	f.calls = append(f.calls, name)
	if f.failAt > 0 && len(f.calls) >= f.failAt {
		return structs.Unavailablef("%s fails", name)
	}
	return nil
}

func (f *fake) Make(path string) error {
	f.path = path
	f.live = true // also a failure may leave it
	return f.call("make")
}

func (f *fake) IsLive(path string) bool { return f.live && path == f.path }

func (f *fake) Remove(string) error {
	err := f.call("remove")
	f.live = f.live && err != nil
	return err
}

func (f *fake) Plan(mode string, ports []structs.AllocatedPort) (*cni.Attachment, error) {
	a := &cni.Attachment{Network: mode}
	for _, p := range ports {
		a.Ports = append(a.Ports, cni.Port{HostPort: p.Value})
	}
	return a, f.call("plan")
}

func (f *fake) Attach(_ context.Context, _ cni.Target, a *cni.Attachment, save func() error) (
	*structs.AllocNetworkStatus, error,
) {
	a.Result = []byte("{}")
	if err := save(); err != nil {
		return nil, err
	}
	if err := f.call("attach"); err != nil {
		return nil, err
	}
	return &structs.AllocNetworkStatus{
		InterfaceName: "eth0",
		Address:       "10.0.0.7",
		DNS:           &structs.DNSConfig{Servers: []string{"10.0.0.53"}},
	}, nil
}

func (f *fake) Detach(_ context.Context, _ cni.Target, a *cni.Attachment) error {
	f.detached = append(f.detached, a.Ports)
	return f.call("detach")
}

// take returns the calls since the last take.
func (f *fake) take() string {
	all := strings.Join(f.calls, ", ")
	f.calls = nil
	return all
}
