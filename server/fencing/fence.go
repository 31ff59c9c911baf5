package fencing

import (
	"context"
	"fmt"

	"berth/state"
	"berth/structs"
)

// The actions of agents.
const (
	actionOff     = "off"
	actionStatus  = "status"
	actionMonitor = "monitor"
)

// The exit codes of agents.
const (
	exitDone = 0
	exitOff  = 2 // of status: the plug is off
)

// Result is the end of a run of an agent.
type Result struct {
	Action   string // the last action: off, status or monitor
	ExitCode int    // of that action; -1 if the agent did not start or did not end by itself
	Output   string // the last 4 KiB of what the agent wrote, without lines that hold a secret
	// Proved: the node is off, or cut off from the volumes of the device.
	Proved bool
	// Reason says in a sentence why there is no proof, "" if there is one.
	Reason string
}

// Fence switches a node off, or cuts it off from its storage, and asks for the status: the exit code 2 of
// that proves it. Each of the two actions has the timeout of the device. The end of ctx ends the agent.
func (d *Device) Fence(ctx context.Context, t *state.FenceTarget) Result {
	a, err := d.prepare(t)
	if err != nil {
		return unproved(actionOff, noExit, err)
	}

	r := a.act(ctx, actionOff, exitDone)
	if r.Reason != "" {
		return r
	}

	// The exit code of off does not suffice: an agent may report a command that it has sent, and not its
	// effect.
	r = a.act(ctx, actionStatus, exitOff)
	r.Proved = r.Reason == ""
	return r
}

// Monitor asks an agent whether it reaches its device for a node. It proves nothing: a Reason is a fault of
// the agent, its device or its options. Without a node, options that refer to nodes are a fault.
func (d *Device) Monitor(ctx context.Context, t *state.FenceTarget) Result {
	a, err := d.prepare(t)
	if err != nil {
		return unproved(actionMonitor, noExit, err)
	}
	return a.act(ctx, actionMonitor, exitDone)
}

// act runs an agent for one action, which must end with an exit code.
func (a *fenceAgent) act(ctx context.Context, action string, want int) Result {
	code, err := a.run(ctx, action)
	if err == nil && code != want {
		err = fmt.Errorf("the agent ended with exit code %d; expected %d", code, want)
	}

	r := Result{Action: action, ExitCode: code}
	if err != nil {
		r = unproved(action, code, err)
	}

	r.Output = a.output.String()
	return r
}

// unproved returns the result of an action that failed.
func unproved(action string, code int, err error) Result {
	return Result{
		Action:   action,
		ExitCode: code,
		Reason:   structs.Cut(structs.Printable(fmt.Sprintf("%s: %s", action, err)), maxReason),
	}
}

// maxReason bounds a Reason, in bytes.
const maxReason = 1 << 10
