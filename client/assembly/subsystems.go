package assembly

import (
	"context"
	"net"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/taskrunner"
	"berth/client/config"
	"berth/client/devices"
	"berth/client/handover"
	"berth/client/hooks"
	"berth/client/hooks/disk"
	"berth/client/hooks/secrets"
	"berth/client/login"
	"berth/client/membership"
	"berth/client/mesh/connect"
	"berth/client/mesh/services"
	"berth/client/store"
	"berth/internal/backoff"
	"berth/internal/boottime"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Drivers are the task drivers of this node.
type Drivers interface {
	taskrunner.Drivers
	// WaitFirst returns when each driver has been fingerprinted once, or with an error that names those
	// that have not when ctx ends.
	WaitFirst(ctx context.Context) error
	// Infos returns the last report of each driver, by name.
	Infos() map[string]*structs.DriverInfo
	// Changes receives a value after Infos may have changed. It has one reader.
	Changes() <-chan struct{}
}

// Plugins are the CSI plugins that run on this node.
type Plugins interface {
	// WaitFirst returns when each plugin that ran already when the agent started has been fingerprinted
	// once, or with an error that names the others when ctx ends.
	WaitFirst(ctx context.Context) error
	// Instances returns the last report of each instance.
	Instances() []*structs.CSIPluginInstance
	// Changes receives a value after Instances may have changed. It has one reader.
	Changes() <-chan struct{}
}

// Devices are the devices of this node.
type Devices interface {
	// WaitFirst returns when each device plugin has reported once, or with an error that names the missing
	// ones when ctx ends.
	WaitFirst(ctx context.Context) error
	// Groups returns the last report, by vendor, type and name. The values are read-only.
	Groups() []*structs.NodeDeviceResource
	// Faults returns why plugins have no devices, by their names. The map is the caller's.
	Faults() map[string]string
	// Changes receives when Groups or Faults may answer something new. It has one reader.
	Changes() <-chan struct{}
	// SetHost replaces the groups of device files of the configuration.
	SetHost(groups []*devices.HostGroup)
	// StatsOf returns the last statistics of devices, by group. The maps are the caller's.
	StatsOf(held []*structs.AllocatedDeviceResource) []*nodecalls.DeviceGroupStats
	// Stats returns the last statistics of all devices, by group. The maps are the caller's.
	Stats() []*nodecalls.DeviceGroupStats
}

// Subsystems are the parts that run allocations. Build makes them, and the agent owns them.
type Subsystems struct {
	Drivers    Drivers
	Plugins    Plugins
	Devices    Devices // nil: the node has none
	AllocHooks func(env *hooks.AllocEnv) []hooks.Alloc
	TaskHooks  func(env *hooks.AllocEnv, task *structs.Task) []hooks.Task
	// Vault has the attributes that the node gets from its Vault. It may be nil.
	Vault *login.Fingerprint
	// Inventory, if not nil, returns this node's records of volumes. With an error it is not complete.
	Inventory func() (*structs.NodeInventory, error)
	// Endpoints are the procedures that servers may call on this node.
	Endpoints []rpc.Endpoint
	// Renewed, if not nil, takes each new lease of the node, before any other use of it.
	Renewed func(membership.Lease)
	// LeaseEnded, if not nil, reports whether an allocation has ended, or is being ended, with the lease of the
	// node.
	LeaseEnded func(allocID string) bool
	// Run are the subsystems' own loops. They end with ctx, after the runner of every allocation.
	Run []func(ctx context.Context)
	// Release, if not nil, removes what the subsystems made for the node itself and make again when it is
	// needed. The agent calls it at its end if nothing of an allocation is left.
	Release func() error
	// Destroy, if not nil, removes everything the subsystems made for the node itself. The agent calls it
	// after it has destroyed every allocation.
	Destroy func() error
}

// Consul is the link with the Consul of this node. Package consul has it.
type Consul interface {
	services.Consul
	// WaitFirst returns when Consul has been asked once, with or without an answer, or when ctx ends.
	WaitFirst(ctx context.Context)
	// Attributes returns the node's attributes. It is empty until Consul has answered once.
	Attributes() map[string]string
	// Changes receives a value after Attributes may have changed. It has one reader.
	Changes() <-chan struct{}
	// DialHTTP and DialGRPC connect to the APIs of Consul.
	DialHTTP(ctx context.Context) (net.Conn, error)
	DialGRPC(ctx context.Context) (net.Conn, error)
	// ACLs reports whether the ACLs of Consul are on. It waits for the first answer of Consul.
	ACLs(ctx context.Context) (bool, error)
	connect.EnvoyConsul
	connect.NativeConsul
	login.Consul
}

// Parts are the inputs of Deps.Build.
type Parts struct {
	Starting context.Context // ends if Build is to give up
	Config   *config.Config
	Logger   hclog.Logger
	DB       *store.DB
	NodeID   string
	SecretID string
	MHz      int // of the node, over all cores
	Servers  rpc.Caller
	// MarkClaims draws the mark of the agent that goes into the log with claims on volumes. It waits until the
	// servers have accepted the agent.
	MarkClaims func(context.Context) error
	// ServersBack is announced when a heartbeat reaches the servers again after a cut.
	ServersBack *backoff.Recovery
	Consul      Consul // nil: the node uses none
	// Holds knows the allocations that still hold what others are to have.
	Holds *handover.Tracker
	// HostVolume returns the host volume with a name, nil if the node does not have it.
	HostVolume func(name string) *config.HostVolume
	// LocalAlloc finds an allocation on this node.
	LocalAlloc func(allocID string) (disk.Local, bool)
	// Contacted is closed once the servers have sent the allocations of this node: then LocalAlloc knows all of
	// them, also an earlier agent's whose records are lost.
	Contacted <-chan struct{}
	Clock     boottime.Clock // of leases
	// CheckEpoch rejects a call of the servers for an epoch of the node that has ended.
	CheckEpoch func(epoch uint64) error
	// MovedData returns the bounds of data from other nodes.
	MovedData func() disk.Settings
	// Report adds an event to the tasks of an allocation.
	Report func(allocID, message string)
	// Lose ends an allocation that the node must not run any more. It reports false for one without a runner.
	Lose func(allocID, reason string) bool
	// Group returns the present group of an allocation, nil for one without a runner.
	Group   func(allocID string) *structs.TaskGroup
	TaskAPI *secrets.APISockets // of the agent; nil: its tasks have none
	// Progress receives the reason for which the set-up of an allocation waits, "" once it no longer waits.
	Progress func(allocID, reason string)
}
