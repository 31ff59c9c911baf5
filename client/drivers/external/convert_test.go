package external

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/driver"
	protocol "berth/client/drivers/protocol/driver"
	"berth/structs"
)

// lastStarted is the configuration that the plugin got last.
func (f *fixture) lastStarted() *protocol.TaskConfig {
	f.t.Helper()
	lines := f.plugin.Lines("started")
	if len(lines) == 0 {
		f.t.Fatal("the plugin got no configuration")
	}
	cfg := &protocol.TaskConfig{}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), cfg); err != nil {
		f.t.Fatal(err)
	}
	return cfg
}

func TestStart_PassesTheTaskOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	if !a.HostPaths() {
		t.Error("a driver without a root hides the paths of the host")
	}
	cfg := f.task("a1", "exit 0")
	cfg.Mounts = []driver.Mount{
		{HostPath: "/dev/a", TaskPath: "/dev/b", Device: true, Permissions: "rw"},
		{HostPath: "/dev/c", TaskPath: "/dev/c", Device: true},
		{HostPath: "/dev/d", TaskPath: "/dev/d", Device: true, ReadOnly: true},
	}
	cfg.Of.ParentID = "parent"
	cfg.DeviceEnv = map[string]string{"GPU": "1"}
	cfg.Ports = []structs.AllocatedPort{{Label: "http", Value: 20000, To: 80, HostIP: "10.0.0.1"}}
	a.start(cfg)
	got := f.lastStarted()
	if p := got.GetResources().GetPorts(); len(p) != 1 || p[0].GetLabel() != "http" ||
		p[0].GetValue() != 20000 || p[0].GetTo() != 80 || p[0].GetHostIp() != "10.0.0.1" {
		t.Errorf("ports %v", p)
	}
	if got.GetId() != "a1/web" || got.GetAllocId() != "a1" || got.GetJobId() != "job1" ||
		got.GetJobName() != "job one" || got.GetTaskGroupName() != "g" || got.GetNamespace() != "default" ||
		got.GetNodeId() != "n1" ||
		got.GetResources().GetLinuxResources().GetMemoryLimitBytes() != 64<<20 {
		t.Errorf("got %v", got)
	}
	if got.GetParentJobId() != "parent" || got.GetDeviceEnv()["GPU"] != "1" {
		t.Errorf("parent %q, variables of devices %v", got.GetParentJobId(), got.GetDeviceEnv())
	}
	var devices []string
	for _, d := range got.GetDevices() {
		devices = append(devices, d.GetHostPath()+":"+d.GetTaskPath()+":"+d.GetCgroupPermissions())
	}
	want := []string{"/dev/a:/dev/b:rw", "/dev/c:/dev/c:rwm", "/dev/d:/dev/d:r"}
	if !slices.Equal(devices, want) || len(got.GetMounts()) != 0 {
		t.Errorf("devices %q, mounts %v", devices, got.GetMounts())
	}
	a.destroy(cfg.ID)
}

// A task of the mode unveil sees a part of the host, under the paths of the host.
func TestHostPaths_AreThoseOfTheIsolation(t *testing.T) {
	for isolation, want := range map[protocol.DriverCapabilities_FSIsolation]bool{
		protocol.DriverCapabilities_NONE:   true,
		protocol.DriverCapabilities_UNVEIL: true,
		protocol.DriverCapabilities_CHROOT: false,
		protocol.DriverCapabilities_IMAGE:  false,
	} {
		d := New("x", Config{}, hclog.NewNullLogger())
		d.can = &protocol.DriverCapabilities{FsIsolation: isolation}
		if got := d.HostPaths(); got != want {
			t.Errorf("%s: got %t", isolation, got)
		}
	}
}

func TestStart_RejectsAMountThatTheDriverCannotMake(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", "exit 0")
	cfg.Mounts = []driver.Mount{{HostPath: "/data", TaskPath: "/data"}}
	_, err := a.Start(t.Context(), cfg)
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "/data") {
		t.Errorf("got %v", err)
	}
}

// A task does not start if its root would show what it must not see.
func TestStart_FailsWithoutItsCovers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.plugin.Set("isolation", "chroot")
	f.covers = func() ([]driver.Mount, error) { return nil, structs.Preconditionf("no covers") }
	_, err := f.agent().Start(t.Context(), f.task("a1", "exit 0"))
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "no covers") {
		t.Errorf("got %v", err)
	}
}

func TestStart_FillsTheRootOfATask(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.plugin.Set("isolation", "chroot")
	f.covers = func() ([]driver.Mount, error) {
		return []driver.Mount{{HostPath: "/empty", TaskPath: "/bin/hidden", ReadOnly: true}}, nil
	}
	a := f.agent()
	if a.HostPaths() {
		t.Error("a task with a root sees the paths of the host")
	}
	cfg := f.task("a1", "exit 0")
	cfg.Mounts = []driver.Mount{{
		HostPath:    "/data",
		TaskPath:    "/vol",
		Propagation: "bidirectional",
		Volume:      "db",
	}}
	a.start(cfg)
	var got []string
	for _, m := range f.lastStarted().GetMounts() {
		text := m.GetHostPath() + " " + m.GetTaskPath() + " " + m.GetPropagationMode()
		if m.GetReadonly() {
			text += " ro"
		}
		if m.GetRequestName() != "" {
			text += " of " + m.GetRequestName()
		}
		got = append(got, text)
	}
	want := []string{
		"/bin /bin private ro",
		"/empty /bin/hidden private ro",
		cfg.Dirs.AllocShared + " /alloc private",
		"/data /vol bidirectional of db",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, dir := range []string{cfg.Dirs.Local, cfg.Dirs.Secrets} {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o777 {
			t.Errorf("%s: mode %v, %v", dir, info.Mode(), err)
		}
	}
	a.destroy(cfg.ID)
}

func TestStats_AreThoseOfThePlugin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", loops)
	a.start(cfg)
	got, err := a.Stats(t.Context(), cfg.ID)
	if err != nil || got.MemoryRSS != 1<<20 || got.MemoryMax != 2<<20 || got.CollectedAt == 0 ||
		got.Percent == nil || *got.Percent != 50 {
		t.Errorf("got %+v, %v", got, err)
	}
	a.destroy(cfg.ID)
}

func TestAddVersion_KeepsThatOfTheDriver(t *testing.T) {
	d := New("x", Config{Version: "v1"}, hclog.NewNullLogger())
	for own, want := range map[string]string{"": "v1", "24.0": "24.0"} {
		info := &structs.DriverInfo{Attributes: map[string]string{"driver.x.version": own}}
		d.addVersion(info)
		if got := info.Attributes["driver.x.version"]; got != want {
			t.Errorf("the driver says %q: got %q, want %q", own, got, want)
		}
	}
}

func TestStart_PassesTheNetworkOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.plugin.Set("network", "group")
	a := f.agent()
	cfg := f.task("a1", "exit 0")
	cfg.Network = &driver.Network{
		Namespace: "/var/run/netns/a1",
		Hostname:  "web",
		Address:   "10.0.0.7",
		DNS:       &structs.DNSConfig{Servers: []string{"10.0.0.53"}},
	}
	a.start(cfg)
	got := f.lastStarted()
	n := got.GetNetworkIsolationSpec()
	if n.GetPath() != "/var/run/netns/a1" || n.GetMode() != protocol.NetworkIsolationSpec_GROUP ||
		n.GetHostsConfig().GetHostname() != "web" || n.GetHostsConfig().GetAddress() != "10.0.0.7" {
		t.Errorf("the network is %v", n)
	}
	if d := got.GetDns(); !slices.Equal(d.GetServers(), []string{"10.0.0.53"}) {
		t.Errorf("the resolver is %v", d)
	}
	a.destroy(cfg.ID)
}

func TestStart_RejectsANetworkThatTheDriverCannotJoin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", "exit 0")
	cfg.Network = &driver.Network{Namespace: "/var/run/netns/a1"}
	_, err := a.Start(t.Context(), cfg)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %v", err)
	}
}

func TestAddIsolation_IsThatOfTheCapabilities(t *testing.T) {
	group := []protocol.NetworkIsolationSpec_NetworkIsolationMode{protocol.NetworkIsolationSpec_GROUP}
	name := structs.AttrNetworkNamespace("x")
	for _, c := range []struct {
		can  *protocol.DriverCapabilities
		want string
	}{
		{nil, ""},
		{&protocol.DriverCapabilities{}, ""},
		{&protocol.DriverCapabilities{NetworkIsolationModes: group}, "1"},
		{&protocol.DriverCapabilities{NetworkIsolationModes: group, MustCreateNetwork: true}, ""},
	} {
		d := New("x", Config{}, hclog.NewNullLogger())
		d.can = c.can
		info := &structs.DriverInfo{Attributes: map[string]string{name: "of the plugin"}}
		d.addIsolation(info)
		if got := info.Attributes[name]; got != c.want {
			t.Errorf("%v: got %q", c.can, got)
		}
	}
}
