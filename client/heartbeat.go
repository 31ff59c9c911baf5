package client

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"berth/client/assembly"
	"berth/client/membership/cluster"
	"berth/client/membership/lease"
	"berth/internal/backoff"
	"berth/internal/diskfault"
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
func (c *Client) buildNode() *structs.Node {
	cfg := c.config()
	n := &structs.Node{
		ID:                    c.id.NodeID,
		SecretID:              c.id.SecretID,
		Name:                  cmp.Or(cfg.NodeName, c.facts.Hostname),
		Datacenter:            cfg.Datacenter,
		HTTPAddr:              cfg.HTTPAddr,
		TLSEnabled:            cfg.TLSEnabled,
		NodeClass:             cfg.NodeClass,
		NodePool:              cfg.NodePool,
		Attributes:            maps.Clone(c.facts.Attributes),
		Meta:                  c.meta.Over(cfg.Meta),
		Drivers:               c.subsystems.Drivers.Infos(),
		Status:                structs.NodeReady,
		SchedulingEligibility: structs.NodeEligible,
	}

	n.Attributes["berth.version"] = cfg.Version
	n.Attributes[structs.AttrNodeLevel] = strconv.Itoa(level.Now)
	if c.consul != nil {
		maps.Copy(n.Attributes, c.consul.Attributes())
	}

	if c.subsystems.Vault != nil {
		maps.Copy(n.Attributes, c.subsystems.Vault.Attributes())
	}
	// The attributes of the agent and of the machine are there already, so no driver can change them.

	addDriverAttributes(n)
	res := c.facts.Resources
	overrideIfSet(&res.CPU.CpuShares, cfg.CPUTotalCompute)
	overrideIfSet(&res.Memory.MemoryMB, cfg.MemoryTotalMB)
	overrideIfSet(&res.Disk.DiskMB, cfg.DiskTotalMB)
	if c.subsystems.Devices != nil {
		res.Devices = c.subsystems.Devices.Groups()
		// The fault is an attribute, so that operators see it with the node.
		for name, fault := range c.subsystems.Devices.Faults() {
			n.Attributes["unique.device_plugin."+name+".error"] = fault
		}
	}

	n.Attributes["cpu.totalcompute"] = strconv.FormatInt(res.CPU.CpuShares, 10)
	n.NodeResources = &res
	n.ReservedResources = &structs.NodeReservedResources{}
	n.ReservedResources.CPU.CpuShares = uint64(cfg.Reserved.CPU)
	n.ReservedResources.Memory.MemoryMB = int64(cfg.Reserved.MemoryMB)
	n.ReservedResources.Disk.DiskMB = int64(cfg.Reserved.DiskMB)
	setPorts(n, cfg, c.networks)
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

// runLease registers the node when it is complete and keeps its lease from then on. beginRequests comes
// before.
func (c *Client) runLease(ctx context.Context) {
	c.firstFingerprint(ctx)
	pause := leaseRetry
	unregistered := true
	looks := checks{busy: map[string]bool{}}
	defer looks.running.Wait()
	failed := false // the last heartbeat
	down := false   // the servers count this node as down since then
	for ctx.Err() == nil {
		// The lease at the beginning of the attempt bounds it.
		held := c.lease.Load()
		beat := c.heartbeat
		if unregistered {
			beat = c.register
		}
		// In this state the servers may have the node down, and the answer brings it up.
		if held.Ended(c.clock()) {
			beat = c.reportFirst(beat)
		}

		renewed, err := c.renewLease(ctx, beat, held.TTL)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause.Reset()
			// The guard comes first: it stops what the lease protects.
			tellRenewed(c.subsystems, renewed.Lease)
			if failed {
				c.serversBack.Announce()
			}
			failed = false
			if down {
				notify(c.claimCheckDue) // the servers may have released claims of a node that was away
			}
			down = false
			noteLease(c, &renewed.Lease, unregistered)
			looks.begin(ctx, c, beatTimeout(renewed.TTL))
			due := nextBeat(c.untilNextBeat(renewed.TTL), c.clock().Sub(renewed.Since))
			unregistered = c.waitBeat(ctx, due, renewed)
			continue

		// The row is gone: an operator has deleted the node, or the servers have lost it in a restore.
		case structs.IsKind(err, structs.KindNotFound) && !unregistered:
			c.logger.Warn("node unknown to the servers, registering again", "error", err)
			unregistered = true
			continue
		}
		if structs.CauseOf(err) == structs.CauseSecondAgent {
			c.servers.Suspend()
			unregistered = true // it takes over with the boot of its machine
		}

		failed = true
		down = down || logDown(c, held)
		c.pauseLease(ctx, held, pause.After(err), err)
	}
}

// pauseLease waits before the servers are asked for a lease again. They may all have moved, so discovery is
// asked too. Both take little time while there is a lease to save.
func (c *Client) pauseLease(ctx context.Context, held *lease.Lease, wait time.Duration, err error) {
	limit := callTimeout
	if held.TTL > 0 && !held.Ended(c.clock()) {
		limit = lease.NewAsking(held.TTL, nil).Pace()
	}
	if structs.RetryAfter(err) == 0 {
		wait = min(wait, limit)
	}

	c.logger.Warn("no lease from the servers, asking again", "retry_in", wait, "error", err)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c.findServers(limited)
	backoff.Sleep(ctx, wait)
}

// logDown reports whether the servers count the node as down by a lease, and tells operators so.
func logDown(c *Client, held *lease.Lease) bool {
	if !held.GraceEnded(c.clock()) {
		return false
	}
	c.logger.Error("lease ended, the servers consider this node down",
		"ended", c.clock().Sub(held.Until()).String()+" ago")
	return true
}

// noteLease acts on an answer of the servers, to a registration or to a heartbeat.
func noteLease(c *Client, l *lease.Lease, registered bool) {
	held := c.lease.Load()
	// A short cut may have had no effect, but the node cannot tell a restore from it.
	if !registered && held.Ended(c.clock()) {
		c.allocs.resend() // the servers may have been restored to an older state
		notify(c.reregister)
	}
	c.lease.Store(l)
	c.servers.SetEpoch(l.Epoch)
	// The node was lost meanwhile. It compares what it has with what it may have, and tells the servers when
	// it is clean.
	if c.comeback.Note(l.Epoch, l.Returning) {
		notify(c.pullAnew)
		notify(c.claimCheckDue)
	}
}

// runReturn tells the servers, after each return of this node, when it has released what it lost.
func runReturn(ctx context.Context, c *Client) {
	repeat := func(check func(context.Context) error) {
		c.retry(ctx, "this node gets no allocations until it has released what it lost", check)
	}
	c.comeback.Run(ctx, repeat, c.claims.Left)
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
	lease.Lease
	addr string          // of the server that was asked
	lost <-chan struct{} // closed with the connection over which the servers can call the node from then on
}

// renewLease renews the lease. If no server grants it in time, it closes the connection to the first one:
// that server may be unreachable without a reset, and all calls on it then continue with another one.
func (c *Client) renewLease(
	ctx context.Context, renew func(context.Context) (renewal, error), ttl time.Duration,
) (renewal, error) {
	limited, cancel := context.WithTimeout(ctx, beatTimeout(ttl))
	defer cancel()
	before, _ := c.servers.First()
	renewed, err := renew(limited)
	kind := structs.KindOf(err)
	if kind != structs.KindUnavailable && kind != structs.KindTimeout ||
		structs.RetryAfter(err) > 0 || ctx.Err() != nil {
		return renewed, err
	}

	c.servers.MoveToEnd(before)
	// A pool of a test has no connections.
	p, ok := c.pool.(*rpc.Pool)
	if ok && limited.Err() != nil {
		p.Drop(before)
	}

	return renewed, err
}

// lockNode waits until no other write of the node's rows is in flight: writes take place one at a time, in
// order. The other write may wait for a server that does not answer, so this wait ends with ctx.
func (c *Client) lockNode(ctx context.Context) (unlock func(), err error) {
	select {
	case c.nodeWrites <- struct{}{}:
		return func() { <-c.nodeWrites }, nil
	case <-ctx.Done():
		return nil, structs.Unavailablef("another report of this node is in flight: %w", ctx.Err())
	}
}

// register writes the node's rows: the node itself and all its plugin instances.
func (c *Client) register(ctx context.Context) (renewal, error) {
	unlock, err := c.lockNode(ctx)
	if err != nil {
		return renewal{}, err
	}
	defer unlock()

	// The file and not the memory says to which cluster the node belongs, because an operator may remove it
	// meanwhile.
	belongs, err := cluster.Read(c.config().StateDir())
	if err != nil {
		return renewal{}, err
	}
	belongs = cmp.Or(belongs, c.unkept)

	// The instances and the row are read under the lock, so their order is that of the requests.
	instances := c.subsystems.Plugins.Instances()
	inventory := c.readInventory()
	allocs := c.allocs.countLive()
	unsure := c.inDoubt
	asked := c.config()
	node := c.buildNode()
	c.node.Store(node)
	r, others, err := c.askBeside(ctx, func(ctx context.Context, server rpc.Caller) (granted, error) {
		req := &structs.NodeRegisterRequest{
			Node:      node.Copy(),
			CSI:       instances,
			Inventory: inventory,
			Unsure:    unsure,
			ClusterID: belongs,
			Allocs:    allocs,
			Agent:     c.proof.Current(),
		}

		req.Region = c.config().Region
		agent := *req.Agent // the call owns the request
		resp, err := rpc.Call(ctx, server, structs.NodeRegister, req)
		c.proof.Answered(&agent, err)
		if err != nil {
			return granted{}, err
		}
		note := func(ctx context.Context) error { return c.noteRegistration(ctx, asked, resp, instances) }
		return granted{grantOf(resp.LeaseGrant), note}, nil
	})
	// This report may be applied after the next one, which is therefore written in any case.
	c.inDoubt = others || err != nil && c.inDoubt
	if err != nil {
		return renewal{}, err
	}

	return c.renewedBy(ctx, r)
}

// noteRegistration acts on the answer to a registration, which was sent with the configuration asked.
func (c *Client) noteRegistration(
	ctx context.Context, asked *Config, resp *structs.NodeRegisterResponse,
	instances []*structs.CSIPluginInstance,
) error {
	c.keepCluster(ctx, resp.ClusterID)

	c.servers.SetEpoch(resp.Epoch) // before the first call of the node
	c.ackedInstances = instancesByKey(instances)
	notify(c.claimCheckDue) // the servers may have deleted the node meanwhile, and released its claims
	c.learnServers(asked, resp.Servers)
	// Only the first registration of an agent asks this: an agent that was cut off has not left.
	if resp.Left && !isClosed(c.registered) {
		err := c.departure.Return(ctx)
		if err != nil {
			return err
		}
	}

	noteRegistered(c, len(instances), len(c.node.Load().Drivers))
	return nil
}

// keepCluster records the cluster of this node. A full disk does not keep a node from its work: until the
// file is written, each heartbeat tries again, and the node keeps the ID in memory. An agent that starts
// without it would take any cluster for its own.
func (c *Client) keepCluster(ctx context.Context, id string) {
	err := cluster.Write(c.config().StateDir(), id)
	if err != nil && c.unkept != id {
		c.logger.Error("failed to record the cluster of this node, trying it with each heartbeat",
			"error", err, "disk", diskfault.Describe(ctx, c.config().StateDir()))
	}
	c.unkept = ""
	if err != nil {
		c.unkept = id
	}
}

// renewedBy returns the lease of a request that was granted.
func (c *Client) renewedBy(ctx context.Context, r *request) (renewal, error) {
	err := r.grant.note(ctx)
	if err != nil {
		return renewal{}, err
	}
	renewed, err := c.lease.Load().Renewed(r.grant.Grant, r.sent)
	return renewal{renewed, r.addr, r.lost}, err
}

// noteRegistered lets the loops begin that wait for the first registration.
func noteRegistered(c *Client, instances, drivers int) {
	c.registeredOnce.Do(func() {
		c.logger.Info("node registered",
			"plugin_instances", instances,
			"drivers", drivers)
		close(c.registered)
	})
}

// heartbeat renews the lease and binds its connection to the node.
func (c *Client) heartbeat(ctx context.Context) (renewal, error) {
	inventory := c.reportInventory(ctx)
	asked := c.config()
	r, _, err := c.askBeside(ctx, func(ctx context.Context, server rpc.Caller) (granted, error) {
		req := &structs.NodeHeartbeatRequest{
			NodeID:    c.id.NodeID,
			SecretID:  c.id.SecretID,
			Status:    structs.NodeReady,
			Inventory: inventory,
			CleanFor:  c.comeback.CleanFor(),
			Agent:     c.proof.OfHeartbeat(),
		}

		req.Region = c.config().Region
		agent := *req.Agent // the call owns the request
		resp, err := rpc.Call(ctx, server, structs.NodeHeartbeat, req)
		c.proof.Answered(&agent, err)
		if err != nil {
			return granted{}, err
		}

		note := func(ctx context.Context) error {
			if c.unkept != "" {
				c.keepCluster(ctx, c.unkept)
			}
			c.learnServers(asked, resp.Servers)
			c.noteUnaccounted(resp.Unaccounted)
			return nil
		}
		return granted{grantOf(resp.LeaseGrant), note}, nil
	})
	if err != nil {
		return renewal{}, err
	}

	return c.renewedBy(ctx, r)
}

// grantOf returns what a leader granted. A server of level 1 leaves some of these empty.
func grantOf(g structs.LeaseGrant) lease.Grant {
	return lease.Grant{
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
func (c *Client) waitBeat(ctx context.Context, wait time.Duration, last renewal) (register bool) {
	begin := time.Now()
	// The leader may have changed while the heartbeat was made.
	addr, moved := c.servers.First()
	if addr != last.addr {
		wait = minBeatGap
	}

	select {
	case <-time.After(wait):
		return false
	case <-moved:
	case <-last.lost:
	case <-c.reregister:
		register = true
	case <-ctx.Done():
		return false
	}

	// A series of changes must not become a series of heartbeats.
	backoff.Sleep(ctx, minBeatGap-time.Since(begin))
	return register
}

// connect connects to a server, unless there is a connection. lost is closed with the connection. It is nil
// for a pool without connections.
func (c *Client) connect(ctx context.Context, addr string) (lost <-chan struct{}, err error) {
	p, ok := c.pool.(*rpc.Pool)
	if !ok {
		return nil, nil
	}
	s, err := p.Session(ctx, addr)
	if err != nil {
		return nil, err
	}
	return s.Done(), nil
}

// tellRenewed tells the subsystems of a new lease.
func tellRenewed(s *assembly.Subsystems, l lease.Lease) {
	if s.Renewed != nil {
		s.Renewed(l)
	}
}
