// Package executor keeps a task running when the agent ends and restarts. Each task has a supervisor: a small
// process with its own session, started from the agent's executable (Main). It starts the task, keeps its
// output in bounded files, serves the agent on a socket, and records the end of the task. Tasks is the
// agent's side of it, which the exec and raw_exec drivers use.
//
// A task has one directory, named after its ID, over which a sandbox mounts its root, invisible to the host:
//
//	lock       locked by the supervisor while it lives, from before it runs (inherited from the agent)
//	task.json  pid, start time and boot of the supervisor and of the task's first process; the cgroups
//	sock       the socket of the supervisor
//	exec       the socket of the supervisor for commands beside the task's program
//	exit.json  the end of the task: written before the supervisor ends
//	log        the errors of the supervisor
//
// The supervisor of a sandbox is pid 1 of its namespaces (see package sandbox), so the kernel ends the
// task with it. A program without a sandbox is a child of its supervisor.
//
// A supervisor has to outlive the agent. Under systemd this requires KillMode=process in the agent's unit.
//
// The agent may start the supervisor before it knows the program (Prepare). Such a supervisor ends with the
// agent, without a task.
//
// Its rules: the directory is made before everything else and removed after everything else, so it names all
// objects of the task. A supervisor ends after its task. The lock, not a pid, shows whether it lives. A pid
// is signalled only after a check of its start time under a pidfd. The spec has the task's environment, so it
// goes through a pipe and never onto the disk.
package executor

import (
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/sandbox"
	"berth/internal/logfile"
	"berth/structs"
)

// Spec is the input of a supervisor. The agent sends one without a program, with which the supervisor
// prepares the task, and then the whole; or it sends only the whole.
type Spec struct {
	TaskID  string
	Driver  string
	Cgroup  *Cgroup // nil: none
	Sandbox *sandbox.Config
	Program *sandbox.Program // the program, if there is no Sandbox
	Logs    Logs
	// Network is the file of the network namespace of the supervisor and the task, "" for the agent's.
	Network string `json:",omitempty"`
}

// Cgroup describes the cgroup of the task, in the hierarchies that the agent has found.
type Cgroup struct {
	Machine *cgroups.Machine
	Parent  string // see CgroupConfig.CgroupParent
	Limits  cgroups.Limits
}

// Logs has the settings of the task's logs. With Disabled the output is lost.
type Logs struct {
	logfile.Config // without the kind
	Disabled       bool
}

// The names in a task's directory.
const (
	lockFile   = "lock"
	recordFile = "task.json"
	socketFile = "sock"
	exitFile   = "exit.json"
	logFile    = "log"

	sessionFile = "exec"
)

// request is the agent's request on a connection. The answer is one reply. The answer to opWait is the end of
// the connection.
type request struct {
	Op      string
	Signal  int           // of opSignal and opStop
	Timeout time.Duration // of opStop: the time until SIGKILL
}

const (
	opWait   = "wait"
	opSignal = "signal"
	opStop   = "stop"
	opStats  = "stats"
)

// reply is the supervisor's answer to a request and to the start.
type reply struct {
	Kind  structs.Kind   `json:",omitempty"`
	Error string         `json:",omitempty"`
	Stats *cgroups.Stats // of opStats
	// Supervisor is the pid of the supervisor for the agent, in the answer to the start.
	Supervisor int `json:",omitempty"`
}

func replyTo(err error) *reply {
	if err == nil {
		return &reply{}
	}
	return &reply{
		Kind:  structs.KindOf(err),
		Error: err.Error(),
	}
}

func (r *reply) err() error {
	if r.Error == "" {
		return nil
	}
	return &structs.Error{Kind: r.Kind, Text: r.Error}
}

// parseSignal reads a signal's name, "SIGTERM" for none.
func parseSignal(name string) (unix.Signal, error) {
	if name == "" {
		return unix.SIGTERM, nil
	}
	sig := unix.SignalNum(name)
	if sig == 0 {
		return 0, structs.Invalidf("unknown signal %q; expected a name such as SIGTERM or SIGHUP", name)
	}
	return sig, nil
}

// readSpec reads a spec, which may have no program.
func readSpec(from *json.Decoder) (*Spec, error) {
	s := &Spec{}
	err := from.Decode(s)
	if err != nil {
		return nil, fmt.Errorf("reading the task's spec: %w", err)
	}
	if s.Sandbox != nil && s.Program != nil {
		return nil, structs.Internalf("the spec of task %q has both a Sandbox and a Program", s.TaskID)
	}
	return s, nil
}
