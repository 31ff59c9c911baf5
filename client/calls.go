package client

import (
	"context"

	"berth/client/allocrunner"
	"berth/client/allocrunner/taskdirs"
	"berth/client/allocrunner/taskrunner"
	"berth/client/assembly"
	"berth/client/machine"
	"berth/structs"
	"berth/structs/jobaction"
	"berth/structs/nodecalls"
)

// callConfig has the parts of the agent that the calls need.
type callConfig struct {
	// Runner returns the runner of an allocation, nil for one that is not here.
	Runner func(allocID string) *allocrunner.Runner
	// AllocDir is the directory of all allocations.
	AllocDir string
	// Node returns the row of this node.
	Node    func() *structs.Node
	Devices assembly.Devices // nil: the node has none
}

// allocCalls serves the calls of users and servers for the allocations and the machine of a node: commands,
// signals and restarts, files, statistics and checks. It finds the runner of an allocation and passes the
// call on. It does not authorize callers, and it changes no record of the node. Its methods may run at the
// same time.
type allocCalls struct {
	parts    callConfig
	sessions execSessions
}

// newAllocCalls makes the calls of a node.
func newAllocCalls(c callConfig) *allocCalls {
	return &allocCalls{parts: c, sessions: newExecSessions(structs.MaxExecs)}
}

// Find returns the runner of an allocation. The error is not-found if the allocation is not here.
func (h *allocCalls) Find(allocID string) (*allocrunner.Runner, error) {
	r := h.parts.Runner(allocID)
	if r == nil {
		return nil, structs.NotFoundf("allocation %s is not on this node", allocID)
	}
	return r, nil
}

// RestartAlloc restarts the running tasks of an allocation, the one with a name, or with all every task. It
// does not wait. The error is not-found if the allocation is not here. See allocrunner.Runner.RestartTasks
// and RestartAll for the others.
func (h *allocCalls) RestartAlloc(allocID, task string, all bool) error {
	r, err := h.Find(allocID)
	if err != nil {
		return err
	}

	if all {
		return r.RestartAll()
	}
	return r.RestartTasks(task)
}

// SignalAlloc sends a signal to the running tasks of an allocation, or to the one with a name. The error is
// not-found if the allocation is not here; see allocrunner.Runner.SignalTasks for the others.
func (h *allocCalls) SignalAlloc(ctx context.Context, allocID, task, signal string) error {
	r, err := h.Find(allocID)
	if err != nil {
		return err
	}
	return r.SignalTasks(ctx, task, signal)
}

// Exec finds a running task in which a command or an action is to run. The error is not-found if the
// allocation is not here; see allocrunner.Runner.Exec and Action for the others. A node with structs.MaxExecs
// commands is unavailable.
func (h *allocCalls) Exec(at jobaction.Target) (run taskrunner.ExecFunc, err error) {
	r, err := h.Find(at.AllocID)
	if err != nil {
		return nil, err
	}

	if at.Action != "" {
		run, err = allocrunner.Action(r, at)
	} else {
		run, err = r.Exec(at.Task)
	}
	if err != nil {
		return nil, err
	}

	return h.sessions.bound(run), nil
}

// LogFiles returns the directory that holds <task>.<kind>.N, the logs of a task of an allocation on this
// node. kind is stdout or stderr. ended is closed when the task is dead. The error is not-found if the
// allocation is not here, and invalid if it has no such task.
func (h *allocCalls) LogFiles(allocID, task, kind string) (dir string, ended <-chan struct{}, err error) {
	if kind != "stdout" && kind != "stderr" {
		return "", nil, structs.Invalidf("a task has the logs stdout and stderr, not %q", kind)
	}

	r, err := h.Find(allocID)
	if err != nil {
		return "", nil, err
	}

	ended, err = r.TaskDead(task)
	if err != nil {
		return "", nil, err
	}

	return taskdirs.Logs(r.Dir()), ended, nil
}

// AllocDir returns the directory of an allocation on this node. ended is closed when every task is dead and
// every hook is down. The error is not-found if the allocation is not here.
func (h *allocCalls) AllocDir(allocID string) (dir string, ended <-chan struct{}, err error) {
	r, err := h.Find(allocID)
	if err != nil {
		return "", nil, err
	}
	return r.Dir(), r.Unwound(), nil
}

// HostStats measures the resource use of this machine, and adds the last statistics of its devices.
func (h *allocCalls) HostStats(ctx context.Context) (*nodecalls.HostStats, error) {
	host := machine.Host{
		Dir: h.parts.AllocDir,
		MHz: h.parts.Node().NodeResources.CPU.CpuShares,
	}

	s, err := host.Measure(ctx)
	if err == nil && h.parts.Devices != nil {
		s.DeviceStats = h.parts.Devices.Stats()
	}

	return s, err
}

// AllocStats measures the running tasks of an allocation on this node, or one of them if task is not "". It
// reads when it is called: nobody measures tasks that nobody asks for. The error is not-found if the
// allocation is not here; see allocrunner.Runner.Stats for the others.
func (h *allocCalls) AllocStats(
	ctx context.Context, allocID, task string,
) (*nodecalls.AllocResourceUsage, error) {
	r, err := h.Find(allocID)
	if err != nil {
		return nil, err
	}
	return r.Stats(ctx, task, deviceStats{h.parts.Devices})
}

// AllocChecks returns the last results of the checks of an allocation on this node by their IDs. The error is
// not-found if the allocation is not here.
func (h *allocCalls) AllocChecks(allocID string) (map[string]*structs.CheckResult, error) {
	r, err := h.Find(allocID)
	if err != nil {
		return nil, err
	}
	return r.Checks(), nil
}

// deviceStats are the statistics of the devices of a node.
type deviceStats struct{ devices assembly.Devices }

// DeviceStats implements allocrunner.DeviceStats.
func (s deviceStats) DeviceStats(held []*structs.AllocatedDeviceResource) []*nodecalls.DeviceGroupStats {
	if s.devices == nil || len(held) == 0 {
		return nil
	}
	return s.devices.StatsOf(held)
}
