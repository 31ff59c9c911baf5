package docker

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/structs"
)

// created starts a task with a config and returns its container.
func (f *fixture) created(
	cfg taskconfig.Settings, task *driver.TaskConfig, config map[string]any,
) *container.CreateRequest {
	f.t.Helper()
	maps.Copy(task.Config, config)
	f.start(f.agent(cfg), task)
	request := f.container(task).Request
	return &request
}

// permissive has the settings of a node that allows everything.
func (f *fixture) permissive() taskconfig.Settings {
	cfg := f.config()
	cfg.AllowPrivileged = true
	cfg.AllowCaps = []string{"all"}
	cfg.Volumes.Enabled = true
	return cfg
}

func TestContainer_HasTheTasksProgram(t *testing.T) {
	f := newFixture(t)
	cfg := f.task("a1")
	cfg.User = "1000:1001"
	c := f.created(f.config(), cfg, map[string]any{
		"entrypoint":  []any{"/bin/e"},
		"command":     "serve",
		"args":        []any{"-x", "y"},
		"work_dir":    "/srv",
		"hostname":    "h",
		"interactive": true,
		"tty":         true,
		"labels":      map[string]any{"mine": "1", labelTask: "stolen", "berth.job_id": "stolen"},
	}).Config
	if !slices.Equal(c.Entrypoint, []string{"/bin/e"}) || !slices.Equal(c.Cmd, []string{"serve", "-x", "y"}) ||
		c.WorkingDir != "/srv" || c.Hostname != "h" || !c.OpenStdin || !c.Tty || c.User != "1000:1001" ||
		c.Image != "sha256:a" || c.Labels["mine"] != "1" || c.Labels[labelTask] != cfg.ID ||
		c.Labels["berth.job_id"] != "job" ||
		!slices.Contains(c.Env, "GREETING=hello") {
		t.Errorf("got %+v", c)
	}
	for _, dir := range []string{cfg.Dirs.Local, cfg.Dirs.Secrets} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if uid := uidOf(info); os.Geteuid() == 0 && uid != 1000 {
			t.Errorf("%s belongs to user %d", dir, uid)
		}
	}
}

func TestContainer_HasTheTasksHealthCheck(t *testing.T) {
	for _, c := range []struct {
		block map[string]any
		want  container.HealthConfig
	}{
		{map[string]any{"disable": true}, container.HealthConfig{Test: []string{"NONE"}}},
		{map[string]any{"test": []any{"/ok", "-x"}, "interval": "5s", "retries": 2},
			container.HealthConfig{Test: []string{"CMD", "/ok", "-x"}, Interval: 5 * time.Second, Retries: 2}},
		{map[string]any{"test": []any{"CMD-SHELL", "true"}},
			container.HealthConfig{Test: []string{"CMD-SHELL", "true"}}},
	} {
		f := newFixture(t)
		got := f.created(f.config(), f.task("a1"), map[string]any{"healthchecks": c.block}).Healthcheck
		if got == nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%v: got %+v, want %+v", c.block, got, c.want)
		}
	}
}

func TestContainer_HasTheTasksLimits(t *testing.T) {
	for _, c := range []struct {
		name      string
		resources structs.Resources
		config    map[string]any
		check     func(*container.HostConfig) bool
	}{
		{"plain", structs.Resources{CPU: 500, MemoryMB: 64}, nil, func(h *container.HostConfig) bool {
			return h.CPUShares == 500 && h.Memory == 64<<20 && h.MemorySwap == 64<<20 && h.MemoryReservation == 0 &&
				*h.PidsLimit == 4096 && h.CPUQuota == 0
		}},
		{"memory_max", structs.Resources{CPU: 1, MemoryMB: 64, MemoryMaxMB: 128}, nil,
			func(h *container.HostConfig) bool {
				return h.CPUShares == 2 && h.Memory == 128<<20 && h.MemoryReservation == 64<<20
			}},
		{"memory_max beside less than a daemon reserves", structs.Resources{MemoryMB: 4, MemoryMaxMB: 64}, nil,
			func(h *container.HostConfig) bool { return h.Memory == 64<<20 && h.MemoryReservation == 0 }},
		{"more than the kernel's greatest weight", structs.Resources{CPU: 400_000, MemoryMB: 64}, nil,
			func(h *container.HostConfig) bool { return h.CPUShares == 262_144 }},
		{"hard limits", structs.Resources{CPU: 500, MemoryMB: 64}, map[string]any{
			"memory_hard_limit": 256, "pids_limit": 9, "cpu_hard_limit": true, "cpu_cfs_period": 50000,
		}, func(h *container.HostConfig) bool {
			share := float64(500) / 2000 * float64(cores())
			return h.Memory == 256<<20 && *h.PidsLimit == 9 && h.CPUPeriod == 50000 && h.CPUQuota == int64(share*50000)
		}},
		{"too little memory for a container", structs.Resources{CPU: 500, MemoryMB: 1}, nil,
			func(h *container.HostConfig) bool { return h.Memory == 6<<20 }},
		{"other limits", structs.Resources{}, map[string]any{
			"ulimit": map[string]any{"nofile": "10:20"}, "sysctl": map[string]any{"a.b": "1"}, "oom_score_adj": 7,
			"shm_size": 4096, "storage_opt": map[string]any{"size": "1G"},
		}, func(h *container.HostConfig) bool {
			return h.Memory == 0 && h.Ulimits[0].String() == "nofile=10:20" && h.Sysctls["a.b"] == "1" &&
				h.OomScoreAdj == 7 && h.ShmSize == 4096 && h.StorageOpt["size"] == "1G"
		}},
	} {
		f := newFixture(t)
		cfg := f.task("a1")
		cfg.Resources = c.resources
		if h := f.created(f.config(), cfg, c.config).HostConfig; !c.check(h) {
			t.Errorf("%s: got %+v", c.name, h)
		}
	}
}

func TestContainer_RejectsALimitBelowTheTasksMemory(t *testing.T) {
	f := newFixture(t)
	cfg := f.task("a1")
	cfg.Config["memory_hard_limit"] = 32
	_, err := f.agent(f.config()).Start(t.Context(), cfg)
	if !structs.IsKind(err, structs.KindInvalid) ||
		!strings.Contains(err.Error(), "config.memory_hard_limit: 32") {
		t.Errorf("got %v", err)
	}
}

func TestContainer_HasTheTasksNetwork(t *testing.T) {
	f := newFixture(t)
	h := f.created(f.permissive(), f.task("a1"), map[string]any{
		"network_mode": "host", "dns_servers": []any{"10.0.0.1"}, "dns_search_domains": []any{"x.y"},
		"dns_options": []any{"ndots:1"}, "extra_hosts": []any{"db:10.0.0.2"}, "pid_mode": "host",
		"ipc_mode": "host", "uts_mode": "host", "userns_mode": "host", "init": true, "readonly_rootfs": true,
		"group_add": []any{"g"},
	}).HostConfig
	if h.NetworkMode != "host" || !reflect.DeepEqual(h.DNS, []netip.Addr{netip.MustParseAddr("10.0.0.1")}) ||
		h.DNSSearch[0] != "x.y" || h.DNSOptions[0] != "ndots:1" || h.ExtraHosts[0] != "db:10.0.0.2" ||
		h.PidMode != "host" || h.IpcMode != "host" || h.UTSMode != "host" || h.UsernsMode != "host" ||
		!*h.Init || !h.ReadonlyRootfs || h.GroupAdd[0] != "g" {
		t.Errorf("got %+v", h)
	}
}

// The tasks of an allocation may share a network.
func TestContainer_JoinsTheNetworkOfItsAllocation(t *testing.T) {
	f := newFixture(t)
	h := f.created(f.config(), f.task("a1"), map[string]any{"network_mode": "container:proxy-a1"}).HostConfig
	if h.NetworkMode != "container:proxy-a1" {
		t.Errorf("got %q", h.NetworkMode)
	}
}

func TestContainer_KeepsItsOutputForBerth(t *testing.T) {
	f := newFixture(t)
	cfg := f.task("a1")
	got := f.created(f.config(), cfg, nil).HostConfig.LogConfig
	want := container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "16m", "max-file": "2"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	cfg = f.task("a2")
	cfg.LogConfig.Disabled = true
	if got := f.created(f.config(), cfg, nil).HostConfig.LogConfig; got.Type != "none" {
		t.Errorf("without logs: got %+v", got)
	}
}

func TestStart_DeniesWhatTheNodeDoesNotAllow(t *testing.T) {
	for _, c := range []struct {
		config map[string]any
		want   string
	}{
		{map[string]any{"privileged": true}, "config.privileged: "},
		{map[string]any{"network_mode": "container:db"}, "config.network_mode: "},
		{map[string]any{"pid_mode": "host"}, "config.pid_mode: "},
		{map[string]any{"ipc_mode": "host"}, "config.ipc_mode: "},
		{map[string]any{"uts_mode": "host"}, "config.uts_mode: "},
		{map[string]any{"userns_mode": "host"}, "config.userns_mode: "},
		{map[string]any{"cap_add": []any{"SYS_ADMIN"}}, `config.cap_add: this node does not allow "sys_admin"`},
		{map[string]any{"cap_add": []any{"all"}}, `config.cap_add: this node does not allow "all"`},
		{map[string]any{"security_opt": []any{"seccomp=unconfined"}}, "config.security_opt: "},
		{map[string]any{"security_opt": []any{"systempaths:unconfined"}}, "config.security_opt: "},
		{map[string]any{"security_opt": []any{"seccomp=local/p.json"}}, "config.security_opt: "},
		{map[string]any{"security_opt": []any{"label=type:spc_t"}}, "config.security_opt: "},
		{map[string]any{"security_opt": []any{"apparmor:lxc-container-default"}}, "config.security_opt: "},
		{map[string]any{"security_opt": []any{"no-new-privileges=0"}}, "config.security_opt: "},
		{map[string]any{"devices": []any{map[string]any{"host_path": "/dev/sda"}}}, "config.devices: "},
		{map[string]any{"volumes": []any{"/etc:/host"}}, `config.volumes: "/etc": `},
		{map[string]any{"mount": []any{map[string]any{"type": "bind", "source": "/etc", "target": "/x"}}},
			`config.mount "/etc": `},
		{map[string]any{"mount": []any{map[string]any{"target": "/x", "volume_options": map[string]any{
			"driver_config": map[string]any{"options": map[string]any{"o": "bind", "device": "/etc"}},
		}}}}, `config.mount "/x": driver_config: `},
		{map[string]any{"mount": []any{map[string]any{"source": "data", "target": "/x"}}},
			`config.mount "/x": the volume "data": `},
		{map[string]any{"pids_limit": 5000}, "config.pids_limit: this node allows at most 4096"},
	} {
		f := newFixture(t)
		cfg := f.task("a1")
		err := os.WriteFile(filepath.Join(cfg.Dirs.Local, "p.json"), []byte(`{"defaultAction":"SCMP_ACT_ALLOW"}`), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(cfg.Config, c.config)
		_, err = f.agent(f.config()).Start(t.Context(), cfg)
		if !structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v", c.config, err)
		}
		if len(f.Containers()) > 0 {
			t.Errorf("%v: there is a container", c.config)
		}
		if strings.Contains(c.want, "pids") {
			continue
		}
		cfg.Privileged = true // a CSI plugin
		if _, err := f.agent(f.config()).Start(t.Context(), cfg); err != nil {
			t.Errorf("%v of a plugin: %v", c.config, err)
		}
	}
}

func TestContainer_HasTheTasksMounts(t *testing.T) {
	f := newFixture(t)
	cfg := f.task("a1")
	volume := filepath.Join(f.dir, "volume")
	if err := os.Mkdir(volume, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg.Mounts = []driver.Mount{
		{HostPath: volume, TaskPath: "/data", ReadOnly: true},
		{HostPath: volume, TaskPath: "/csi", Propagation: "bidirectional"},
		{HostPath: volume, TaskPath: "/slave", Propagation: "host-to-task"},
		{HostPath: "/dev/null", TaskPath: "/dev/x", Device: true, Permissions: "rw"},
		{HostPath: "/dev/zero", TaskPath: "/dev/y", Device: true, ReadOnly: true},
	}
	h := f.created(f.permissive(), cfg, map[string]any{
		"volumes": []any{"local/made:/made:ro,rslave", "/etc:/host"},
		"mount": []any{
			map[string]any{"type": "bind", "source": "local", "target": "/l",
				"bind_options": map[string]any{"propagation": "rslave"}},
			map[string]any{"type": "tmpfs", "target": "/t",
				"tmpfs_options": map[string]any{"size": 65536, "mode": 0o700}},
			map[string]any{"source": "v", "target": "/v", "readonly": true, "volume_options": map[string]any{
				"no_copy": true, "labels": map[string]any{"l": "1"}, "driver_config": map[string]any{"name": "d"},
			}},
		},
		"tmpfs":   []any{"/run:size=1m"},
		"devices": []any{map[string]any{"host_path": "/dev/full"}},
	}).HostConfig
	want := map[string]string{
		"/alloc":   "bind " + cfg.Dirs.AllocShared + "",
		"/local":   "bind " + cfg.Dirs.Local + "",
		"/secrets": "bind " + cfg.Dirs.Secrets + "",
		"/data":    "bind " + volume + " ro",
		"/csi":     "bind " + volume + " rshared",
		"/slave":   "bind " + volume + " rslave",
		"/made":    "bind " + filepath.Join(cfg.Dirs.Local, "made") + " rslave ro",
		"/host":    "bind /etc",
		"/l":       "bind " + cfg.Dirs.Local + " rslave",
		"/t":       "tmpfs  65536 700",
		"/v":       "volume v true map[l:1] {d map[]} ro",
	}
	got := map[string]string{}
	for _, m := range h.Mounts {
		got[m.Target] = describe(m)
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	devices := []container.DeviceMapping{
		{PathOnHost: "/dev/null", PathInContainer: "/dev/x", CgroupPermissions: "rw"},
		{PathOnHost: "/dev/zero", PathInContainer: "/dev/y", CgroupPermissions: "r"},
		{PathOnHost: "/dev/full", PathInContainer: "/dev/full", CgroupPermissions: "rwm"},
	}
	if !slices.Equal(h.Devices, devices) || h.Tmpfs["/run"] != "size=1m" {
		t.Errorf("got devices %v, tmpfs %v", h.Devices, h.Tmpfs)
	}
}

// Vendors publish jobs with paths in these forms, and expect of `volumes` that a missing directory is made.
func TestContainer_HasTheMountsOfAVendorsPlugin(t *testing.T) {
	f := newFixture(t)
	cfg := f.task("a1")
	cfg.Privileged = true
	file := filepath.Join(cfg.Dirs.Local, "cloud.conf")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(f.dir, "opt", "vendor")
	h := f.created(f.config(), cfg, map[string]any{
		"privileged": true,
		"volumes":    []any{"./local/cloud.conf:/etc/cloud.conf", made + ":/opt/vendor", "/dev/null:/dev/log"},
		"mount": []any{
			map[string]any{"type": "bind", "source": ".//local/cloud.conf", "target": "/var/cloud", "readonly": true},
			map[string]any{"type": "bind", "source": "secrets", "target": "/tmp/keys", "readonly": false},
			map[string]any{"type": "tmpfs", "target": "/var/log/vendor", "readonly": false,
				"tmpfs_options": map[string]any{"size": 1000000}},
		},
		"devices": []any{map[string]any{"host_path": "/dev", "container_path": "/dev"}},
	}).HostConfig
	got := map[string]string{}
	for _, m := range h.Mounts {
		got[m.Target] = m.Source
	}
	for target, want := range map[string]string{
		"/etc/cloud.conf": file,
		"/opt/vendor":     made,
		"/dev/log":        "/dev/null",
		"/var/cloud":      file,
		"/tmp/keys":       cfg.Dirs.Secrets,
	} {
		if got[target] != want {
			t.Errorf("%s is %q, want %q", target, got[target], want)
		}
	}
	if info, err := os.Stat(made); err != nil || !info.IsDir() {
		t.Errorf("the missing directory: %v", err)
	}
}

func describe(m mount.Mount) string {
	s := string(m.Type) + " " + m.Source
	if m.BindOptions != nil {
		s += " " + string(m.BindOptions.Propagation)
	}
	if m.TmpfsOptions != nil {
		s += fmt.Sprintf(" %d %o", m.TmpfsOptions.SizeBytes, m.TmpfsOptions.Mode)
	}
	if v := m.VolumeOptions; v != nil {
		s += fmt.Sprint(" ", v.NoCopy, v.Labels, *v.DriverConfig)
	}
	if m.ReadOnly {
		s += " ro"
	}
	return s
}

func TestStart_RejectsBadMounts(t *testing.T) {
	mount := func(m driver.Mount) []driver.Mount { return []driver.Mount{m} }
	volume := func(v string) map[string]any { return map[string]any{"volumes": []any{v}} }
	for name, c := range map[string]struct {
		mounts []driver.Mount
		config map[string]any
		kind   structs.Kind
		want   string
	}{
		"a volume that is gone": {mount(driver.Mount{HostPath: "/none", TaskPath: "/x"}), nil,
			structs.KindPrecondition, "mount /x: "},
		"no device": {mount(driver.Mount{HostPath: "/etc", TaskPath: "/x", Device: true}), nil,
			structs.KindPrecondition, "is not a device"},
		"an unknown propagation": {mount(driver.Mount{HostPath: "/etc", TaskPath: "/x", Propagation: "y"}), nil,
			structs.KindInvalid, `propagation "y"`},
		"no path": {mount(driver.Mount{HostPath: "/etc", TaskPath: "x"}), nil,
			structs.KindInvalid, "absolute path"},
		"bad permissions": {
			mount(driver.Mount{HostPath: "/dev/null", TaskPath: "/x", Device: true, Permissions: "z"}), nil,
			structs.KindInvalid, "any of rwm"},
		"the same path twice":   {nil, volume("a:/local"), structs.KindInvalid, "two mounts"},
		"a link that leads out": {nil, volume("local/link:/x"), structs.KindDenied, "leads out"},
		"a path below the link": {nil, volume("local/link/new:/x"), structs.KindDenied, "leads out"},
		"a path that leads out": {nil, volume("../../../etc:/x"), structs.KindDenied, "leads out"},
		"a missing source": {nil, map[string]any{"mount": []any{map[string]any{
			"type": "bind", "source": "local/none", "target": "/x",
		}}}, structs.KindPrecondition, "is not in the task's directory"},
		"a missing source on the host": {nil, map[string]any{"mount": []any{map[string]any{
			"type": "bind", "source": "/none/x", "target": "/x",
		}}}, structs.KindPrecondition, `config.mount: "/none/x": stat /none/x: `},
		"a profile that leads out": {nil, map[string]any{"security_opt": []any{"seccomp=local/link/passwd"}},
			structs.KindPrecondition, "config.security_opt: "},
	} {
		f := newFixture(t)
		cfg := f.task("a1")
		if err := os.Symlink("/etc", filepath.Join(cfg.Dirs.Local, "link")); err != nil {
			t.Fatal(err)
		}
		cfg.Mounts = c.mounts
		maps.Copy(cfg.Config, c.config)
		_, err := f.agent(f.permissive()).Start(t.Context(), cfg)
		if !structs.IsKind(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v (%s), want %s", name, err, structs.KindOf(err), c.want)
		}
	}
}

func TestStart_ReadsASeccompProfile(t *testing.T) {
	f := newFixture(t)
	cfg := f.task("a1")
	err := os.WriteFile(filepath.Join(cfg.Dirs.Local, "p.json"), []byte(`{"x":1}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	h := f.created(f.permissive(), cfg, map[string]any{
		"security_opt": []any{"seccomp=local/p.json", "no-new-privileges"},
	}).HostConfig
	if !slices.Equal(h.SecurityOpt, []string{`seccomp={"x":1}`, "no-new-privileges"}) {
		t.Errorf("got %q", h.SecurityOpt)
	}
}

func TestExtraLabels_AreThoseOfTheSettings(t *testing.T) {
	for _, name := range taskconfig.LabelNames {
		if extraLabels[name] == nil {
			t.Errorf("no container can get the label %s", name)
		}
	}
	if len(extraLabels) != len(taskconfig.LabelNames) {
		t.Errorf("there are %d labels, and %d names", len(extraLabels), len(taskconfig.LabelNames))
	}
}
