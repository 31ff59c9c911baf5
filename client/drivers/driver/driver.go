// Package driver defines a task driver for the node agent: a small interface with plain data on both sides. A
// driver starts a task as processes that outlive the agent, and finds them again after a restart of the
// agent. It knows no jobs and no servers, and of volumes only the mounts that it has to make.
package driver

import (
	"context"
	"time"

	"berth/client/drivers/cgroups"
	"berth/consul/mesh"
	"berth/structs"
)

// Driver runs tasks. Its methods are safe for concurrent use; those with a task ID answer not-found for
// a task the driver does not hold.
type Driver interface {
	// Name is the value of a job's `driver`.
	Name() string
	// Fingerprint reports whether the driver can work on this machine, and the reason if it cannot.
	Fingerprint(ctx context.Context) *structs.DriverInfo
	// Validate checks a task's driver config: unknown and missing fields are invalid, named by path. A value
	// with a reference (nodecalls.HasReference) counts as valid where a string may stand for the value that
	// replaces it: Start checks that one.
	Validate(config map[string]any) error

	// Start starts the task and returns the handle for Recover. A failed start leaves nothing behind that
	// Destroy does not remove.
	Start(ctx context.Context, cfg *TaskConfig) (*Handle, error)
	// Recover finds a task again after a restart of the agent. The task still runs, or it has ended and its
	// exit result is kept. Not-found means that the task is gone and its exit result is unknown.
	Recover(ctx context.Context, h *Handle) error

	// Wait returns when the task's main process has ended, or with ctx's error.
	Wait(ctx context.Context, taskID string) (*ExitResult, error)
	// Stop sends the signal: a name such as SIGTERM, or "" for the default of the driver, such as the signal
	// that the image of a container names. If the task has not ended after the timeout, Stop kills all its
	// processes. It returns when the task has ended. It is idempotent.
	Stop(ctx context.Context, taskID, signal string, timeout time.Duration) error
	// Signal sends a signal to the task's main process.
	Signal(ctx context.Context, taskID, signal string) error

	// Destroy kills the task if it has not ended, and removes everything that the driver made for it:
	// processes, cgroups, mounts, sockets. It is idempotent. h is the handle that the agent has recorded, nil
	// if it has none: it tells where the task is if the driver has not recovered it.
	Destroy(ctx context.Context, taskID string, h *Handle) error
	// Stats returns the present usage of the task.
	Stats(ctx context.Context, taskID string) (*Stats, error)
}

// Preparer is a Driver that can begin a start beside the set-up that precedes it.
type Preparer interface {
	// Prepare begins the start of a task and does not wait for it. cfg may lack Mounts, Proxy, and a part of
	// Env and Config. Start completes the start, or begins another if the rest of cfg has changed. If ctx or
	// the agent ends before, the processes end. Destroy, or Recover in another agent, removes what is left.
	Prepare(ctx context.Context, cfg *TaskConfig) error
}

// TaskConfig is the input of Start.
type TaskConfig struct {
	ID        string // "<alloc id>/<task>": unique on the node
	Task      string
	Of        Origin
	User      string
	Config    map[string]any // the driver's config block, interpolated
	Env       map[string]string
	DeviceEnv map[string]string // the variables in Env that the task's devices set
	Resources structs.Resources
	Ports     []structs.AllocatedPort // of the allocation

	Dirs      Dirs
	Mounts    []Mount
	Network   *Network    // nil: the node's
	Proxy     *mesh.Proxy // nil: the task is no proxy of Consul's service mesh
	LogConfig structs.LogConfig
	// Privileged keeps all capabilities and system calls and shows the host's /dev: for a task that runs a
	// CSI plugin.
	Privileged bool
	// OrderGuard, if not nil, has to know the cgroup that the task gets before the first process of the task.
	// If it returns an error, the task must not start. Later the driver checks that the task is there.
	OrderGuard func(*cgroups.Group) error `json:"-"`
}

// Origin has the names of what a task belongs to. Env has them, too, but there a job can replace them.
type Origin struct {
	Namespace      string
	JobID, JobName string
	ParentID       string // of a periodic or parameterized job, "" if the job is no child of one
	Group          string
	Alloc          string // the allocation's name
}

// Dirs are host paths that exist before Start.
type Dirs struct {
	Task        string // the task's own directory; drivers may build its root in here
	AllocShared string
	Local       string
	Secrets     string
	Logs        string // <task>.stdout.N and <task>.stderr.N go here
	// Tokens are files of the agent, relative to Task, which a driver gives to the task's user like
	// SecretFiles.
	Tokens []string
}

// The files that the agent writes to Dirs.Secrets. A driver gives them to the task's user together with the
// directory.
const (
	SITokenFile        = "si_token"             // the token of Consul
	EnvoyBootstrapFile = "envoy_bootstrap.json" // the configuration of a proxy
	ConsulCAFile       = "consul_ca_file.pem"   // the certificates of Consul's authority
	VaultTokenFile     = "vault_token"          // the token of Vault
	ConsulTokenFile    = "consul_token"         // the token of Consul of a task with an identity for it
)

// SecretFiles are the names of these files.
var SecretFiles = []string{SITokenFile, EnvoyBootstrapFile, ConsulCAFile, VaultTokenFile, ConsulTokenFile}

// Inside has the paths at which a task with a private root sees its directories.
var Inside = Dirs{
	AllocShared: "/alloc",
	Local:       "/local",
	Secrets:     "/secrets",
}

// Network is the network of the allocation of a task, as far as it differs from the node's.
type Network struct {
	// Namespace is the file of the network namespace in which the task has to start, "" for the node's. A
	// driver that cannot do so does not start the task.
	Namespace string
	Hostname  string // "": the node's

	// Address is the allocation's, "" if it has none of its own.
	Address string
	// DNS has the settings of the job and the network, nil if all are the node's.
	DNS *structs.DNSConfig
	// Hosts and Resolver are files of the node that a task with a private root sees as /etc/hosts and
	// /etc/resolv.conf, "" for the node's own.
	Hosts, Resolver string
}

// NamespaceOf returns the file of the network namespace of a task, "" for the node's.
func (c *TaskConfig) NamespaceOf() string {
	if c.Network == nil {
		return ""
	}
	return c.Network.Namespace
}

// Mount binds a host path into the task.
type Mount struct {
	HostPath    string
	TaskPath    string // absolute inside the task
	ReadOnly    bool
	Propagation string // "private" (also ""), "host-to-task" (rslave), "bidirectional" (rshared)
	Device      bool   // HostPath is a device node: bound as a file and allowed in the device cgroup
	Permissions string // of a device: any of "rwm"; "" is "rwm"
	Volume      string // the name in the job, "" if the mount is of no volume
}

// Handle is the input of Recover. The agent keeps it. Only the driver reads State.
type Handle struct {
	Driver  string
	TaskID  string
	Version int
	PID     int
	State   []byte
	// Location is nil for a task in the network of the node or of its allocation. A Recover without State
	// sets it.
	Location *Location `codec:",omitempty"`
}

// Location is the place of a task in a network of its driver.
type Location struct {
	Address string
	// Advertised says that services of the task have the address unless their job says otherwise.
	Advertised bool
}

// ExitResult describes the end of a task. Err is set if the exit status is unknown.
type ExitResult struct {
	ExitCode  int
	Signal    int
	OOMKilled bool
	Err       string
}

// Successful reports whether the task ended by itself with exit code 0.
func (r *ExitResult) Successful() bool {
	return r.ExitCode == 0 && r.Signal == 0 && r.Err == ""
}

// TaskEvent is a message of a driver about a task.
type TaskEvent struct {
	AllocID     string
	Task        string
	Message     string
	Annotations map[string]string
	Time        time.Time
}

// Stats is the usage of a task. A driver leaves out the values that it does not measure.
type Stats struct {
	cgroups.Stats
	// Percent is the present use of processors, 100 for one of them, from a driver that does not know
	// CPUTotal.
	Percent     *float64
	CollectedAt int64 // UnixNano
}
