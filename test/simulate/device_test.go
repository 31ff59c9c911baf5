package simulate

import (
	"context"
	"time"

	"berth/server/control/fence"
	"berth/server/fencing"
	"berth/state"
)

// device is the power switch of all machines. It may fail, hang and be slow. It never says of a machine that
// it is off while it is on: nothing protects data from a device that lies.
type device struct {
	w    *world
	mode string
	run  context.Context // of the agent that runs; nil: none does
}

const (
	deviceWorks = "works"
	deviceSlow  = "slow"
	deviceFails = "fails"
	deviceHangs = "hangs"
)

func (d *device) row() *fence.Device {
	return &fence.Device{
		Name:  "ipmi",
		Scope: fencing.ScopePower,
		Agent: d,
	}
}

// Matches implements fence.Agent, as do the methods below.
func (d *device) Matches(*state.FenceTarget) string { return "" }

func (d *device) Covers(string, string, string) bool { return false }

func (d *device) Monitor(context.Context, *state.FenceTarget) fencing.Result { return fencing.Result{} }

// Fence switches a machine off and asks whether it is. Somebody may switch it on meanwhile, also between the
// status and its answer.
func (d *device) Fence(ctx context.Context, row *state.FenceTarget) fencing.Result {
	w := d.w
	n := w.node(row.NodeID)
	mode := d.mode
	w.note("fence %s: the device %s", n.id, mode)
	if d.run != nil && d.run.Err() == nil {
		w.violate(oneFence, "an agent for %s starts while another runs", n.id)
	}
	d.run = ctx // its end ends the agent
	defer func() {
		if d.run == ctx {
			d.run = nil
		}
	}()
	w.script.reach("the device runs for " + n.id)
	pause := time.Second
	switch mode {
	case deviceFails:
		w.pass(ctx, w.upTo(5*time.Second))
		return fencing.Result{Action: "off", ExitCode: 1, Reason: "the agent failed"}
	case deviceHangs:
		w.pass(ctx, time.Minute)
		return fencing.Result{Action: "off", ExitCode: -1, Reason: "the agent hung"}
	case deviceSlow:
		pause = time.Minute
	}

	w.pass(ctx, w.upTo(pause))
	if ctx.Err() != nil {
		return fencing.Result{ExitCode: -1}
	}
	n.powerOff()
	if !n.dead {
		w.after(w.upTo(3*time.Minute), n.powerOn)
	}
	w.pass(ctx, w.upTo(pause))
	off := !n.on
	w.pass(ctx, w.upTo(pause))
	w.note("fence %s: off %v", n.id, off)
	if !off {
		return fencing.Result{Action: "status", ExitCode: 0, Reason: "the machine is on"}
	}
	return fencing.Result{Action: "status", ExitCode: 2, Proved: true}
}
