// Package doctor checks whether a machine has the things that an agent of berth needs: the kernel, its
// cgroups, mounts and modules, ports, clock, disk, certificates, fence agents, and the plugins of the agent
// that runs.
//
// A check reads and changes nothing. It opens a port only to close it at once. A check that lacks a right or
// an agent says so and has the result skip: it reports nothing that it has not seen.
package doctor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/peertls"
	"berth/structs"
	"berth/structs/cluster"
)

// Result is the result of a check.
type Result string

// The results, the best first.
const (
	OK   Result = "ok"
	Skip Result = "skip" // the check does not apply, or could not look
	Warn Result = "warn" // the agent runs, and lacks something
	Fail Result = "fail" // the agent does not run, or loses something
)

// Finding is one result of a check.
type Finding struct {
	Check  string // the name of the check
	Result Result
	Text   string // one sentence without a full stop
	Remedy string `json:",omitempty"` // the next step, "" if there is none
}

// Machine is the machine of an agent, with the settings that the checks need.
type Machine struct {
	Client  bool   // the agent is a node
	DataDir string // absolute
	Ports   []Port
	// Address is where other agents reach this one, and AddressWhy the reason of it. AddressFault: there is
	// none.
	Address, AddressWhy string
	AddressFault        error
	TLS                 peertls.Config
	Fences              []Fence
	// Watchdog is the device of client.fencing.watchdog, "" for none.
	Watchdog string
	// ConfigFault is the error of the configuration. The other fields have its defaults then. Nil: none.
	ConfigFault error
	// Unconfigured: there is no configuration, and the fields describe an agent that is server and node.
	Unconfigured bool
	// Agent is the answer of the agent of this machine; nil: none has answered.
	Agent *Agent

	root   string // the root of /proc, /sys, /dev and /lib
	euid   int
	now    time.Time
	listen func(ctx context.Context, p Port) error
	clock  func(*unix.Timex) (state int, err error)
	usage  func(path string, st *unix.Statfs_t) error
	find   func(program string) bool
}

// Port is a port of the agent.
type Port struct {
	Setting string // such as ports.http
	Network string // tcp or udp
	Address string // host:port
}

// Fence is a fence device of a server.
type Fence struct {
	Name        string
	Program     string            // a name or an absolute path
	SecretFiles map[string]string // paths by the names of options
}

// Agent is the answer of an agent that runs.
type Agent struct {
	Unhealthy error // nil: all halves are healthy
	// Node is the row of its node. Nil: the agent is no node, or no server answered, which NodeFault says.
	Node      *structs.NodeDetail
	NodeFault error
	// Server: it is a server, which others know on the machine Machine.
	Server  bool
	Machine structs.MachineID
	// Differences are the settings that the servers do not have alike, as the leader knows them, and Silent the
	// names of the servers with which it has no contact. ServersFault: the leader did not tell them.
	Differences  []*cluster.SettingDifference
	Silent       []string
	ServersFault error
	// FenceWarnings are the nodes that the fence devices of the servers could not fence, or wrongly.
	FenceWarnings []*cluster.FenceWarning
}

// New returns this machine, without settings.
func New() *Machine {
	return &Machine{
		root:   "/",
		euid:   os.Geteuid(),
		now:    time.Now(),
		listen: tryPort,
		clock:  unix.Adjtimex,
		usage:  unix.Statfs,
		find:   findProgram,
	}
}

// checks lists the checks in the order of the output.
var checks = []struct {
	name string
	run  func(context.Context, *Machine) []Finding
}{
	{"configuration", checkConfiguration},
	{"user", checkUser},
	{"kernel", checkKernel},
	{"cgroups", checkCgroups},
	{"mounts", checkMounts},
	{"modules", checkModules},
	{"programs", checkPrograms},
	{"ports", checkPorts},
	{"address", checkAddress},
	{"clock", checkClock},
	{"disk", checkDisk},
	{"certificates", checkCertificates},
	{"fencing", checkFencing},
	{"agent", checkAgent},
	{"servers", checkServers},
	{"copies", checkCopies},
	{"drivers", checkDrivers},
	{"plugins", checkPlugins},
}

// Run runs all checks. Each has at least one finding.
func (m *Machine) Run(ctx context.Context) []Finding {
	var all []Finding
	for _, c := range checks {
		for _, f := range c.run(ctx, m) {
			f.Check = c.name
			all = append(all, f)
		}
	}
	return all
}

// path returns a path below the root of the machine.
func (m *Machine) path(p string) string { return filepath.Join(m.root, p) }

// read returns a file of the kernel or of the system without the blanks around its text.
func (m *Machine) read(p string) (string, error) {
	content, err := os.ReadFile(m.path(p))
	return strings.TrimSpace(string(content)), err
}

// exists reports whether there is a file, also one that this user may not open.
func (m *Machine) exists(p string) bool {
	_, err := os.Stat(m.path(p))
	return err == nil
}

// one returns the finding of a check that has only one.
func one(r Result, text, remedy string) []Finding {
	return []Finding{{Result: r, Text: text, Remedy: remedy}}
}

// findProgram reports whether a program is in PATH or in the directories of programs for root.
func findProgram(program string) bool {
	if _, err := exec.LookPath(program); err == nil {
		return true
	}
	if strings.Contains(program, "/") {
		return false
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return true
		}
	}
	return false
}
