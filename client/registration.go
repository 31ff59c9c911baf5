package client

import (
	"context"
	"sync/atomic"
	"time"

	"berth/client/machine"
	"berth/client/membership"
	"berth/internal/backoff"
	"berth/structs"
)

// nodeBatch is the time for which changes of the node itself are gathered before they are sent.
const nodeBatch = 100 * time.Millisecond

// registration keeps the row of the node and its lease with the servers.
type registration struct {
	*node
	work    *work
	plugins *plugins
	claims  *claims

	facts    *machine.Facts
	networks []*structs.NodeNetworkResource // read once: a change of the networks needs a restart
	meta     *nodeMeta
	proof    *membership.ProofKeeper

	row   atomic.Pointer[structs.Node]     // of the last or the coming registration
	lease atomic.Pointer[membership.Lease] // that the servers granted last
	// It has a value during a write of the node's rows, and guards inDoubt and plugins.acked.
	writes  chan struct{}
	inDoubt bool // whether the servers may still carry out an earlier write
	// The fields of run.
	unkept      string    // the cluster of the node if the disk does not have it
	unaccounted time.Time // since when the servers wait for the node's inventory, or zero

	changed   chan struct{} // has a value if the configuration or the metadata may have changed the node
	due       chan struct{} // has a value if the servers have an outdated registration or none
	comeback  *membership.Return
	departure *membership.LeavingNode
}

// newRegistration makes the loop, and gives it to those that tell it when a registration is due.
func newRegistration(n *node, w *work, p *plugins, k *claims) *registration {
	reg := &registration{
		node:     n,
		work:     w,
		plugins:  p,
		claims:   k,
		writes:   make(chan struct{}, 1),
		changed:  make(chan struct{}, 1),
		due:      make(chan struct{}, 1),
		comeback: membership.NewReturn(),
	}
	w.registration = reg
	p.registration = reg
	return reg
}

// runDrivers registers the node again after each change of its drivers, devices and settings. It retries
// until the servers acknowledge it. Heartbeats continue meanwhile.
func (reg *registration) runDrivers(ctx context.Context) {
	if !waitClosed(ctx, reg.registered) {
		return
	}

	// A nil channel is never ready, so a part that the node does not have has no case below.
	var devices <-chan struct{}
	if reg.subsystems.Devices != nil {
		devices = reg.subsystems.Devices.Changes()
	}

	var consul <-chan struct{}
	if reg.consul != nil {
		consul = reg.consul.Changes()
	}

	var vault <-chan struct{}
	if reg.subsystems.Vault != nil {
		vault = reg.subsystems.Vault.Changes()
	}

	for {
		select {
		case <-reg.subsystems.Drivers.Changes():
		case <-devices:
		case <-consul:
		case <-vault:
		case <-reg.changed:
		case <-ctx.Done():
			return
		}

		if !backoff.Sleep(ctx, nodeBatch) {
			return
		}

		if structs.NodeEqual(reg.row.Load(),
			reg.buildNode(), structs.IgnoreDriverTimes) {
			continue // the first fingerprint, or a change that has passed
		}

		reg.retry(ctx, "failed to register the changed node", reg.reregisterNode)
	}
}

// The lease of the answer is dropped: run alone stores one.
func (reg *registration) reregisterNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := reg.register(ctx)
	return err
}

// outcomeUnknown reports whether the servers may have carried out a request that failed with err, or may
// still do so. An internal error is among them: a server may fail after the entry.
func outcomeUnknown(err error) bool {
	return structs.IsKind(err, structs.KindTimeout) ||
		structs.IsKind(err, structs.KindInternal)
}

// noteChange makes the node register again if its settings change it.
func (reg *registration) noteChange() {
	select {
	case reg.changed <- struct{}{}:
	default: // runDrivers has not yet seen the last one, and will see this, too
	}
}
