package manager

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/catalog"
	"berth/client/drivers/docker"
	"berth/client/drivers/drivertest"
	"berth/client/store"
	"berth/structs"
)

// pluginNode is a node with one external driver.
type pluginNode struct {
	plugin  *drivertest.Plugin
	options Options
}

// newPluginNode makes a node. blocks are the `plugin` blocks of its configuration.
func newPluginNode(t *testing.T, name string, blocks ...*catalog.PluginConfig) *pluginNode {
	t.Helper()
	dir, err := os.MkdirTemp("", "bm") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	programs := filepath.Join(dir, "p")
	sockets := filepath.Join(dir, "s")
	err = errors.Join(os.Mkdir(programs, 0o700), os.Mkdir(sockets, 0o700))
	if err != nil {
		t.Fatal(err)
	}
	n := &pluginNode{plugin: drivertest.InstallPlugin(t, programs, drivertest.DriverPlugin, os.Args[0])}
	records, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = records.Close() })
	n.plugin.Set("name", name)
	config := catalog.Config{Dir: programs, Sockets: sockets, Plugins: blocks}
	plugins, err := catalog.Open(t.Context(), config, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		none := func(string) bool { return false }
		if err := plugins.KillOthers(context.Background(), records, none); err != nil {
			t.Error(err)
		}
	})
	n.options = Options{
		Dir:     filepath.Join(dir, "tasks"),
		Plugins: plugins,
		Records: records,
		Logger:  hclog.NewNullLogger(),
	}
	return n
}

func TestManager_ConnectsAnExternalDriver(t *testing.T) {
	n := newPluginNode(t, "test-driver")
	m, err := New(Config{Allowed: []string{"test-driver"}}, n.options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	if err := m.WaitFirst(ctx); err != nil {
		t.Fatal(err)
	}
	infos := m.Infos()
	if info := infos["test-driver"]; len(infos) != 1 || info == nil || !info.Healthy {
		t.Errorf("the drivers are %v", infos)
	}
	got := make(chan *structs.TaskEvent, 10)
	defer m.FollowTask("a1", "web", func(e *structs.TaskEvent) { got <- e })()
	n.plugin.Emit("a1", "web", "hello")
	select {
	case e := <-got:
		if e.Type != structs.TaskEventDriver || e.Message != "hello" {
			t.Errorf("got %+v", e)
		}
	case <-ctx.Done():
		t.Error("the event of the task does not arrive")
	}
}

// The tasks of an external driver that is denied are not known to have ended.
func TestDriver_ThatIsExternalAndDenied(t *testing.T) {
	n := newPluginNode(t, "test-driver")
	m, err := New(Config{Denied: []string{"test-driver"}}, n.options)
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.Driver("test-driver")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Validate(nil); !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("got %v", err)
	}
	if err := d.Destroy(t.Context(), "a1/web", nil); !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("destroying a task: %v", err)
	}
}

// A program with the name of a built-in driver does not keep the node down.
func TestNew_KeepsABuiltInDriverThatAPluginHasTheNameOf(t *testing.T) {
	n := newPluginNode(t, docker.Name)
	m, err := New(Config{}, n.options)
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.Driver(docker.Name)
	if _, isBuiltIn := d.(*docker.Driver); err != nil || !isBuiltIn {
		t.Errorf("the driver is %T, %v", d, err)
	}
}

// The settings of a built-in driver have their place: a block's settings would be lost.
func TestNew_RejectsABlockForABuiltInDriver(t *testing.T) {
	n := newPluginNode(t, "test-driver", &catalog.PluginConfig{Name: docker.Name})
	_, err := New(Config{}, n.options)
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "client { drivers { } }") {
		t.Errorf("got %v", err)
	}
}
