package client

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"berth/client/assembly"
	"berth/client/membership"
	"berth/internal/backoff"
	"berth/internal/files"
	"berth/internal/level"
	"berth/rpc"
	"berth/structs"
)

const (
	callTimeout = 30 * time.Second       // bounds a call that does not wait for a change
	defaultTTL  = 10 * time.Second       // of a lease without a length in the server's answer
	minBeatGap  = 250 * time.Millisecond // between two heartbeats, in any case

	minBeatTimeout = time.Second // of one heartbeat, however short the lease is
)

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

// pauseLease waits before the servers are asked for a lease again. They may all have moved, so discovery is
// asked too. Both take little time while there is a lease to save.
func (reg *registration) pauseLease(
	ctx context.Context, held *membership.Lease, wait time.Duration, err error,
) {
	limit := callTimeout
	if held.TTL > 0 && !held.Ended(reg.clock()) {
		limit = membership.NewAsking(held.TTL, nil).Pace()
	}
	if structs.RetryAfter(err) == 0 {
		wait = min(wait, limit)
	}

	reg.logger.Warn("no lease from the servers, asking again", "retry_in", wait, "error", err)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reg.findServers(limited)
	backoff.Sleep(ctx, wait)
}

// logDown reports whether the servers count the node as down by a lease, and tells operators so.
func (reg *registration) logDown(held *membership.Lease) bool {
	if !held.GraceEnded(reg.clock()) {
		return false
	}
	reg.logger.Error("lease ended, the servers consider this node down",
		"ended", reg.clock().Sub(held.Until()).String()+" ago")
	return true
}

// noteLease acts on an answer of the servers, to a registration or to a heartbeat.
func (reg *registration) noteLease(l *membership.Lease, registered bool) {
	held := reg.lease.Load()
	// A short cut may have had no effect, but the node cannot tell a restore from it.
	if !registered && held.Ended(reg.clock()) {
		reg.work.allocs.resend() // the servers may have been restored to an older state
		notify(reg.due)
	}
	reg.lease.Store(l)
	reg.servers.SetEpoch(l.Epoch)
	// The node was lost meanwhile. It compares what it has with what it may have, and tells the servers when
	// it is clean.
	if reg.comeback.Note(l.Epoch, l.Returning) {
		notify(reg.work.pullAnew)
		notify(reg.claims.due)
	}
}

// runReturn tells the servers, after each return of this node, when it has released what it lost.
func (reg *registration) runReturn(ctx context.Context) {
	repeat := func(check func(context.Context) error) {
		reg.retry(ctx, "this node gets no allocations until it has released what it lost", check)
	}
	reg.comeback.Run(ctx, repeat, reg.claims.check.Left)
}

// nextBeat returns the time until the next heartbeat is due, half of a lease after the last one was sent.
func nextBeat(ttl, passed time.Duration) time.Duration {
	return max(ttl/2-passed, minBeatGap)
}

// beatTimeout returns the time that the servers have to renew a lease of length ttl. The node begins to ask
// them when half of the lease has passed.
func beatTimeout(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return callTimeout // there is no lease that could end
	}
	return min(max(ttl/2, minBeatTimeout), callTimeout)
}

// renewal is a lease that was granted.
type renewal struct {
	membership.Lease
	addr string          // of the server that was asked
	lost <-chan struct{} // closed with the connection over which the servers can call the node from then on
}

// renewLease renews the lease. If no server grants it in time, it closes the connection to the first one:
// that server may be unreachable without a reset, and all calls on it then continue with another one.
func (reg *registration) renewLease(
	ctx context.Context, renew func(context.Context) (renewal, error), ttl time.Duration,
) (renewal, error) {
	limited, cancel := context.WithTimeout(ctx, beatTimeout(ttl))
	defer cancel()
	before, _ := reg.servers.First()
	renewed, err := renew(limited)
	kind := structs.KindOf(err)
	if kind != structs.KindUnavailable && kind != structs.KindTimeout ||
		structs.RetryAfter(err) > 0 || ctx.Err() != nil {
		return renewed, err
	}

	reg.servers.MoveToEnd(before)
	// A pool of a test has no connections.
	p, ok := reg.pool.(*rpc.Pool)
	if ok && limited.Err() != nil {
		p.Drop(before)
	}

	return renewed, err
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

	// The instances and the row are read under the lock, so their order is that of the requests.
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

// renewedBy returns the lease of a request that was granted.
func (reg *registration) renewedBy(ctx context.Context, r *request) (renewal, error) {
	err := r.grant.note(ctx)
	if err != nil {
		return renewal{}, err
	}
	renewed, err := reg.lease.Load().Renewed(r.grant.Grant, r.sent)
	return renewal{renewed, r.addr, r.lost}, err
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

// heartbeat renews the lease and binds its connection to the node.
func (reg *registration) heartbeat(ctx context.Context) (renewal, error) {
	inventory := reg.reportInventory(ctx)
	asked := reg.config()
	r, _, err := reg.askBeside(ctx, func(ctx context.Context, server rpc.Caller) (granted, error) {
		req := &structs.NodeHeartbeatRequest{
			NodeID:    reg.id.NodeID,
			SecretID:  reg.id.SecretID,
			Status:    structs.NodeReady,
			Inventory: inventory,
			CleanFor:  reg.comeback.CleanFor(),
			Agent:     reg.proof.OfHeartbeat(),
		}

		req.Region = reg.config().Region
		agent := *req.Agent // the call owns the request
		resp, err := rpc.Call(ctx, server, structs.NodeHeartbeat, req)
		reg.proof.Answered(&agent, err)
		if err != nil {
			return granted{}, err
		}

		note := func(ctx context.Context) error {
			if reg.unkept != "" {
				reg.keepCluster(ctx, reg.unkept)
			}
			reg.learnServers(asked, resp.Servers)
			reg.noteUnaccounted(resp.Unaccounted)
			return nil
		}
		return granted{grantOf(resp.LeaseGrant), note}, nil
	})
	if err != nil {
		return renewal{}, err
	}

	return reg.renewedBy(ctx, r)
}

// grantOf returns what a leader granted.
func grantOf(g structs.LeaseGrant) membership.Grant {
	return membership.Grant{
		TTL:   cmp.Or(g.HeartbeatTTL, defaultTTL),
		Grace: g.HeartbeatGrace,
		Term:  g.LeaseTerm,
		Epoch: g.Epoch,

		Returning: g.Returning,
		Alone:     g.LeaseFor,
	}
}

// waitBeat waits until the next heartbeat is due: for a time, or less if another server than that of the last
// one is first now (the leader has changed), if the connection is lost (the leader cannot call back, even if
// another call has made a new one), or if the node has to register again, which it reports.
func (reg *registration) waitBeat(ctx context.Context, wait time.Duration, last renewal) (register bool) {
	begin := time.Now()
	// The leader may have changed while the heartbeat was made.
	addr, moved := reg.servers.First()
	if addr != last.addr {
		wait = minBeatGap
	}

	select {
	case <-time.After(wait):
		return false
	case <-moved:
	case <-last.lost:
	case <-reg.due:
		register = true
	case <-ctx.Done():
		return false
	}

	// A series of changes must not become a series of heartbeats.
	backoff.Sleep(ctx, minBeatGap-time.Since(begin))
	return register
}

// tellRenewed tells the subsystems of a new lease.
func tellRenewed(s *assembly.Subsystems, l membership.Lease) {
	if s.Renewed != nil {
		s.Renewed(l)
	}
}
