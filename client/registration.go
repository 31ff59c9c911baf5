package client

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"berth/client/machine"
	"berth/client/membership"
	"berth/internal/backoff"
	"berth/internal/files"
	"berth/internal/level"
	"berth/rpc"
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

// newRegistration makes the loop, and gives it to the parts that tell it when a registration is due.
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

// run registers the node when it is complete and keeps its lease from then on. Client.Run awaits
// the records of the node before.
func (reg *registration) run(ctx context.Context) {
	reg.firstFingerprint(ctx)
	pause := leaseRetry
	unregistered := true
	looks := checks{busy: map[string]bool{}}
	defer looks.running.Wait()
	failed := false // the last heartbeat
	down := false   // the servers count this node as down since then
	for ctx.Err() == nil {
		// The lease at the beginning of the attempt bounds it.
		held := reg.lease.Load()
		beat := reg.heartbeat
		if unregistered {
			beat = reg.register
		}
		// In this state the servers may have the node down, and the answer brings it up.
		if held.Ended(reg.clock()) {
			beat = reg.reportFirst(beat)
		}

		renewed, err := reg.renewLease(ctx, beat, held.TTL)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause.Reset()
			// The guard comes first: it stops what the lease protects.
			tellRenewed(reg.subsystems, renewed.Lease)
			if failed {
				reg.serversBack.Announce()
			}
			failed = false
			if down {
				notify(reg.claims.due) // the servers may have released claims of a node that was away
			}
			down = false
			reg.noteLease(&renewed.Lease, unregistered)
			looks.begin(ctx, reg.node, beatTimeout(renewed.TTL))
			due := nextBeat(reg.untilNextBeat(renewed.TTL), reg.clock().Sub(renewed.Since))
			unregistered = reg.waitBeat(ctx, due, renewed)
			continue

		// The row is gone: an operator has deleted the node, or the servers have lost it in a restore.
		case structs.IsKind(err, structs.KindNotFound) && !unregistered:
			reg.logger.Warn("node unknown to the servers, registering again", "error", err)
			unregistered = true
			continue
		}
		if structs.CauseOf(err) == structs.CauseSecondAgent {
			reg.servers.Suspend()
			unregistered = true // it takes over with the boot of its machine
		}

		failed = true
		down = down || reg.logDown(held)
		reg.pauseLease(ctx, held, pause.After(err), err)
	}
}

// firstFingerprint waits until the runners have searched for the tasks of an earlier agent, and until the
// drivers and the plugins that already ran have been fingerprinted once. FirstFingerprintTimeout bounds it.
func (reg *registration) firstFingerprint(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reg.config().FirstFingerprintTimeout)
	defer cancel()

	begin := time.Now()
	waitAttached(ctx, reg.work.allocs.all()...)
	err := errors.Join(reg.subsystems.Drivers.WaitFirst(ctx),
		reg.subsystems.Plugins.WaitFirst(ctx))
	if reg.subsystems.Devices != nil {
		err = errors.Join(err, reg.subsystems.Devices.WaitFirst(ctx))
	}

	// Consul has no error: a node without its attributes registers all the same.
	if reg.consul != nil {
		reg.consul.WaitFirst(ctx)
	}
	// A driver that hangs must not keep a whole node away.
	if err != nil {
		reg.logger.Warn("first fingerprint incomplete, registering anyway",
			"waited", time.Since(begin), "error", err)
		return
	}

	reg.logger.Debug("first fingerprint complete",
		"waited", time.Since(begin))
}

// buildNode makes the node's row of the fingerprint of the host, the drivers and the configuration.
func (reg *registration) buildNode() *structs.Node {
	cfg := reg.config()
	n := &structs.Node{
		ID:                    reg.id.NodeID,
		SecretID:              reg.id.SecretID,
		Name:                  cmp.Or(cfg.NodeName, reg.facts.Hostname),
		Datacenter:            cfg.Datacenter,
		HTTPAddr:              cfg.HTTPAddr,
		TLSEnabled:            cfg.TLSEnabled,
		NodeClass:             cfg.NodeClass,
		NodePool:              cfg.NodePool,
		Attributes:            maps.Clone(reg.facts.Attributes),
		Meta:                  reg.meta.Over(cfg.Meta),
		Drivers:               reg.subsystems.Drivers.Infos(),
		Status:                structs.NodeReady,
		SchedulingEligibility: structs.NodeEligible,
	}

	n.Attributes["berth.version"] = cfg.Version
	n.Attributes[structs.AttrNodeLevel] = strconv.Itoa(level.Now)
	if reg.consul != nil {
		maps.Copy(n.Attributes, reg.consul.Attributes())
	}

	if reg.subsystems.Vault != nil {
		maps.Copy(n.Attributes, reg.subsystems.Vault.Attributes())
	}
	// The attributes of the agent and of the machine are there already, so no driver can change them.

	addDriverAttributes(n)
	res := reg.facts.Resources
	overrideIfSet(&res.CPU.CpuShares, cfg.CPUTotalCompute)
	overrideIfSet(&res.Memory.MemoryMB, cfg.MemoryTotalMB)
	overrideIfSet(&res.Disk.DiskMB, cfg.DiskTotalMB)
	if reg.subsystems.Devices != nil {
		res.Devices = reg.subsystems.Devices.Groups()
		// The fault is an attribute, so that operators see it with the node.
		for name, fault := range reg.subsystems.Devices.Faults() {
			n.Attributes["unique.device_plugin."+name+".error"] = fault
		}
	}

	n.Attributes["cpu.totalcompute"] = strconv.FormatInt(res.CPU.CpuShares, 10)
	n.NodeResources = &res
	n.ReservedResources = &structs.NodeReservedResources{}
	n.ReservedResources.CPU.CpuShares = uint64(cfg.Reserved.CPU)
	n.ReservedResources.Memory.MemoryMB = int64(cfg.Reserved.MemoryMB)
	n.ReservedResources.Disk.DiskMB = int64(cfg.Reserved.DiskMB)
	setPorts(n, cfg, reg.networks)
	n.HostVolumes = offeredVolumes(cfg)
	return n
}

// addDriverAttributes adds what drivers report. A driver changes no attribute that has a value, and if two
// report one attribute, the first of them by its name has it.
func addDriverAttributes(n *structs.Node) {
	// Constraints of jobs name drivers so.
	for name, info := range n.Drivers {
		if info.Detected && info.Healthy {
			n.Attributes["driver."+name] = "1"
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(n.Drivers)) {
		for name, value := range n.Drivers[driver].Attributes {
			if _, has := n.Attributes[name]; !has {
				n.Attributes[name] = value
			}
		}
	}
}

// overrideIfSet leaves the value of the machine if the operator sets none.
func overrideIfSet(v *int64, with int) {
	if with > 0 {
		*v = int64(with)
	}
}

// lockNode waits until no other write of the node's rows is in flight: writes take place one at a time, in
// order. The other write may wait for a server that does not answer, so this wait ends with ctx.
func (reg *registration) lockNode(ctx context.Context) (unlock func(), err error) {
	select {
	case reg.writes <- struct{}{}:
		return func() { <-reg.writes }, nil
	case <-ctx.Done():
		return nil, structs.Unavailablef("another report of this node is in flight: %w", ctx.Err())
	}
}

// register writes the node's rows: the node itself and all its plugin instances.
func (reg *registration) register(ctx context.Context) (renewal, error) {
	unlock, err := reg.lockNode(ctx)
	if err != nil {
		return renewal{}, err
	}
	defer unlock()

	// The file and not the memory says to which cluster the node belongs, because an operator may remove it
	// meanwhile.
	belongs, err := membership.ReadCluster(reg.config().StateDir())
	if err != nil {
		return renewal{}, err
	}
	belongs = cmp.Or(belongs, reg.unkept)

	// The instances and the row are read under the lock, so they have the order of the requests.
	instances := reg.subsystems.Plugins.Instances()
	inventory := reg.readInventory()
	allocs := reg.work.allocs.countLive()
	unsure := reg.inDoubt
	asked := reg.config()
	node := reg.buildNode()
	reg.row.Store(node)
	r, others, err := reg.askBeside(ctx, func(ctx context.Context, server rpc.Caller) (granted, error) {
		req := &structs.NodeRegisterRequest{
			Node:      node.Copy(),
			CSI:       instances,
			Inventory: inventory,
			Unsure:    unsure,
			ClusterID: belongs,
			Allocs:    allocs,
			Agent:     reg.proof.Current(),
		}

		req.Region = reg.config().Region
		agent := *req.Agent // the call owns the request
		resp, err := rpc.Call(ctx, server, structs.NodeRegister, req)
		reg.proof.Answered(&agent, err)
		if err != nil {
			return granted{}, err
		}
		note := func(ctx context.Context) error { return reg.noteRegistration(ctx, asked, resp, instances) }
		return granted{grantOf(resp.LeaseGrant), note}, nil
	})
	// This report may be applied after the next one, which is therefore written in any case.
	reg.inDoubt = others || err != nil && reg.inDoubt
	if err != nil {
		return renewal{}, err
	}

	return reg.renewedBy(ctx, r)
}

// noteRegistration acts on the answer to a registration, which was sent with the configuration asked.
func (reg *registration) noteRegistration(
	ctx context.Context, asked *Config, resp *structs.NodeRegisterResponse,
	instances []*structs.CSIPluginInstance,
) error {
	reg.keepCluster(ctx, resp.ClusterID)

	reg.servers.SetEpoch(resp.Epoch) // before the first call of the node
	reg.plugins.acked = instancesByKey(instances)
	notify(reg.claims.due) // the servers may have deleted the node meanwhile, and released its claims
	reg.learnServers(asked, resp.Servers)
	// Only the first registration of an agent asks this: an agent that was cut off has not left.
	if resp.Left && !isClosed(reg.registered) {
		err := reg.departure.Return(ctx)
		if err != nil {
			return err
		}
	}

	reg.noteRegistered(len(instances), len(reg.row.Load().Drivers))
	return nil
}

// keepCluster records the cluster of this node. A full disk does not keep a node from its work: until the
// file is written, each heartbeat tries again, and the node keeps the ID in memory. An agent that starts
// without it would take any cluster for its own.
func (reg *registration) keepCluster(ctx context.Context, id string) {
	err := membership.WriteCluster(reg.config().StateDir(), id)
	if err != nil && reg.unkept != id {
		reg.logger.Error("failed to record the cluster of this node, trying it with each heartbeat",
			"error", err, "disk", files.DescribeDisk(ctx, reg.config().StateDir()))
	}
	reg.unkept = ""
	if err != nil {
		reg.unkept = id
	}
}

// noteRegistered lets the loops begin that wait for the first registration.
func (n *node) noteRegistered(instances, drivers int) {
	n.registeredOnce.Do(func() {
		n.logger.Info("node registered",
			"plugin_instances", instances,
			"drivers", drivers)
		close(n.registered)
	})
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
