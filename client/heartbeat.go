package client

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"berth/client/assembly"
	"berth/client/membership/cluster"
	"berth/client/membership/lease"
	"berth/internal/backoff"
	"berth/internal/level"
	"berth/rpc"
	"berth/structs"
)

const (
	callTimeout = 30 * time.Second // bounds a call that does not wait for a change
	// A list from a misconfigured discovery could have any number.
	maxServers = 64
	defaultTTL = 10 * time.Second       // of a lease without a length in the server's answer
	minBeatGap = 250 * time.Millisecond // between two heartbeats, in any case

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

// runLease registers the node when it is complete and keeps its lease from then on.
func (c *Client) runLease(ctx context.Context) {
	c.firstFingerprint(ctx)
	pause := leaseRetry
	unregistered := true
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

		before, _ := c.servers.First()
		renewed, lost, err := c.renewLease(ctx, beat, held.TTL)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause.Reset()
			// The guard comes first: it stops what the lease protects.
			tellRenewed(c.subsystems, renewed)
			if failed {
				c.serversBack.Announce()
			}
			failed = false
			if down {
				notify(c.claimCheckDue) // the servers may have released claims of a node that was away
			}
			down = false
			noteLease(c, &renewed, unregistered)
			due := nextBeat(c.untilNextBeat(renewed.TTL), c.clock().Sub(renewed.Since))
			unregistered = c.waitBeat(ctx, due, before, lost)
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

		// The servers may all have moved, so discovery is asked too.
		failed = true
		wait := pause.After(err)
		c.logger.Warn("no lease from the servers, asking again", "retry_in", wait, "error", err)
		c.findServers(ctx)
		down = down || logDown(c, held)
		backoff.Sleep(ctx, wait)
	}
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

// findServers adds servers that are not known yet to the list. The next registration replaces the list by
// the servers' own one.
func (c *Client) findServers(ctx context.Context) {
	if c.find == nil {
		return
	}

	found, err := c.find(ctx)
	if err != nil {
		c.logger.Warn("failed to look for servers", "error", err)
		return
	}

	all := c.servers.All()
	known := len(all)
	for _, addr := range found {
		// The known ones stay in front, since one of them may be the leader.
		if len(all) < maxServers && !slices.Contains(all, addr) {
			all = append(all, addr)
		}
	}

	if len(all) > known {
		c.logger.Info("found servers", "servers", all)
		c.servers.Set(all)
	}
}

// beatTimeout returns the time that a server has to renew a lease of length ttl. The node sends its request
// when half of the lease has passed, so it can still call another server before the lease ends.
func beatTimeout(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return callTimeout // there is no lease that could end
	}
	return min(max(ttl/2, minBeatTimeout), callTimeout)
}

// renewLease renews the lease. lost is closed with the connection that the server knows from then on. It
// closes the connection to a server that does not answer in time: the server may be unreachable without a
// reset, and all calls on that connection then continue with another server.
func (c *Client) renewLease(
	ctx context.Context, renew func(context.Context) (lease.Lease, error), ttl time.Duration,
) (renewed lease.Lease, lost <-chan struct{}, err error) {
	limited, cancel := context.WithTimeout(ctx, beatTimeout(ttl))
	defer cancel()
	// The connection is made before the request, so that the leader can call the node from the first renewal
	// on.
	addr, _ := c.servers.First()
	lost, connected := c.connect(limited, addr)
	if !connected && limited.Err() == nil {
		c.servers.MoveToEnd(addr) // or the request would begin with another attempt to connect to it
	}

	renewed, err = renew(limited)
	// An error that came in time is an answer, or was reported by the list of servers.
	if err == nil || limited.Err() == nil ||
		ctx.Err() != nil {
		return renewed, lost, err
	}

	addr, _ = c.servers.First()
	c.servers.MoveToEnd(addr)
	// A pool of a test has no connections.
	if p, ok := c.pool.(*rpc.Pool); ok {
		p.Drop(addr)
	}

	return renewed, lost, fmt.Errorf("server %s does not answer, turning to the others: %w", addr, err)
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
func (c *Client) register(ctx context.Context) (lease.Lease, error) {
	unlock, err := c.lockNode(ctx)
	if err != nil {
		return lease.Lease{}, err
	}
	defer unlock()

	// The file and not the memory says to which cluster the node belongs, because an operator may remove it
	// meanwhile.
	belongs, err := cluster.Read(c.config().StateDir())
	if err != nil {
		return lease.Lease{}, err
	}

	// The instances and the row are read under the lock, so their order is that of the requests.
	instances := c.subsystems.Plugins.Instances()
	node := c.buildNode()
	c.node.Store(node)
	req := &structs.NodeRegisterRequest{
		Node:      node.Copy(),
		CSI:       instances,
		Inventory: c.readInventory(),
		Unsure:    c.inDoubt,
		ClusterID: belongs,
		Allocs:    c.allocs.countLive(),
		Agent:     c.proof.Current(),
	}

	req.Region = c.config().Region
	// The lease is counted from the time of sending: the servers cannot have counted it for less.
	sent := c.clock()
	agent := *req.Agent // the call owns the request
	resp, err := rpc.Call(ctx, c.servers, structs.NodeRegister, req)
	c.proof.Answered(&agent, err)
	if err != nil {
		// This report may be applied after the next one, which is therefore written in any case.
		c.inDoubt = c.inDoubt || outcomeUnknown(err)
		return lease.Lease{}, err
	}

	err = cluster.Write(c.config().StateDir(), resp.ClusterID)
	if err != nil { // a full disk does not keep a node from its work
		c.logger.Error("failed to record the cluster of this node", "error", err)
	}

	c.ackedInstances = instancesByKey(instances)
	c.inDoubt = false
	notify(c.claimCheckDue) // the servers may have deleted the node meanwhile, and released its claims
	c.servers.Set(resp.Servers)
	// Only the first registration of an agent asks this: an agent that was cut off has not left.
	if resp.Left && !isClosed(c.registered) {
		err = c.departure.Return(ctx)
	}
	if err != nil {
		return lease.Lease{}, err
	}

	noteRegistered(c, len(instances), len(req.Node.Drivers))
	return c.lease.Load().Renewed(grantOf(resp.LeaseGrant), sent)
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
func (c *Client) heartbeat(ctx context.Context) (lease.Lease, error) {
	req := &structs.NodeHeartbeatRequest{
		NodeID:   c.id.NodeID,
		SecretID: c.id.SecretID,
		Status:   structs.NodeReady,
		CleanFor: c.comeback.CleanFor(),
		Agent:    c.proof.OfHeartbeat(),
	}

	agent := *req.Agent // the call owns the request
	req.Inventory = c.reportInventory(ctx)
	req.Region = c.config().Region
	sent := c.clock()
	resp, err := rpc.Call(ctx, c.servers, structs.NodeHeartbeat, req)
	c.proof.Answered(&agent, err)
	if err != nil {
		return lease.Lease{}, err
	}

	c.servers.Set(resp.Servers)
	c.noteUnaccounted(resp.Unaccounted)
	return c.lease.Load().Renewed(grantOf(resp.LeaseGrant), sent)
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

// waitBeat waits until the next heartbeat is due: for a time, or less if another server than before is first
// now (the leader has changed), if the connection is lost (the leader cannot call back, even if another call
// has made a new one), or if the node has to register again, which it reports.
func (c *Client) waitBeat(
	ctx context.Context, wait time.Duration, before string, lost <-chan struct{},
) (register bool) {
	begin := time.Now()
	// The leader may have changed while the heartbeat was made.
	addr, moved := c.servers.First()
	if addr != before {
		wait = minBeatGap
	}

	select {
	case <-time.After(wait):
		return false
	case <-moved:
	case <-lost:
	case <-c.reregister:
		register = true
	case <-ctx.Done():
		return false
	}

	// A series of changes must not become a series of heartbeats.
	backoff.Sleep(ctx, minBeatGap-time.Since(begin))
	return register
}

// connect connects to a server, unless there is a connection. lost is closed with the connection, or already
// closed if there is none. It is nil for a pool without connections.
func (c *Client) connect(ctx context.Context, addr string) (lost <-chan struct{}, connected bool) {
	p, ok := c.pool.(*rpc.Pool)
	if !ok {
		return nil, true
	}
	s, err := p.Session(ctx, addr)
	// A closed channel makes waitBeat ask again soon.
	if err != nil {
		none := make(chan struct{})
		close(none)
		return none, false
	}
	return s.Done(), true
}

// tellRenewed tells the subsystems of a new lease.
func tellRenewed(s *assembly.Subsystems, l lease.Lease) {
	if s.Renewed != nil {
		s.Renewed(l)
	}
}
