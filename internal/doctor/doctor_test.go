package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/structs"
	"berth/structs/cluster"
	"berth/test/kit"
)

// The mounts of a machine that suits an agent.
const sound = `21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:5 / /proc rw - proc proc rw
a line that is none
23 21 0:6 / /sys/fs/cgroup rw,nosuid shared:2 - cgroup2 cgroup2 rw
`

// write writes a file below the root of a machine.
func (m *Machine) write(t *testing.T, path, text string) {
	t.Helper()
	path = m.path(path)
	kit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	kit.Must(t, os.WriteFile(path, []byte(text), 0o644))
}

// namespaces sets the mount namespaces of the first process and of process 7, which is an agent.
func (m *Machine) namespaces(t *testing.T, first, agent string) {
	t.Helper()
	m.write(t, "proc/7/cmdline", "/usr/bin/berth\x00agent\x00-dev\x00")
	for pid, ns := range map[string]string{"1": first, "7": agent} {
		kit.Must(t, os.MkdirAll(m.path("proc/"+pid+"/ns"), 0o755))
		kit.Must(t, os.Symlink(ns, m.path("proc/"+pid+"/ns/mnt")))
	}
}

// newMachine returns a machine on which no check fails or warns.
func newMachine(t *testing.T) *Machine {
	m := &Machine{
		Client:  true,
		DataDir: t.TempDir(),
		Ports:   []Port{{Setting: "ports.http", Network: "tcp", Address: "127.0.0.1:4746"}},
		Address: "127.0.0.1",
		Agent:   &Agent{Node: newNode()},
		root:    t.TempDir(),
		now:     time.Now(),
		listen:  func(context.Context, Port) error { return nil },
		clock:   func(*unix.Timex) (int, error) { return unix.TIME_OK, nil },
		usage:   withSpace(unix.Statfs_t{Bavail: 100 << 30, Bsize: 1}),
		find:    func(string) bool { return true },
	}
	m.write(t, "proc/sys/kernel/osrelease", "6.1.0-28-amd64\n")
	m.write(t, "proc/self/mountinfo", sound)
	m.write(t, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
	m.write(t, "proc/filesystems", "nodev\tproc\n\text4\n")
	m.write(t, "dev/loop-control", "")
	m.write(t, "sys/module/bridge/version", "2.3")
	m.write(t, "lib/modules/6.1.0-28-amd64/modules.builtin", "kernel/mm/zswap.ko\n")
	m.write(t, "lib/modules/6.1.0-28-amd64/modules.dep", "kernel/drivers/net/veth.ko.xz:\n")
	return m
}

func newNode() *structs.NodeDetail {
	return &structs.NodeDetail{
		Node: structs.Node{
			ID:      "n1",
			Status:  structs.NodeReady,
			Drivers: map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}, "docker": {}},
		},
		CSINodePlugins: map[string]*structs.CSIInfo{"hostpath": {Healthy: true}},
	}
}

func withSpace(st unix.Statfs_t) func(string, *unix.Statfs_t) error {
	return func(_ string, to *unix.Statfs_t) error {
		*to = st
		return nil
	}
}

// findings returns the findings of a check.
func findings(t *testing.T, m *Machine, check string) []Finding {
	t.Helper()
	all := m.Run(t.Context())
	return slices.DeleteFunc(all, func(f Finding) bool { return f.Check != check })
}

func TestRun_FindsNothingOnASoundMachine(t *testing.T) {
	m := newMachine(t)
	m.namespaces(t, "mnt:[1]", "mnt:[1]")
	found := map[string]bool{}
	for _, f := range m.Run(t.Context()) {
		found[f.Check] = true
		if f.Result != OK && f.Result != Skip || f.Text == "" {
			t.Errorf("%s: %s: %s", f.Check, f.Result, f.Text)
		}
	}
	if len(found) != len(checks) {
		t.Errorf("%d of %d checks have a finding", len(found), len(checks))
	}
}

func TestCopies_AreToldApartByTheUUID(t *testing.T) {
	for name, c := range map[string]struct {
		agent *Agent
		uuid  bool // root sees one
		euid  int
		want  Result
		text  string
	}{
		"no agent":            {want: Skip, text: "no agent answers"},
		"no server":           {agent: &Agent{}, want: Skip, text: "no server"},
		"the server reads it": {agent: &Agent{Server: true, Machine: "product:1 machine:1"}, want: OK},
		"root alone reads it": {
			agent: &Agent{Server: true, Machine: "machine:1"}, uuid: true,
			want: Warn, text: "cannot read the UUID of this machine"},
		"there is none":  {agent: &Agent{Server: true, Machine: "machine:1"}, want: OK, text: "has no UUID"},
		"nothing at all": {agent: &Agent{Server: true}, want: Warn, text: "finds neither"},
		"by another user": {
			agent: &Agent{Server: true, Machine: "machine:1"}, euid: 7, want: Skip, text: "only root"},
	} {
		m := newMachine(t)
		m.Agent = c.agent
		m.euid = c.euid
		if c.uuid {
			m.write(t, "sys/class/dmi/id/product_uuid", "6f2a9c1e-5b1d-4c3a-9a55-0d1e2f3a4b5c\n")
		}
		got := findings(t, m, "copies")
		if len(got) != 1 || got[0].Result != c.want || !strings.Contains(got[0].Text, c.text) {
			t.Errorf("%s: %+v, want %s with %q", name, got, c.want, c.text)
		}
	}
}

func TestUser_MayBeThatOfAServerThatAnswers(t *testing.T) {
	for _, c := range []struct {
		client   bool
		answered bool
		want     Result
	}{
		{client: false, answered: true, want: OK},
		{client: false, answered: false, want: Warn},
		{client: true, answered: true, want: Warn},
	} {
		m := newMachine(t)
		m.euid = 1000
		m.Client = c.client
		if !c.answered {
			m.Agent = nil
		}
		if got := findings(t, m, "user"); got[0].Result != c.want {
			t.Errorf("node %t, answer %t: got %+v, want %s", c.client, c.answered, got, c.want)
		}
	}
}

func TestAgent_NamesTheUnitOfTheMachine(t *testing.T) {
	for client, want := range map[bool]string{true: "start berth,", false: "start berth-server,"} {
		m := newMachine(t)
		m.Client = client
		m.Agent = nil
		if got := findings(t, m, "agent"); !strings.Contains(got[0].Remedy, want) {
			t.Errorf("node %t: got %+v, want %q", client, got, want)
		}
	}
}

func TestRun_HasARemedyForEachFault(t *testing.T) {
	for _, c := range faults {
		m := newMachine(t)
		c.edit(t, m)
		got := findings(t, m, c.check)
		if len(got) == 0 || got[0].Result != c.result || !strings.Contains(got[0].Text, c.text) {
			t.Errorf("%s: got %+v, want %s with %q", c.check, got, c.result, c.text)
			continue
		}
		for _, f := range got {
			if f.Remedy == "" && f.Result != Skip {
				t.Errorf("%s: no remedy for %q", c.check, f.Text)
			}
		}
	}
}

// faults has an edit of a sound machine for each fault, with the first finding of a check.
var faults = []struct {
	check  string
	result Result
	text   string
	edit   func(*testing.T, *Machine)
}{
	{"configuration", Fail, "no such setting", func(_ *testing.T, m *Machine) {
		m.ConfigFault = errors.New("no such setting")
	}},
	{"configuration", Skip, "no configuration", func(_ *testing.T, m *Machine) { m.Unconfigured = true }},
	{"user", Warn, "not root", func(_ *testing.T, m *Machine) { m.euid = 1000 }},
	{"kernel", Fail, "release of the kernel", func(t *testing.T, m *Machine) {
		kit.Must(t, os.Remove(m.path("proc/sys/kernel/osrelease")))
	}},
	{"kernel", Fail, "needs 5.6", func(t *testing.T, m *Machine) {
		m.write(t, "proc/sys/kernel/osrelease", "5.5.99")
	}},
	{"kernel", Warn, "needs 5.12", func(t *testing.T, m *Machine) {
		m.write(t, "proc/sys/kernel/osrelease", "5.6-rc1")
	}},
	{"cgroups", Fail, "mounts of the machine", func(t *testing.T, m *Machine) {
		kit.Must(t, os.Remove(m.path("proc/self/mountinfo")))
	}},
	{"cgroups", Fail, "no cgroup hierarchy is mounted", func(t *testing.T, m *Machine) {
		m.write(t, "proc/self/mountinfo", "21 1 8:1 / / rw shared:1 - ext4 /dev/vda rw\n")
	}},
	{"cgroups", Fail, "no limit of memory", func(t *testing.T, m *Machine) {
		m.write(t, "sys/fs/cgroup/cgroup.controllers", "cpu pids")
	}},
	{"cgroups", Fail, "controller cpu is mounted read-only", func(t *testing.T, m *Machine) {
		m.write(t, "proc/self/mountinfo", strings.Replace(sound, "rw,nosuid", "ro,nosuid", 1))
	}},
	{"mounts", Fail, "process 7, has a mount namespace", func(t *testing.T, m *Machine) {
		m.namespaces(t, "mnt:[1]", "mnt:[2]")
	}},
	{"mounts", Warn, "is not shared", func(t *testing.T, m *Machine) {
		m.write(t, "proc/self/mountinfo", strings.ReplaceAll(sound, "shared:1", ""))
	}},
	{"mounts", Skip, "cannot be read", func(t *testing.T, m *Machine) {
		kit.Must(t, os.Remove(m.path("proc/self/mountinfo")))
	}},
	{"modules", Warn, "no module loop", func(t *testing.T, m *Machine) {
		kit.Must(t, os.Remove(m.path("dev/loop-control")))
	}},
	{"modules", Skip, "does not tell whether it has the module veth", func(t *testing.T, m *Machine) {
		kit.Must(t, os.RemoveAll(m.path("lib/modules")))
	}},
	{"programs", Warn, "mkfs.ext4, which new volumes", func(_ *testing.T, m *Machine) {
		m.find = func(program string) bool { return program != "mkfs.ext4" }
	}},
	{"ports", Fail, "another program uses tcp 127.0.0.1:4746", func(_ *testing.T, m *Machine) {
		m.Agent = nil
		m.listen = func(context.Context, Port) error { return os.NewSyscallError("bind", unix.EADDRINUSE) }
	}},
	{"ports", Skip, "is in use, perhaps by the agent", func(_ *testing.T, m *Machine) {
		m.Agent = nil
		m.euid = 1000
		m.listen = func(context.Context, Port) error { return os.NewSyscallError("bind", unix.EADDRINUSE) }
	}},
	{"ports", Fail, "cannot be opened", func(_ *testing.T, m *Machine) {
		m.listen = func(context.Context, Port) error { return unix.EADDRNOTAVAIL }
	}},
	{"clock", Warn, "no program keeps the clock", func(_ *testing.T, m *Machine) {
		m.clock = func(t *unix.Timex) (int, error) {
			t.Status = unix.STA_UNSYNC
			return unix.TIME_OK, nil
		}
	}},
	{"clock", Warn, "no program keeps the clock", func(_ *testing.T, m *Machine) {
		m.clock = func(*unix.Timex) (int, error) { return unix.TIME_ERROR, nil }
	}},
	{"clock", Skip, "does not tell", func(_ *testing.T, m *Machine) {
		m.clock = func(*unix.Timex) (int, error) { return 0, unix.EPERM }
	}},
	{"disk", Fail, "does not answer", func(_ *testing.T, m *Machine) {
		m.usage = func(string, *unix.Statfs_t) error { return unix.EIO }
	}},
	{"disk", Fail, "read-only", func(_ *testing.T, m *Machine) {
		m.usage = withSpace(unix.Statfs_t{Bavail: 100 << 30, Bsize: 1, Flags: unix.ST_RDONLY})
	}},
	{"disk", Fail, "can take 3 more files", func(_ *testing.T, m *Machine) {
		m.usage = withSpace(unix.Statfs_t{Bavail: 100 << 30, Bsize: 1, Files: 100, Ffree: 3})
	}},
	{"disk", Fail, "has 1.0 MiB free", func(_ *testing.T, m *Machine) {
		m.usage = withSpace(unix.Statfs_t{Bavail: 1 << 20, Bsize: 1})
	}},
	{"disk", Warn, "has 3.0 GiB free", func(_ *testing.T, m *Machine) {
		m.usage = withSpace(unix.Statfs_t{Bavail: 3 << 20, Bsize: 1 << 10})
	}},
	{"disk", Warn, "in memory", func(_ *testing.T, m *Machine) {
		m.usage = withSpace(unix.Statfs_t{Bavail: 100 << 30, Bsize: 1, Type: unix.TMPFS_MAGIC})
	}},
	{"disk", Warn, "on another machine", func(_ *testing.T, m *Machine) {
		m.usage = withSpace(unix.Statfs_t{Bavail: 100 << 30, Bsize: 1, Type: unix.NFS_SUPER_MAGIC})
	}},
	{"fencing", Fail, "the agent fence_ipmilan is not installed", func(t *testing.T, m *Machine) {
		m.find = func(string) bool { return false }
		m.Fences = []Fence{{Name: "ipmi", Program: "fence_ipmilan"}}
	}},
	{"fencing", Fail, "secret_files: password", func(_ *testing.T, m *Machine) {
		m.Fences = []Fence{{Name: "ipmi", SecretFiles: map[string]string{"password": "/none"}}}
	}},
	{"fencing", Fail, "others may read", func(t *testing.T, m *Machine) {
		m.write(t, "secret", "x")
		m.Fences = []Fence{{Name: "ipmi", SecretFiles: map[string]string{"password": m.path("secret")}}}
	}},
	{"fencing", Warn, `node web1 (n1n1n1n1): no pin "bmc"`, func(_ *testing.T, m *Machine) {
		m.Fences = []Fence{{Name: "ipmi"}}
		m.Agent.FenceWarnings = []*cluster.FenceWarning{{NodeID: "n1n1n1n1-0", Name: "web1", Text: `no pin "bmc"`}}
	}},
	{"fencing", Fail, "no device", func(_ *testing.T, m *Machine) { m.Watchdog = "/none" }},
	{"certificates", Warn, "open at 0.0.0.0:4746 without TLS", func(_ *testing.T, m *Machine) {
		m.Ports[0].Address = "0.0.0.0:4746"
	}},
	{"address", Skip, "the configuration has faults", func(_ *testing.T, m *Machine) { m.Address = "" }},
	{"address", Fail, "only loopback", func(_ *testing.T, m *Machine) { m.AddressFault = errors.New("only loopback") }},
	{"agent", Skip, "no agent answers", func(_ *testing.T, m *Machine) { m.Agent = nil }},
	{"agent", Fail, "no leader", func(_ *testing.T, m *Machine) { m.Agent.Unhealthy = errors.New("no leader") }},
	{"agent", Warn, "denied", func(_ *testing.T, m *Machine) {
		m.Agent = &Agent{NodeFault: errors.New("denied")}
	}},
	{"agent", Fail, "the node is down: no heartbeat", func(_ *testing.T, m *Machine) {
		m.Agent.Node.Status = structs.NodeDown
		m.Agent.Node.StatusDescription = "no heartbeat"
	}},
	{"agent", Fail, "another agent has the ID", func(_ *testing.T, m *Machine) {
		m.Agent.Node.SecondAgent = &structs.SecondAgent{}
	}},
	{"drivers", Warn, "docker is not healthy: no daemon", func(_ *testing.T, m *Machine) {
		m.Agent.Node.Drivers["docker"] = &structs.DriverInfo{Detected: true, HealthDescription: "no daemon"}
	}},
	{"drivers", Fail, "no healthy task driver", func(_ *testing.T, m *Machine) { m.Agent.Node.Drivers = nil }},
	{"drivers", Skip, "the servers do not tell", func(_ *testing.T, m *Machine) {
		m.Agent = &Agent{NodeFault: errors.New("denied")}
	}},
	{"plugins", Fail, "controller half of the plugin nfs is not healthy: no socket", func(_ *testing.T, m *Machine) {
		m.Agent.Node.CSIControllerPlugins = map[string]*structs.CSIInfo{"nfs": {HealthDescription: "no socket"}}
	}},
	{"plugins", Skip, "runs no CSI plugin", func(_ *testing.T, m *Machine) { m.Agent.Node.CSINodePlugins = nil }},
	{"plugins", Skip, "the agent is no node", func(_ *testing.T, m *Machine) { m.Agent.Node = nil }},
}

func TestRun_AsksAServerForNoPartsOfNodes(t *testing.T) {
	m := newMachine(t)
	m.Client = false
	kit.Must(t, os.RemoveAll(m.path("sys")))
	for _, f := range m.Run(t.Context()) {
		if f.Result == Fail || f.Result == Warn {
			t.Errorf("%s: %s", f.Check, f.Text)
		}
	}
}

func TestCheckCgroups_TakesTheHierarchiesOfV1(t *testing.T) {
	m := newMachine(t)
	m.write(t, "sys/fs/cgroup/cgroup.controllers", "")
	m.write(t, "proc/self/mountinfo", sound+
		"24 21 0:7 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"+
		"25 21 0:8 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"+
		"26 21 0:9 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n")
	got := findings(t, m, "cgroups")
	if got[0].Result != OK {
		t.Errorf("got %+v", got)
	}
}

func TestTryPort_FindsAPortInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kit.Must(t, err)
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	kit.Must(t, err)
	for _, p := range []Port{
		{Network: "tcp", Address: ln.Addr().String()},
		{Network: "udp", Address: packets.LocalAddr().String()},
	} {
		if err := tryPort(t.Context(), p); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%s in use: got %v", p.Network, err)
		}
	}
	kit.Must(t, errors.Join(ln.Close(), packets.Close()))
	err = tryPort(t.Context(), Port{Network: "tcp", Address: "127.0.0.1:0"})
	if err != nil {
		t.Errorf("a free port: %v", err)
	}
}

func TestFindProgram_LooksForNamesAndPaths(t *testing.T) {
	dir := t.TempDir()
	kit.Must(t, os.WriteFile(dir+"/own", []byte("#!/bin/sh\n"), 0o755))
	for program, want := range map[string]bool{
		"sh": true, dir + "/own": true, dir + "/other": false, "no-such-program": false,
	} {
		if got := findProgram(program); got != want {
			t.Errorf("%s: got %t", program, got)
		}
	}
}

func TestNew_ReadsThisMachineAndMakesNothing(t *testing.T) {
	m := New()
	m.DataDir = filepath.Join(t.TempDir(), "not", "made")
	var u unix.Utsname
	kit.Must(t, unix.Uname(&u))
	got := findings(t, m, "kernel")
	if release := unix.ByteSliceToString(u.Release[:]); !strings.Contains(got[0].Text, release) {
		t.Errorf("got %+v, want the kernel %s", got, release)
	}
	if _, err := os.Stat(m.DataDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the checks made the data directory: %v", err)
	}
}

func TestAddress_ShowsWhereOthersReachTheAgent(t *testing.T) {
	m := newMachine(t)
	for address, want := range map[string]string{
		"10.0.0.1":   "other agents reach this one at 10.0.0.1 (the address of eth0)",
		"[::1]:4747": "only this machine reaches the agent, at [::1]:4747 (the address of eth0)",
		"s1.example": "other agents reach this one at s1.example (the address of eth0)",
	} {
		m.Address = address
		m.AddressWhy = "the address of eth0"
		found := findings(t, m, "address")
		if len(found) != 1 || found[0].Result != OK || found[0].Text != want {
			t.Errorf("%s: got %+v, want %q", address, found, want)
		}
	}
}

func TestServers_NamesEachDifference(t *testing.T) {
	m := &Machine{Agent: &Agent{}}
	if got := checkServers(t.Context(), m); len(got) != 1 || got[0].Result != OK {
		t.Errorf("without a difference: %+v", got)
	}
	m.Agent.Differences = []*cluster.SettingDifference{{Setting: "audit"}, {Setting: cluster.StateAt + "9"}}
	got := checkServers(t.Context(), m)
	if len(got) != 2 || got[0].Result != Warn || got[1].Result != Fail || got[0].Remedy == got[1].Remedy {
		t.Errorf("got %+v", got)
	}
	m.Agent.Differences = nil
	m.Agent.Silent = []string{"s3.global"}
	const unknown = "the settings of the server s3.global are not known: the leader has no contact with it"
	got = checkServers(t.Context(), m)
	if len(got) != 1 || got[0].Result != Warn || got[0].Text != unknown || got[0].Remedy == "" {
		t.Errorf("a server without contact: %+v", got)
	}
	m.Agent.ServersFault = errors.New("there is no leader")
	got = checkServers(t.Context(), m)
	if len(got) != 1 || got[0].Result != Skip || !strings.Contains(got[0].Text, "there is no leader") {
		t.Errorf("no server answers: %+v", got)
	}
	if got := checkServers(t.Context(), &Machine{}); len(got) != 1 || got[0].Result != Skip {
		t.Errorf("without an agent: %+v", got)
	}
}
