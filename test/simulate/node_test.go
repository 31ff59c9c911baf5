package simulate

import (
	"slices"
	"strconv"
	"time"

	"berth/client/membership"
	"berth/internal/boottime"
	"berth/internal/level"
	"berth/state"
	"berth/structs"
)

// thePlugin attaches volumes. Each machine has it.
const thePlugin = "disk"

// node is a machine with its agent.
type node struct {
	w    *world
	id   string
	dead bool // it stays off

	clocks clocks

	on        bool
	suspended bool
	woken     boottime.Instant // the end of the last suspension in this boot
	cutOut    bool             // requests of the agent are lost
	cutIn     bool             // answers to it are lost
	slow      time.Duration    // most that a message takes beyond the usual time
	boot      int
	booted    time.Duration
	late      []func()      // events of a suspended machine
	returns   int           // after a loss
	first     int           // the server that it asks first
	unreached time.Duration // when it last could not reach the leader: see reaches
	kept      time.Duration // the servers keep its lease until then

	agent      int // number of the process; 0: none runs
	agents     int // that were started
	lease      membership.Lease
	registered bool
	polls      int              // the agent that has registered, and asks for its allocations
	barred     bool             // another agent is the node: this one makes no call but for its lease
	index      uint64           // of the newest list of allocations
	parked     func(any, error) // answers the poll that waits at the leader; nil: none waits

	epoch   uint64 // of the last lease
	awaited uint64 // the epoch in which the servers wait until the node is clean; 0: they do not
	pulled  uint64 // the epoch of the newest list of allocations
	checked uint64 // the epoch in which the claims were compared

	copy   *duplicate // the last one of its disk
	holder *duplicate // that is the node for the servers; nil: the machine itself is

	runs   map[string]*run // of this boot, by allocation
	disk   disk
	ledger map[string][]structs.CSIClaimKey // on disk: claims that are not released, by allocation
	ended  map[string]ending                // on disk: the allocations that have ended
}

func (w *world) node(id string) *node {
	for _, n := range w.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// clock is CLOCK_BOOTTIME of the machine. It also counts while the machine is suspended.
func (n *node) clock() boottime.Instant {
	return boottime.Instant(n.clocks.counted(n.w.now - n.booted)).Add(time.Minute)
}

// keeps notes that the servers have granted a lease, with its grace.
func (n *node) keeps(d time.Duration) {
	slack := d * 2 * mostRate / million // of the boot clocks of two servers
	n.kept = max(n.kept, n.w.now+d-slack)
}

// place is where its agent runs.
func (n *node) place() place {
	return place{
		machine: structs.MachineID("product:" + n.id + " machine:" + n.id),
		boot:    n.id + " boot " + strconv.Itoa(n.boot),
		store:   "own",
	}
}

// answers reports whether the leader can call the plugin of the node.
func (n *node) answers() bool {
	if n.holder != nil {
		return n.holder.isOn()
	}
	return n.on && !n.suspended && n.agent != 0 && !n.cutIn && !n.cutOut
}

// powerOn starts the machine.
func (n *node) powerOn() {
	if n.on || n.dead {
		return
	}
	n.w.note("%s is switched on", n.id)
	n.on = true
	n.boot++
	n.booted = n.w.now
	n.lease = membership.Lease{}
	n.awaited = 0
	n.woken = 0
	n.runs = map[string]*run{}
	n.inKernel(5*time.Second+n.w.upTo(20*time.Second), n.startAgent)
}

// powerOff ends everything that runs. The disk and the attachments stay.
func (n *node) powerOff() {
	if !n.on {
		return
	}
	n.w.note("%s is switched off", n.id)
	n.on = false
	n.suspended = false
	n.late = nil
	n.agent = 0
	for _, v := range n.w.volumes {
		v.unmount(func(m mount) bool { return m.node == n })
	}
}

func (n *node) suspend() {
	if n.on && !n.suspended {
		n.w.note("%s is suspended", n.id)
		n.suspended = true
	}
}

func (n *node) resume() {
	if !n.suspended {
		return
	}
	n.w.note("%s is resumed", n.id)
	n.suspended = false
	n.woken = n.clock()
	late := n.late
	n.late = nil
	for _, do := range late {
		n.w.after(0, do)
	}
}

// inKernel does something later in this boot. Nothing happens in a suspended machine.
func (n *node) inKernel(d time.Duration, do func()) {
	boot := n.boot
	var deliver func()
	deliver = func() {
		switch {
		case !n.on || n.boot != boot:
		case n.suspended:
			n.late = append(n.late, deliver)
		default:
			do()
		}
	}
	n.w.after(n.clocks.until(d), deliver)
}

// inAgent does something later in this process of the agent.
func (n *node) inAgent(d time.Duration, do func()) {
	agent := n.agent
	n.inKernel(d, func() {
		if n.agent == agent {
			do()
		}
	})
}

// startAgent starts the agent. Tasks of an earlier process of it still run.
func (n *node) startAgent() {
	if n.agent != 0 {
		return
	}
	n.agents++
	n.agent = n.agents
	n.w.note("the agent of %s starts", n.id)
	n.registered = false
	n.barred = false
	n.index = 0
	n.disk.load(n.w, n.place())
	n.beat()
	for _, r := range n.sortedRuns() {
		r.advance()
	}
}

// killAgent ends the agent. Its tasks go on.
func (n *node) killAgent() {
	if n.agent != 0 {
		n.w.note("the agent of %s is killed", n.id)
		n.agent = 0
	}
}

// latency is the time that a message takes.
func (n *node) latency() time.Duration {
	d := n.w.upTo(20 * time.Millisecond)
	if n.slow > 0 {
		d += n.w.upTo(n.slow)
	}
	return d
}

// requestTimeout is the time after which an agent gives a request up.
const requestTimeout = 10 * time.Second

// procedure is the side of the leader. It may answer later, or not at all.
type procedure func(l *leader, reply func(any, error))

// call sends a request of the agent to the leader. done has its answer, or an error after the timeout.
// Nothing reaches another process of the agent.
func (n *node) call(timeout time.Duration, serve procedure, done func(any, error)) {
	if n.barred {
		n.inAgent(time.Second, func() { done(nil, structs.Unavailablef("another agent is the node")) })
		return
	}
	n.callAt(leads, timeout, serve, done)
}

// callAt is call over a server, which passes the request on to the leader. A silent one does not.
func (n *node) callAt(server int, timeout time.Duration, serve procedure, done func(any, error)) {
	if n.agent == 0 {
		return // the next process of the agent repeats it
	}
	w := n.w
	ended := false
	end := func(answer any, err error) {
		if !ended {
			ended = true
			done(answer, err)
		}
	}
	n.inAgent(timeout, func() { end(nil, structs.Timeoutf("no answer")) })
	if n.cutOut || n.loses() {
		return
	}
	boot := n.boot
	agent := n.agent
	reply := func(answer any, err error) {
		if n.on && n.boot == boot && n.agent == agent && !n.cutIn && !n.loses() {
			n.inAgent(n.latency(), func() { end(answer, err) })
		}
	}
	w.after(n.latency(), func() {
		switch {
		case server != leads && w.silent[server] > w.now:
		case w.leader == nil:
			reply(nil, structs.Unavailablef("nobody leads"))
		default:
			serve(w.leader, reply)
		}
	})
}

// loses reports whether the network loses a message.
func (n *node) loses() bool {
	if n.w.quiet || !n.w.chance(500) {
		return false
	}
	n.unreached = n.w.now
	return true
}

// reaches reports whether the node reaches a majority with a leader that grants leases, at the usual speed.
func (n *node) reaches() bool {
	l := n.w.leader
	up := n.on && !n.suspended && n.agent != 0
	connected := !n.cutIn && !n.cutOut && n.slow == 0
	return up && connected && l != nil && l.steps >= 2
}

// row is the report of an agent on the node.
func (n *node) row(p *structs.AgentProof) *structs.NodeRegisterRequest {
	info := structs.CSIInfo{
		PluginID:                 thePlugin,
		Healthy:                  true,
		Provider:                 "disk.csi",
		ProviderVersion:          "1",
		RequiresControllerPlugin: true,
	}
	control := info
	control.ControllerInfo = &structs.CSIControllerInfo{SupportsAttachDetach: true}
	info.NodeInfo = &structs.CSINodeInfo{ID: n.id}
	return &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:                    n.id,
			Name:                  n.id,
			SecretID:              "secret of " + n.id,
			BootID:                p.BootID,
			Machine:               p.Machine,
			Mark:                  p.Marks[0],
			Datacenter:            "dc1",
			NodePool:              structs.DefaultNodePool,
			Status:                structs.NodeReady,
			SchedulingEligibility: structs.NodeEligible,
			Attributes: map[string]string{
				"kernel.name":         "linux",
				structs.AttrNodeLevel: strconv.Itoa(level.Now),
			},
			Drivers: map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}},
			NodeResources: &structs.NodeResources{
				CPU:    structs.NodeCPUResources{CpuShares: 10_000},
				Memory: structs.NodeMemoryResources{MemoryMB: 10_000},
				Disk:   structs.NodeDiskResources{DiskMB: 100_000},
			},
		},
		CSI: []*structs.CSIPluginInstance{
			{Kind: structs.CSIKindNode, NodeID: n.id, CSIInfo: info},
			{Kind: structs.CSIKindController, NodeID: n.id, CSIInfo: control},
		},
		WriteOptions: n.w.stamp(),
	}
}

// beat registers the node or sends a heartbeat.
func (n *node) beat() {
	n.sendBeat(func(pause time.Duration) { n.inAgent(pause, n.beat) })
}

// sendBeat calls then with the time until the next one is due. As in the product, the servers are asked
// beside each other.
func (n *node) sendBeat(then func(pause time.Duration)) {
	registered := n.registered
	order := slices.Concat(serverNames[n.first:], serverNames[:n.first])
	asking := membership.NewAsking(n.lease.TTL, order)
	over := false
	end := func(err error) {
		if over {
			return
		}
		over = true
		n.w.note("%s has no lease: %v", n.id, err)
		n.registered = n.registered && !structs.IsKind(err, structs.KindNotFound)
		if structs.CauseOf(err) == structs.CauseSecondAgent {
			n.registered = false
			n.barred = true
		}
		if wait := structs.RetryAfter(err); wait > 0 {
			then(wait)
			return
		}
		n.first = (n.first + 1) % len(serverNames)
		then(100*time.Millisecond + n.w.upTo(asking.Pace()))
	}
	n.inAgent(n.beatTimeout(), func() { end(structs.Timeoutf("no server answers")) })

	var ask func()
	ask = func() {
		if over {
			return
		}
		server, wait := asking.Next(n.clock())
		if server == "" {
			n.inAgent(wait, ask)
			return
		}
		sent := n.clock()
		a, serve := newAsker(n, nil, &n.disk, n.place(), registered)
		n.callAt(slices.Index(serverNames, server), n.beatTimeout(), serve, func(answer any, err error) {
			if over {
				return
			}
			n.disk.answered(n.w, a.proof, err)
			if err == nil {
				err = n.renew(answer.(structs.LeaseGrant), sent)
			}
			switch {
			case err == nil:
				over = true
				n.first = n.w.leads
				then(max(n.lease.TTL/2-n.clock().Sub(sent), 100*time.Millisecond))
			case !isTransient(err) || structs.RetryAfter(err) > 0 || asking.Failed():
				end(err)
			default:
				ask()
			}
		})
		ask()
	}
	ask()
}

// beatTimeout leaves time for another request within the lease.
func (n *node) beatTimeout() time.Duration {
	if n.lease.TTL <= 0 {
		return requestTimeout
	}
	return min(n.lease.TTL/2, requestTimeout)
}

// renew takes a grant. A node that was down compares its volumes with its claims.
func (n *node) renew(g structs.LeaseGrant, sent boottime.Instant) error {
	wasDown := n.lease.GraceEnded(n.clock())
	renewed, err := n.lease.Renewed(membership.Grant{
		TTL:   g.HeartbeatTTL,
		Grace: g.HeartbeatGrace,
		Term:  g.LeaseTerm,
		Alone: g.LeaseFor,
	}, sent)
	if err != nil {
		return err
	}
	n.lease = renewed
	row := state.Node(n.w.store.Read(), n.id)
	if row.Lost() && !renewed.Ended(n.clock()) {
		n.w.violate(leaseBeforeLoss, "%s is down, and gets a lease for %s", n.id, renewed.Until().Sub(n.clock()))
	}
	n.inKernel(max(0, renewed.Until().Sub(n.clock())), n.guard)
	n.barred = false
	n.epoch = g.Epoch
	returns := n.noteReturn(g)
	if !n.registered || wasDown || returns {
		n.checkClaims()
	}
	n.registered = true
	if n.polls != n.agent {
		n.polls = n.agent
		n.poll()
	}
	return nil
}

// noteReturn reports whether the servers wait, from now on, until the node is clean: see membership.Return.
func (n *node) noteReturn(g structs.LeaseGrant) (begins bool) {
	epoch := g.Epoch
	if !g.Returning {
		epoch = 0
	}
	begins = epoch != 0 && n.awaited != epoch
	n.awaited = epoch
	if begins {
		n.index = 0
		n.w.after(n.latency(), n.answerPoll)
	}
	return begins
}

// cleanFor returns the epoch in which nothing is left that is not the node's own, 0 if the servers do not
// wait for it.
func (n *node) cleanFor() uint64 {
	if n.pulled != n.awaited || n.checked != n.awaited {
		return 0
	}
	for _, r := range n.runs {
		if r.stage >= stopping {
			return 0
		}
	}
	return n.awaited
}
