package devices

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/client/drivers/catalog"
	"berth/client/drivers/drivertest"
	"berth/client/store"
	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/capacity"
	"berth/test/kit"
)

func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or each plugin takes a second to end
	if drivertest.PluginMain() {
		return
	}
	reopen = backoff.Backoff{Min: 100 * time.Millisecond, Max: 400 * time.Millisecond}
	goleak.VerifyTestMain(m, goleak.Cleanup(kit.ExitPlain))
}

// await calls ask at each change until it is content.
func await(t *testing.T, m *Manager, ask func() bool) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for !ask() {
		select {
		case <-m.Changes():
		case <-limit:
			t.Fatalf("no such report in time: %+v", m.Groups())
		}
	}
}

// running runs a manager until the end of the test.
func running(t *testing.T, m *Manager) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// external is a manager with the example device plugin of the dialect, which nobody here wrote: files are
// devices.
func external(t *testing.T, devices string) (*Manager, *store.DB) {
	t.Helper()
	program := drivertest.PeerPlugin(t, "example-device")
	dir := t.TempDir()
	err := os.Symlink(program, filepath.Join(dir, "example"))
	if err != nil {
		t.Fatal(err)
	}
	return managerOf(t, dir, &catalog.PluginConfig{
		Name:   "example",
		Config: map[string]any{"dir": devices, "list_period": "50ms"},
	})
}

// managerOf is a manager with the plugins of a directory.
func managerOf(t *testing.T, dir string, given ...*catalog.PluginConfig) (*Manager, *store.DB) {
	t.Helper()
	sockets, err := os.MkdirTemp("", "bp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	plugins, err := catalog.Open(t.Context(), catalog.Config{
		Dir:     dir,
		Sockets: sockets,
		Plugins: given,
	}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	records, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		none := func(string) bool { return false }
		err := plugins.KillOthers(context.Background(), records, none)
		if err != nil {
			t.Error(err)
		}
		_ = records.Close()
	})
	return New(Config{
		Catalog: plugins,
		Records: records,
		Others:  func(string) capacity.DeviceUse { return nil },
	}, hclog.NewNullLogger()), records
}

func touch(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, nil, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestManager_RunsAThirdPartyDevicePlugin(t *testing.T) {
	devices := t.TempDir()
	touch(t, filepath.Join(devices, "a"), 0o600)
	m, _ := external(t, devices)
	running(t, m)
	if err := m.WaitFirst(t.Context()); err != nil {
		t.Fatal(err)
	}
	health := func() string {
		var all []string
		for _, g := range m.Groups() {
			for _, d := range g.Instances {
				all = append(all, fmt.Sprintf("%s/%s=%t", g.ID(), filepath.Base(d.ID), d.Healthy))
			}
		}
		return strings.Join(all, " ")
	}
	await(t, m, func() bool { return health() == "nomad/file/mock/a=true" })
	touch(t, filepath.Join(devices, "b"), 0o777)
	await(t, m, func() bool { return health() == "nomad/file/mock/a=true nomad/file/mock/b=false" })
	id := m.Groups()[0].Instances[0].ID
	asked := &structs.AllocatedDeviceResource{
		Vendor:    "nomad",
		Type:      "file",
		Name:      "mock",
		DeviceIDs: []string{id},
	}
	r, err := m.Reserve(t.Context(), "alloc", []*structs.AllocatedDeviceResource{asked})
	if err != nil || len(r.Mounts)+len(r.Devices) == 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	asked.DeviceIDs = []string{"none"}
	_, err = m.Reserve(t.Context(), "alloc", []*structs.AllocatedDeviceResource{asked})
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("an unknown device: %v", err)
	}
}

// A device plugin need not report its devices to a second stream, so a new agent starts a new process.
func TestManager_EndsTheProcessOfAnEarlierAgent(t *testing.T) {
	devices := t.TempDir()
	touch(t, filepath.Join(devices, "a"), 0o600)
	m, records := external(t, devices)
	table := store.NewTable[catalog.Reattach]("plugin_processes")
	plugins := m.sources["example-fs-device"].(*plugin).supervisor.Catalog
	left, err := plugins.Start(t.Context(), "example-fs-device")
	if err != nil {
		t.Fatal(err)
	}
	defer left.Kill()
	record := left.Reattach()
	if err := table.Put(records, "example-fs-device", &record); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	await(t, m, func() bool { return len(m.Groups()) == 1 })
	<-left.Exited()
	cancel()
	<-done
	if all, err := table.All(records, ""); err != nil || len(all) != 0 {
		t.Errorf("a process is left after the agent: %v, %v", all, err)
	}
}

// still is a source that reports what it is given.
type still struct {
	reports chan []*structs.NodeDeviceResource
	answer  *Reservation
}

func (s *still) run(ctx context.Context, to reporter) {
	for {
		select {
		case groups := <-s.reports:
			to.groups(groups)
		case <-ctx.Done():
			return
		}
	}
}

func (s *still) reserve(context.Context, string, string, []string) (*Reservation, error) {
	return s.answer, nil
}

func TestWaitFirst_NamesThePluginThatHangs(t *testing.T) {
	m := newManager(hclog.NewNullLogger())
	quick := &still{reports: make(chan []*structs.NodeDeviceResource)}
	m.addSource("quick", quick)
	m.addSource("hangs", &still{})
	running(t, m)
	quick.reports <- []*structs.NodeDeviceResource{{Vendor: "v", Type: "t", Name: "n"}}
	await(t, m, func() bool { return len(m.Groups()) == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := m.WaitFirst(ctx)
	if err == nil || !strings.Contains(err.Error(), ": hangs:") {
		t.Errorf("got %v", err)
	}
}

// hanging is a source that does not answer.
type hanging struct{ still }

func (hanging) reserve(ctx context.Context, _, _ string, _ []string) (*Reservation, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The start of a task has no bound of its own: it would wait for a plugin without an end.
func TestReserve_OfAPluginThatHangsHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(hclog.NewNullLogger())
		m.addSource("hangs", &hanging{})
		m.setGroups("hangs", []*structs.NodeDeviceResource{{
			Vendor: "v", Type: "t", Name: "n",
			Instances: []*structs.NodeDevice{{ID: "0"}},
		}}, nil)
		began := time.Now()
		_, err := m.Reserve(t.Context(), "alloc", []*structs.AllocatedDeviceResource{{
			Vendor: "v", Type: "t", Name: "n",
			DeviceIDs: []string{"0"},
		}})
		const want = "failed to reserve devices 0 of v/t/n"
		if err == nil || !strings.Contains(err.Error(), want) || time.Since(began) != reserveTimeout {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func TestReserve_RejectsTwoValuesOfOneVariable(t *testing.T) {
	m := newManager(hclog.NewNullLogger())
	var asked []*structs.AllocatedDeviceResource
	for _, name := range []string{"a", "b"} {
		m.addSource(name, &still{answer: &Reservation{Env: map[string]string{"VISIBLE": name}}})
	}
	for _, name := range m.names {
		m.setGroups(name, []*structs.NodeDeviceResource{{
			Vendor: "v", Type: "t", Name: name,
			Instances: []*structs.NodeDevice{{ID: "0"}},
		}}, nil)
		d := &structs.AllocatedDeviceResource{Vendor: "v", Type: "t", Name: name, DeviceIDs: []string{"0"}}
		asked = append(asked, d)
	}
	r, err := m.Reserve(t.Context(), "alloc", asked[:1])
	if err != nil || !reflect.DeepEqual(r.Env, map[string]string{"VISIBLE": "a"}) {
		t.Errorf("got %+v, %v", r, err)
	}
	_, err = m.Reserve(t.Context(), "alloc", asked)
	if !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("got %v", err)
	}
}

// The servers know a device by its group and ID, so they take one of a renamed group for another device.
func TestReserve_RejectsADeviceOfARenamedGroup(t *testing.T) {
	for name, c := range map[string]struct {
		held   string // the group whose device 0 another allocation has
		before string // a group that is reported beside v/t/new, with one device
		device string // the ID of that device
		want   structs.Kind
	}{
		"the group is gone":      {"v/t/old", "v/t/x", "0", structs.KindUnavailable},
		"the device is gone":     {"v/t/old", "v/t/old", "1", structs.KindUnavailable},
		"both are reported":      {"v/t/old", "v/t/old", "0", ""},
		"a group of another":     {"w/t/old", "v/t/x", "0", ""},
		"a group of other type":  {"v/u/old", "v/t/x", "0", ""},
		"it has the same device": {"v/t/new", "v/t/x", "0", ""}, // the hook of the task has waited for it
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(hclog.NewNullLogger())
			m.others = func(alloc string) capacity.DeviceUse {
				return capacity.DeviceUse{c.held: {"0": "other of " + alloc}}
			}
			m.addSource("a", &still{answer: &Reservation{}})
			m.setGroups("a", []*structs.NodeDeviceResource{
				{Vendor: "v", Type: "t", Name: filepath.Base(c.before), Instances: []*structs.NodeDevice{{ID: c.device}}},
				{Vendor: "v", Type: "t", Name: "new", Instances: []*structs.NodeDevice{{ID: "0"}, {ID: "2"}}},
			}, nil)
			asked := &structs.AllocatedDeviceResource{
				Vendor:    "v",
				Type:      "t",
				Name:      "new",
				DeviceIDs: []string{"2"},
			}
			_, err := m.Reserve(t.Context(), "alloc", []*structs.AllocatedDeviceResource{asked})
			if err != nil {
				t.Errorf("another device: %v", err)
			}
			asked.DeviceIDs = []string{"2", "0"}
			_, err = m.Reserve(t.Context(), "alloc", []*structs.AllocatedDeviceResource{asked})
			if c.want == "" && err != nil || c.want != "" && !structs.IsKind(err, c.want) {
				t.Errorf("got %v, want an error of kind %q", err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), `other of alloc has the device "0" as one of `+c.held) {
				t.Errorf("the holder is not named: %v", err)
			}
		})
	}
}

func TestHost_FollowsDeviceFiles(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "zero")
	if err := os.Symlink("/dev/zero", link); err != nil {
		t.Fatal(err)
	}
	touch(t, filepath.Join(dir, "zfile"), 0o600)
	g := &HostGroup{
		ID:         "linux/char/zero",
		Paths:      []string{dir + "/z*"},
		Attributes: map[string]any{"n": int64(1), "memory": "11 GiB", "model": "x1"},
	}
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	h := hostOf(t, g, &HostGroup{ID: "a/b/c", Paths: []string{dir + "/none"}})
	groups := h.scan()
	if len(groups) != 1 || len(groups[0].Instances) != 2 || *groups[0].Attributes["n"].Int != 1 {
		t.Fatalf("got %+v", groups)
	}
	memory := groups[0].Attributes["memory"]
	if *memory.Int != 11 || memory.Unit != "GiB" || *groups[0].Attributes["model"].String != "x1" {
		t.Errorf("got the attributes %+v", groups[0].Attributes)
	}
	if zero, file := groups[0].Instances[0], groups[0].Instances[1]; !zero.Healthy || file.Healthy {
		t.Errorf("got %+v and %+v", zero, file)
	}
	r, err := h.reserve(t.Context(), "alloc", g.ID, []string{link})
	want := []DeviceFile{{TaskPath: link, HostPath: "/dev/zero", Permissions: "rw"}}
	if err != nil || !reflect.DeepEqual(r.Devices, want) || r.Env["BERTH_DEVICES_LINUX_CHAR_ZERO"] != link {
		t.Errorf("got %+v, %v", r, err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	gone := h.scan()[0].Instance(link)
	if gone == nil || gone.Healthy {
		t.Errorf("a device that is gone: %+v", gone)
	}
	if _, err := h.reserve(t.Context(), "alloc", g.ID, []string{link}); !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestHostGroup_NamesEachFault(t *testing.T) {
	g := &HostGroup{
		ID:          "a/b",
		Paths:       []string{"dev/x", "/dev/["},
		Permissions: "rx",
		Attributes:  map[string]any{"x": nil},
	}
	err := g.Validate()
	for _, want := range []string{"three parts", `"dev/x"`, `"/dev/["`, `"rx"`, `"x" is no text`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
}
