// Package hooks is the contract between the runner of an allocation or a task and the steps that prepare it.
// A hook sets one thing up and takes it down again. The runner orders the hooks, takes them down in reverse,
// past errors, and retries a failed Down: see Sequence. Hooks exchange data in the Env.
package hooks

import (
	"context"
	"sync"
	"sync/atomic"

	"berth/client/drivers/driver"
	"berth/structs"
)

// Alloc is a step of an allocation's life, before its first task starts and after its last has ended.
//
// Up and Down are idempotent: a restarted agent calls Up again. Down undoes all effects of Up, also after a
// partial Up or without an Up, also in a new process of the agent.
type Alloc interface {
	Name() string
	Up(ctx context.Context, env *AllocEnv) error
	Down(ctx context.Context) error
}

// Task is a step of one task's life. Up runs before each start of its process, in order. Down runs once the
// task has ended for good, in reverse, also after a partial Up or without an Up, also in a new process of the
// agent.
type Task interface {
	Name() string
	Up(ctx context.Context, env *TaskEnv) error
	Down(ctx context.Context) error
}

// Started is a Task that also acts while the process runs. The runner calls Started after each start, also
// after a re-attach. Started must not block. Stopped ends everything that Started began. The runner calls
// Stopped, and waits for it, when the process has ended and before the next Up or Down. It also calls Stopped
// when the agent stops and leaves the process running: then, and only then, ctx has ended before, and the
// process keeps serving for the next agent.
type Started interface {
	Started(ctx context.Context, task Control)
	Stopped()
}

// Stopping is a Started that prepares the stop of the process, for good or for a restart. The runner calls
// Stopping before it stops the process, and waits for it: it must end with ctx, and soon in any case. A
// process that ends by itself, or that is lost, has no such call.
type Stopping interface {
	Stopping(ctx context.Context)
}

// Control lets a hook act on its task.
type Control interface {
	// Emit records a task event.
	Emit(event *structs.TaskEvent)
	// Restart stops the process and starts it again under the task's restart policy. Users see the reason.
	Restart(reason string)
	// RestartNow is Restart without the policy: it is no attempt, and the start waits for no delay.
	RestartNow(reason string)
	// Signal sends a signal to the process. Its name may lack SIG. The error is a conflict if none runs.
	Signal(ctx context.Context, signal string) error
	// Exec runs a command in the task, see driver.Execer. The error is a conflict if the task does not run,
	// and a failed precondition if its driver runs no commands.
	Exec(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error)
	// Fail stops the task for good: it has failed. eventType is the type of the event with the reason.
	Fail(eventType, reason string)
}

// VolumeMount is a volume of the allocation, ready for its tasks.
type VolumeMount struct {
	HostPath string // a directory, or for Device a block device node
	ReadOnly bool
	Device   bool
	Writable bool // its file system could be written when it was mounted
	// Folders mounts single folders of the volume. Nil: it has none, as a device.
	Folders Folders
	// Healer repairs the volume. Nil: nothing does.
	Healer Healer
	// Note tells what the preparation of the volume left undone, "" for nothing. The tasks have it as an event.
	Note string
}

// Healer repairs a volume whose mount is dead.
type Healer interface {
	// Heal returns once the volume can be used for the next start of a task. It may wait.
	Heal(ctx context.Context, env *TaskEnv) error
}

// Folders mounts folders of a volume for its tasks. The hook that made the volume ready unmounts them.
type Folders interface {
	// Mount mounts a folder for a task, in place of a mount of an earlier start, and returns its mount point
	// on the host. The path is relative to the root of the volume.
	Mount(task, path string) (hostPath string, err error)
	// Path returns the mount point without a mount.
	Path(task, path string) string
}

// AllocEnv is shared by the hooks of one allocation. Alloc has its Job.
type AllocEnv struct {
	Alloc *structs.Allocation
	Group *structs.TaskGroup
	Dir   string // the allocation's directory on the host
	// Running reports whether a task runs: it does before the first Up of an agent that has restarted.
	Running func() bool
	// Expand replaces the references to variables of the allocation, its job and its node in a text.
	Expand func(string) string
	// NearlyUp tells the runner that all claims of the allocation are granted, and their volumes are about to
	// be mounted. Meanwhile drivers prepare the tasks: see driver.Preparer. Later calls have no effect. It
	// may be nil.
	NearlyUp func()

	// Downloaded are the bytes of the artifacts of the allocation that are in their places.
	Downloaded atomic.Int64

	// Identities has the signed identities of the allocation; nil if its job asks for none.
	Identities Identities

	volumes sync.Map // VolumeMount by alias
	network atomic.Pointer[Network]
}

// Network is the network of an allocation, as far as it differs from the node's.
type Network struct {
	driver.Network
	Status *structs.AllocNetworkStatus // for the servers; nil if it has no namespace of its own
}

// SetNetwork stores the network of the allocation.
func (e *AllocEnv) SetNetwork(n *Network) { e.network.Store(n) }

// Network returns the network of the allocation, nil for the node's.
func (e *AllocEnv) Network() *Network { return e.network.Load() }

// SetVolume stores a volume under its alias.
func (e *AllocEnv) SetVolume(alias string, m VolumeMount) {
	e.volumes.Store(alias, m)
}

// Volume returns the volume with an alias.
func (e *AllocEnv) Volume(alias string) (VolumeMount, bool) {
	v, ok := e.volumes.Load(alias)
	m, _ := v.(VolumeMount)
	return m, ok
}

// TaskEnv is shared by the hooks of one task. Hooks add mounts and variables to Config before the driver gets
// it. The runner builds Config again before each start.
type TaskEnv struct {
	*AllocEnv
	Task   *structs.Task
	Config *driver.TaskConfig
	// FirstStart is false for a restart and for a re-attach after the agent restarted.
	FirstStart bool
	// Running is true for a re-attach: the process runs, and Config has no effect on it.
	Running bool
	// Seen are the task's directories as the task sees them. Config.Dirs has the host's paths.
	Seen driver.Dirs
	// Variables are all values that strings of the task may refer to, without the ones that hooks add to
	// Config.
	Variables map[string]string
	// Expand replaces the references to Variables in a string of the task.
	Expand func(string) string
	// Node returns the present row of the node. The caller must not change it.
	Node func() *structs.Node
	// Emit records a task event.
	Emit func(*structs.TaskEvent)
}

// ProgressKey is the key in the details of a task event that tells how far a work is. Its value names the
// work. Such an event takes the place of the last event of the task if that is about the same work.
const ProgressKey = "progress"

// Failure is an error of Up with the type of its task event, in the place of structs.TaskEventHookFailed.
type Failure struct {
	Event string
	// Final says that the task does not start again.
	Final bool
	Err   error
}

func (f *Failure) Error() string { return f.Err.Error() }

func (f *Failure) Unwrap() error { return f.Err }
