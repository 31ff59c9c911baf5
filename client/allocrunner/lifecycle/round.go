package lifecycle

import (
	"context"
	"sync"

	"berth/structs"
)

// Gate is closed until the tasks behind it may start. Then it stays open.
type Gate struct {
	opened chan struct{}
	once   sync.Once
}

func newGate() *Gate { return &Gate{opened: make(chan struct{})} }

func (g *Gate) open() {
	g.once.Do(func() { close(g.opened) })
}

// Opened returns a channel that is closed once the gate is open.
func (g *Gate) Opened() <-chan struct{} { return g.opened }

// IsOpen reports whether the gate is open.
func (g *Gate) IsOpen() bool { return isClosed(g.opened) }

// Round is one run of the tasks of an allocation, from the first start to the last end. Most allocations have
// one. A restart of all tasks ends it and begins another. The poststop tasks follow the last round.
type Round struct {
	// Stopping ends when the tasks are to stop: with the allocation's, or for a restart of all tasks.
	Stopping  context.Context
	stop      context.CancelCauseFunc
	main      *Gate // open: every prestart task has ended, or runs as a sidecar
	poststart *Gate // open: every main task has started
}

// NewRound returns a round that ends at the latest when its allocation is to stop.
func NewRound(orders *Orders) *Round {
	rd := &Round{main: newGate(), poststart: newGate()}
	rd.Stopping, rd.stop = context.WithCancelCause(orders.Stopping)
	return rd
}

// Stop orders the tasks of the round to stop.
func (rd *Round) Stop(cause Cause) { rd.stop(cause) }

// GateOf returns the gate of a task of the round, nil for a prestart task.
func (rd *Round) GateOf(spec *structs.Task) *Gate {
	switch {
	case spec.HasHook(structs.LifecyclePrestart):
		return nil
	case spec.HasHook(structs.LifecyclePoststart):
		return rd.poststart
	}
	return rd.main
}

// OpenGates opens the gates of the tasks that may start now.
func (rd *Round) OpenGates(members []Member) {
	if !holdsForAll(members, structs.LifecyclePrestart, Member.hasPrepared) {
		return
	}
	rd.main.open()
	if holdsForAll(members, "", Member.hasStarted) {
		rd.poststart.open()
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
