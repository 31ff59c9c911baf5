package taskconfig

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docker/go-units"

	"berth/internal/conf"
	"berth/structs"
)

// decode decodes a config block as a job file has it.
func decode(t *testing.T, text string) (*Task, error) {
	t.Helper()
	return Decode(parse(t, text))
}

const everything = `
image              = "registry:5000/a/b:1.2"
image_pull_timeout = "90s"
force_pull         = true
auth_soft_fail     = true
auth {
  username       = "u"
  password       = "p"
  email          = "u@example.com"
  server_address = "registry:5000"
}
entrypoint  = ["/bin/x", "-y"]
command     = "serve"
args        = ["-n", 3]
work_dir    = "/srv"
hostname    = "h"
interactive = true
tty         = true
init        = true
logging {
  type = "local"
}
labels {
  a = "1"
}
healthchecks {
  test         = ["CMD", "/ok"]
  interval     = "5s"
  timeout      = "1s"
  start_period = "2s"
  retries      = 4
}
runtime         = "nvidia"
privileged      = true
cap_add         = ["CAP_NET_ADMIN", "sys_time"]
cap_drop        = ["ALL"]
security_opt    = ["no-new-privileges", "seccomp=unconfined"]
group_add       = ["video"]
readonly_rootfs = true
devices = [
  { host_path = "/dev/fuse", container_path = "/dev/f", cgroup_permissions = "rw" }
]
mount {
  type   = "bind"
  source = "local/x"
  target = "/x"
  bind_options {
    propagation = "rshared"
  }
}
mount {
  type     = "volume"
  source   = "data"
  target   = "/data"
  readonly = true
  volume_options {
    no_copy = true
    labels  = { l = "v" }
    driver_config {
      name    = "local"
      options = { o = "bind" }
    }
  }
}
mounts = [
  { type = "tmpfs", target = "/t", tmpfs_options = { size = 65536, mode = 511 } }
]
volumes      = ["local/y:/y", "/etc:/host:ro,rslave"]
tmpfs        = ["/run:size=1m", "/scratch"]
storage_opt  = { size = "1G" }
shm_size     = "1048576"
network_mode = "host"
ports        = ["http", "admin"]
dns_servers        = ["10.0.0.1"]
dns_search_domains = ["example.com"]
dns_options        = ["ndots:2"]
extra_hosts        = ["db:10.0.0.2", "v6:fd00::1"]
pid_mode    = "host"
ipc_mode    = "private"
uts_mode    = "host"
userns_mode = "host"
sysctl {
  "net.core.somaxconn" = "16384"
}
ulimit {
  nofile = "2048:4096"
}
pids_limit        = 64
cpuset_cpus       = "0-2,4"
cpu_hard_limit    = true
cpu_cfs_period    = 50000
memory_hard_limit = 512
oom_score_adj     = 500
`

func TestDecode_ReadsEveryField(t *testing.T) {
	got, err := decode(t, everything)
	if err != nil {
		t.Fatal(err)
	}
	want := &Task{
		Image:       "registry:5000/a/b:1.2",
		PullTimeout: 90 * time.Second,
		ForcePull:   true,
		Auth:        &Auth{"u", "p", "registry:5000"},

		AuthSoftFail: true,

		Entrypoint:  []string{"/bin/x", "-y"},
		Command:     "serve",
		Args:        []string{"-n", "3"},
		WorkDir:     "/srv",
		Hostname:    "h",
		Interactive: true,
		TTY:         true,
		Init:        true,
		Labels:      map[string]string{"a": "1"},
		Logging:     &Logging{Driver: LogLocal},
		Health: Health{
			Test:        []string{"CMD", "/ok"},
			Interval:    5 * time.Second,
			Timeout:     time.Second,
			StartPeriod: 2 * time.Second,
			Retries:     4,
		},
		Privileged:     true,
		CapAdd:         []string{"net_admin", "sys_time"},
		CapDrop:        []string{"all"},
		SecurityOpt:    []string{"no-new-privileges", "seccomp=unconfined"},
		GroupAdd:       []string{"video"},
		ReadonlyRootfs: true,
		Devices:        []Device{{"/dev/fuse", "/dev/f", "rw"}},
		Runtime:        "nvidia",
		Mounts: []Mount{
			{Type: "tmpfs", Target: "/t", TmpfsSize: 65536, TmpfsMode: 0o777},
			{Type: "bind", Source: "local/x", Target: "/x", Propagation: "rshared"},
			{
				Type: "volume", Source: "data", Target: "/data", ReadOnly: true, NoCopy: true,
				Labels: map[string]string{"l": "v"},
				Driver: "local", DriverOpts: map[string]string{"o": "bind"},
			},
		},
		Volumes:         []Volume{{"local/y", "/y", ""}, {"/etc", "/host", "ro,rslave"}},
		Tmpfs:           map[string]string{"/run": "size=1m", "/scratch": ""},
		StorageOpt:      map[string]string{"size": "1G"},
		ShmSize:         1 << 20,
		NetworkMode:     "host",
		Ports:           []string{"http", "admin"},
		DNSServers:      []string{"10.0.0.1"},
		DNSSearch:       []string{"example.com"},
		DNSOptions:      []string{"ndots:2"},
		ExtraHosts:      []string{"db:10.0.0.2", "v6:fd00::1"},
		PIDMode:         "host",
		IPCMode:         "private",
		UTSMode:         "host",
		UsernsMode:      "host",
		Sysctl:          map[string]string{"net.core.somaxconn": "16384"},
		Ulimits:         []*units.Ulimit{{Name: "nofile", Soft: 2048, Hard: 4096}},
		PIDsLimit:       64,
		CPUSet:          "0-2,4",
		CPUHardLimit:    true,
		CPUCFSPeriod:    50 * time.Millisecond,
		MemoryHardLimit: 512,
		OOMScoreAdj:     500,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	for field := range reflect.TypeFor[Task]().Fields() {
		v := reflect.ValueOf(got).Elem().FieldByIndex(field.Index)
		if v.IsZero() && field.Name != "Load" {
			t.Errorf("the test does not set %s", field.Name)
		}
	}
}

func TestDecode_NamesEachFault(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, `config.image: missing`},
		{`image = ""`, `config.image: empty`},
		{`image = "A B"`, `config.image: "A B": invalid reference`},
		{`image = "berth-pause:1"`, `config.image: "berth-pause:1": the name is reserved`},
		{`image = "docker.io/library/berth-pause"`, `the name is reserved`},
		{`image = "berth-load:x"`, `config.image: "berth-load:x": the name is reserved`},
		{`image = ["a"]`, `config.image: expected a string, found a list`},
		{`imag = "a"`, `config.imag: unknown field; did you mean "image"?`},
		{`nonsense = 1`, `config.nonsense: unknown field; expected args,`},
		{`image_pull_timeout = 5`, `config.image_pull_timeout: expected a duration`},
		{`image_pull_timeout = "-1s"`, `config.image_pull_timeout: -1s: expected a duration up to`},
		{`image_pull_timeout = "200h"`, `config.image_pull_timeout: 200h`},
		{"load = \"x.tar\"\nforce_pull = true", `config.force_pull: the image comes from the archive`},
		{`force_pull = "perhaps"`, `config.force_pull: expected true or false`},
		{"auth {\n username = \"u\"\n}", `config.auth: expected a username and a password`},
		{"auth {\n user = \"u\"\n}", `config.auth.user: unknown field; did you mean "username"?`},
		{"auth { }\nauth { }", `config.auth: is written 2 times`},
		{`auth = "u"`, `config.auth: expected a block, found a string`},
		{`args = "x"`, `config.args: expected a list of strings, found a string`},
		{`args = [["x"]]`, `config.args[0]: expected a string, found a list`},
		{`args = ["a\u0000"]`, `config.args[0]: holds a zero byte`},
		{`work_dir = "x"`, `config.work_dir: "x": expected an absolute path`},
		{"healthchecks {\n disable = true\n test = [\"x\"]\n}", `config.healthchecks.disable: the block has a test`},
		{"healthchecks {\n retries = -1\n}", `config.healthchecks.retries: -1: expected a number from 0 to 1000`},
		{`cap_add = ["net admin"]`, `config.cap_add[0]: "net admin": expected a capability`},
		{`security_opt = ["selinux=off"]`, `config.security_opt[0]: "selinux=off": expected one of apparmor`},
		{`pid_mode = "container:x"`, `config.pid_mode: "container:x": expected host`},
		{`devices = [{ container_path = "/dev/x" }]`, `config.devices.host_path: missing`},
		{`devices = [{ host_path = "/dev/x" }, { host_path = "x" }]`, `config.devices[1].host_path: "x": expected an abs`},
		{`devices = [{ host_path = "/dev/x", cgroup_permissions = "rx" }]`, `cgroup_permissions: "rx": expected any of`},
		{"mount {\n type = \"nfs\"\n target = \"/x\"\n}", `config.mount.type: "nfs": expected bind, volume, tmpfs`},
		{"mount {\n type = \"bind\"\n source = \"x\"\n}", `config.mount.target: missing`},
		{"mount {\n type = \"bind\"\n target = \"/x\"\n}", `config.mount.source: missing`},
		{"mount {\n target = \"/\"\n}", `config.mount.target: "/": expected an absolute path`},
		{"mount {\n source = \"../x\"\n target = \"/x\"\n}", `config.mount.source: "../x": expected the name of a volume`},
		{"mount {\n target = \"/x\"\n tmpfs_options {\n size = 1\n }\n}", `config.mount.tmpfs_options: is for a mount of type "tmpfs"`},
		{"mount {\n type = \"tmpfs\"\n target = \"/x\"\n tmpfs_options {\n sise = 1\n }\n}", `config.mount.tmpfs_options.sise: unknown field; did you mean "size"?`},
		{`volumes = ["x"]`, `config.volumes: element 0: "x": expected "source:target"`},
		{`volumes = ["x:y"]`, `config.volumes: element 0: "y": expected an absolute path`},
		{`volumes = ["x:/y:exec"]`, `config.volumes: element 0: mode "exec": expected ro, rw`},
		{`tmpfs = ["run"]`, `config.tmpfs[0]: "run": expected a path`},
		{`tmpfs = ["/run", "/run/:size=1m"]`, `config.tmpfs[1]: "/run" is there twice`},
		{`shm_size = -1`, `config.shm_size: -1: expected a number from 0 to`},
		{`shm_size = 1.5`, `config.shm_size: expected a whole number`},
		{`dns_servers = ["one"]`, `config.dns_servers[0]: "one": expected an address`},
		{`extra_hosts = ["db"]`, `config.extra_hosts[0]: "db": expected "name:address"`},
		{"ulimit {\n nofile = \"many\"\n}", `config.ulimit: `},
		{`pids_limit = 0`, `config.pids_limit: 0: expected a number from 1`},
		{`cpu_cfs_period = 100`, `config.cpu_cfs_period: 100: expected a number from 1000 to 1000000`},
		{`memory_hard_limit = 99999999999`, `config.memory_hard_limit: 99999999999`},
		{`oom_score_adj = -5`, `config.oom_score_adj: -5: expected a number from 0 to 1000`},
		{`ports = "http"`, `config.ports: expected a list of strings, found a string`},
		{`auth_soft_fail = "perhaps"`, `config.auth_soft_fail: expected true or false`},
		{`cpuset_cpus = "0-"`, `config.cpuset_cpus: "0-": expected processors such as "0-2,4", each from 0 to 8191`},
		{`cpuset_cpus = "3-1"`, `config.cpuset_cpus: "3-1": expected processors`},
		{`cpuset_cpus = "0,8192"`, `config.cpuset_cpus: "0,8192": expected processors`},
		{`cpuset_cpus = "0,,1"`, `config.cpuset_cpus: "0,,1": expected processors`},
		{`cpuset_cpus = "-1"`, `config.cpuset_cpus: "-1": expected processors`},
		{`port_map = { http = 80 }`, `config.port_map: name the ports of the group's network in config.ports`},
		{"logging {\n type = \"a\"\n driver = \"b\"\n}", `config.logging.driver: "b": the block has the type "a", too`},
		{"logging {\n kind = \"a\"\n}", `config.logging.kind: unknown field`},
		{"logging {\n config {\n a = [1]\n}\n}", `config.logging.config.a: expected a string, found a list`},
		{`labels = { a = ["b"] }`, `config.labels.a: expected a string, found a list`},
	} {
		_, err := decode(t, c.text)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.text, err, c.want)
		}
	}
}

func TestDecode_BoundsTextsAndLists(t *testing.T) {
	many := make([]any, structs.MaxListed+1)
	for i := range many {
		many[i] = "x"
	}
	for want, config := range map[string]map[string]any{
		"config.args: has 1001 elements":        {"image": "a", "args": many},
		"config.hostname: has 4097 bytes":       {"image": "a", "hostname": strings.Repeat("x", structs.MaxText+1)},
		"config.mount: has 1001 elements":       {"image": "a", "mount": many},
		"config.labels[0]: expected a block":    {"image": "a", "labels": []any{"x"}},
		"config.privileged: expected true or":   {"image": "a", "privileged": 1},
		"config.pids_limit: expected a whole n": {"image": "a", "pids_limit": 1e30},
	} {
		_, err := Decode(config)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The JSON of a job has blocks as lists of one map, and numbers as floats. References are replaced by
// strings.
func TestDecode_ReadsTheFormsOfOtherSources(t *testing.T) {
	got, err := Decode(map[string]any{
		"image":      "a",
		"labels":     []any{map[string]any{"a": "1"}, map[string]any{"b": true}},
		"pids_limit": float64(7),
		"shm_size":   "8",
		"privileged": "true",
		"command":    nil,
		"entrypoint": "/x",
	})
	want := &Task{
		Image:      "a",
		Labels:     map[string]string{"a": "1", "b": "true"},
		PIDsLimit:  7,
		ShmSize:    8,
		Privileged: true,
		Entrypoint: []string{"/x"},
		Tmpfs:      map[string]string{},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// Each text of ofReferences is a fault of the value alone: Decode finds it, and Check does not.
const ofReferences = `
image              = "${meta.image}:${NOMAD_META_v}!"
image_pull_timeout = "${meta.timeout}"
force_pull         = "${meta.pull}"
work_dir           = "${meta.dir}"
cap_add            = ["net_admin", "${meta.cap}"]
security_opt       = ["${meta.security}"]
pid_mode           = "${meta.pid}"
tmpfs              = ["${meta.tmpfs}"]
volumes            = ["${meta.volume}"]
dns_servers        = ["${attr.dns}"]
extra_hosts        = ["db:${attr.ip}"]
pids_limit         = "${meta.pids}"
memory_hard_limit  = "${meta.memory}"
devices {
  host_path          = "${meta.device}"
  cgroup_permissions = "${meta.permissions}"
}
mount {
  type   = "${meta.type}"
  target = "${meta.target}"
  bind_options {
    propagation = "${meta.propagation}"
  }
}
mount {
  source = "${meta.source}"
  target = "/x"
}
ulimit {
  nofile = "${meta.files}"
}
`

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var file struct {
		Config map[string]any `hcl:"config"`
	}
	text = strings.ReplaceAll(text, "${", "$${") // no expression of the file
	err := conf.Decode("job.hcl", []byte("config {\n"+text+"\n}\n"), &file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Config
}

func TestCheck_LeavesValuesWithReferencesOpen(t *testing.T) {
	config := parse(t, ofReferences)
	_, err := Check(config)
	if err != nil {
		t.Errorf("early: %v", err)
	}
	_, err = Decode(config)
	faults := strings.Count(fmt.Sprint(err), "\n") + 1
	if want := 20; faults != want {
		t.Errorf("at the start: %d faults, want %d: %v", faults, want, err)
	}
}

func TestCheck_NamesOtherFaultsOfAConfigWithReferences(t *testing.T) {
	_, err := Check(parse(t, `
imgae   = "${meta.image}"
args    = "${meta.args}"
cap_add = ["${meta.cap}", "!"]
shm_size = -1
mount {
  type      = "${meta.type}"
  bind_options {
    propagated = "${meta.p}"
  }
}
`))
	for _, want := range []string{
		"config.image: missing",
		`config.imgae: unknown field; did you mean "image"?`,
		"config.args: expected a list of strings, found a string",
		`config.cap_add[1]: "!": expected a capability`,
		"config.shm_size: -1: expected a number from 0",
		"config.mount.target: missing",
		"config.mount.bind_options.propagated: unknown field",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named: %v", want, err)
		}
	}
	if n := strings.Count(fmt.Sprint(err), "\n") + 1; n != 7 {
		t.Errorf("%d faults: %v", n, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("image", "a:b", int64(3))
	f.Add("volumes", "/x:/y:ro", int64(-1))
	f.Fuzz(func(t *testing.T, name, text string, n int64) {
		for _, v := range []any{
			text, n, []any{text, n}, map[string]any{text: n, name: text},
			[]any{map[string]any{"target": text, "source": text, "type": text}},
		} {
			task, err := Decode(map[string]any{"image": "a", name: v})
			if err == nil && task.Image == "" {
				t.Errorf("%s = %v: no error and no image", name, v)
			}
		}
	})
}

func TestCheckPorts_NamesAnUnknownPort(t *testing.T) {
	task := &Task{Ports: []string{"http", "admin"}}
	if err := task.CheckPorts([]string{"admin", "http", "db"}); err != nil {
		t.Errorf("ports of the group: %v", err)
	}
	for want, group := range map[string][]string{
		`config.ports: "http": the group has no network with ports`:              nil,
		`config.ports: "admin": expected a port of the group's network: a, http`: {"a", "http"},
	} {
		err := task.CheckPorts(group)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if !task.HasPort("http") || task.HasPort("db") {
		t.Error("http is published, and db is not")
	}
}
