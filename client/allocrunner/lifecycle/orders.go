package lifecycle

import (
	"context"
	"errors"

	"berth/structs"
)

// Cause is the cause of an order to stop: that with which its context ends.
type Cause struct {
	Reason string
	Event  string // type of the task event for it, if any
	Failed bool   // the whole allocation fails
}

func (c Cause) Error() string { return c.Reason }

// CauseOf returns the cause of the order that has ended a context. It reports false if there was no order.
func CauseOf(ctx context.Context) (Cause, bool) {
	return errors.AsType[Cause](context.Cause(ctx))
}

// RestartAll is the cause with which a round ends that another is to follow.
var RestartAll = Cause{
	Reason: "a user requested the restart of all tasks",
	Event:  structs.TaskEventRestartSignal,
}

// Expired is the cause for an allocation that its max_run_duration ends.
var Expired = Cause{
	Reason: "the allocation has been on the node for the max_run_duration of its group",
	Event:  structs.TaskEventMaxRunDuration,
}

// Orders are the orders to end an allocation. Each one is a context, because it comes at any time and stays.
type Orders struct {
	// Stopping ends when the allocation is to stop: it interrupts Ups and starts in progress, and nothing but
	// poststop tasks is started after it.
	Stopping context.Context
	// Abandoned ends when the poststop tasks are to stop, too.
	Abandoned context.Context
	// Lost ends when the allocation has lost a volume: then there is no time for a graceful end.
	Lost context.Context
	// Undelayed ends when no shutdown_delay precedes the end of the tasks any more.
	Undelayed context.Context

	stop      context.CancelCauseFunc
	abandon   context.CancelCauseFunc
	lose      context.CancelFunc
	skipDelay context.CancelFunc
}

// NewOrders returns the orders of an allocation before the first one is given.
func NewOrders() *Orders {
	o := &Orders{}
	o.Stopping, o.stop = context.WithCancelCause(context.Background())
	o.Abandoned, o.abandon = context.WithCancelCause(context.Background())
	o.Lost, o.lose = context.WithCancel(context.Background())
	o.Undelayed, o.skipDelay = context.WithCancel(o.Lost)
	return o
}

// Stop orders all tasks but the poststop tasks to stop, and starts none of them any more.
func (o *Orders) Stop(cause Cause) { o.stop(cause) }

// Abandon orders the poststop tasks to stop.
func (o *Orders) Abandon(cause Cause) { o.abandon(cause) }

// GiveUp orders all tasks to stop, and starts none any more.
func (o *Orders) GiveUp(cause Cause) {
	o.abandon(cause)
	o.stop(cause)
}

// Lose is GiveUp without a graceful end, also during a stop.
func (o *Orders) Lose(cause Cause) {
	o.lose()
	o.GiveUp(cause)
}

// SkipDelay lets the tasks end without their shutdown_delay.
func (o *Orders) SkipDelay() { o.skipDelay() }

// WhileWanted returns a context that ends with halt, the context of an order to stop, or soon after ctx. It
// has ended when the order has been given: code that runs because of a later event (for example the servers'
// contact) sees the stop.
func WhileWanted(ctx, halt context.Context) (context.Context, context.CancelFunc) {
	wanted, cancel := context.WithCancel(halt)
	leave := context.AfterFunc(ctx, cancel)
	return wanted, func() { leave(); cancel() }
}
