package state

import (
	"fmt"
	"maps"
	"slices"

	"berth/internal/mvcc"
	"berth/structs"
	"berth/structs/validate"
)

// Check reads the whole store and describes every violated invariant. A store that only this package has
// changed has none. `berth operator check` runs it on a saved snapshot, and tests run it after every step.
// After mostFaults violations it only counts, and the last line has the number.
func Check(tx *ReadTx) []string {
	c := &checker{ReadTx: tx}
	c.indexes()
	c.claims()
	c.claimQueues()
	c.attachments()
	c.volumes()
	c.plugins()
	c.instances()
	c.allocs()
	c.evals()
	c.jobs()
	c.schedules()
	c.schedulerConfig()
	c.autopilotConfig()
	c.namespaces()
	c.nodePools()
	c.deployments()
	c.scalingEvents()
	c.siTokens()
	c.fences()
	c.pluginConfigs()
	c.nodeLeases()
	c.rootKeys()
	c.sealedValues()
	c.variables()
	c.joins()
	if c.more > 0 {
		c.faults = append(c.faults, fmt.Sprintf("and %d more", c.more))
	}

	return c.faults
}

// mostFaults bounds the number of faults that Check describes, and mostFaultBytes the length of each
// description, because the rows may come from a damaged file.
const (
	mostFaults     = 1000
	mostFaultBytes = 500
)

type checker struct {
	*ReadTx
	faults []string
	more   int // faults that are not described
}

// want records a fault unless ok.
func (c *checker) want(ok bool, format string, args ...any) {
	switch {
	case ok:
	case len(c.faults) < mostFaults:
		c.faults = append(c.faults,
			structs.Cut(fmt.Sprintf(format, args...), mostFaultBytes))
	default:
		c.more++
	}
}

// wantCounts records a fault for each key whose stored number differs from the counted one.
func wantCounts[N comparable](
	c *checker,
	subject string,
	counted, kept map[string]N,
) {
	keys := maps.Clone(counted)
	maps.Copy(keys, kept)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		is, found := counted[k]
		row, there := kept[k]
		c.want(is == row && found == there,
			"%s %s: counted %+v, kept %+v", subject, k, is, row)
	}
}

func checkIndexes[R mvcc.Record](c *checker, t *mvcc.Table[R]) {
	applied := c.Applied()
	newest := t.Newest(c)
	for r := range t.Scan(c) {
		created, modified := r.Stamps()
		c.want(created <= modified && modified <= newest && newest <= applied,
			"%s %q: created at %d, modified at %d, table at %d, store at %d",
			t.Name(), t.KeyOfRow(r), created, modified, newest, applied)
	}
}

func (c *checker) indexes() {
	checkIndexes(c, nodes)
	checkIndexes(c, plugins)
	checkIndexes(c, instances)
	checkIndexes(c, counts)
	checkIndexes(c, volumes)
	checkIndexes(c, claims)
	checkIndexes(c, claimQueues)
	checkIndexes(c, attachments)
	checkIndexes(c, jobs)
	checkIndexes(c, jobVersions)
	checkIndexes(c, jobSubmissions)
	checkIndexes(c, allocs)
	checkIndexes(c, evals)
	checkIndexes(c, unblocks)
	checkIndexes(c, schedulerConfig)
	checkIndexes(c, namespaces)
	checkIndexes(c, nodePools)
	checkIndexes(c, deployments)
	checkIndexes(c, periodicLaunches)
	checkIndexes(c, scalingEvents)
	checkIndexes(c, siTokens)
	checkIndexes(c, clusterMetadata)
	checkIndexes(c, leaseBounds)
	checkIndexes(c, nodeLeases)
	checkIndexes(c, autopilotConfig)
	checkIndexes(c, pluginConfigs)
	checkIndexes(c, secretsMarks)
	checkIndexes(c, fenceRuns)
	checkIndexes(c, fenceOrders)
	checkIndexes(c, rootKeys)
	checkIndexes(c, variables)
	checkIndexes(c, authorities)
	checkIndexes(c, joinTokens)
	checkIndexes(c, certificates)
	checkIndexes(c, revocations)
}

// claims checks that every claim has its volume and its node's allocation. The allocation of a waiting claim
// may still start. A granted claim conflicts with no other, and its attachment fits it.
func (c *checker) claims() {
	granted := grantedClasses{}
	for cl := range claims.Scan(c) {
		subject := fmt.Sprintf("claim of volume %s/%s for allocation %s",
			cl.Namespace, cl.VolumeID, cl.AllocID)
		v := Volume(c, cl.Namespace, cl.VolumeID)
		a := Alloc(c, cl.AllocID)
		c.want(v != nil, "%s: no such volume", subject)
		c.want(a != nil, "%s: no such allocation", subject)
		c.want(a == nil || a.NodeID == cl.NodeID,
			"%s: it is on another node than the claim", subject)
		c.want(v == nil || v.PluginID == cl.PluginID,
			"%s: the volume is of another plugin", subject)
		c.want(v == nil || v.Capable(cl.Class()),
			"%s: the volume is not capable of it", subject)
		grows := cl.ExpandBytes != 0 || cl.ExpandError != nil
		c.want(!grows || v == nil ||
			v.NodeExpandBytes >= cl.ExpandBytes && v.NodeExpandBytes > 0,
			"%s: its node has still to grow the volume to %d, of which the volume does not know",
			subject, cl.ExpandBytes)
		switch cl.State {
		case structs.ClaimWaiting:
			c.want(a == nil || !a.Terminal(),
				"%s: it waits though the allocation is terminal", subject)
			c.want(cl.GrantIndex == 0 && cl.EndTime == 0,
				"%s: it waits and has a grant index, or an end", subject)
			continue

		case structs.ClaimGranted:
			c.want(cl.GrantIndex >= cl.CreateIndex &&
				cl.GrantIndex <= cl.ModifyIndex,
				"%s: grant index %d", subject, cl.GrantIndex)
			c.want(a == nil || a.ClientTerminal() == (cl.EndTime != 0),
				"%s: end %d differs from that of its allocation", subject, cl.EndTime)

		default:
			c.want(false, "%s: state %q", subject, cl.State)
		}

		c.grantedClaim(cl, granted, subject)
	}
}

// grantedClasses has the allocations with granted claims, by volume and by the class of the claim.
type grantedClasses map[volumeKey]map[structs.ClaimClass]string

// grantedClaim checks a granted claim against the granted claims before it and against its attachment.
func (c *checker) grantedClaim(cl *structs.CSIClaim, granted grantedClasses, subject string) {
	key := volumeKey{cl.Namespace, cl.VolumeID}
	for k, other := range granted[key] {
		c.want(!k.Conflicts(cl.Class()),
			"%s: granted although it conflicts with that of %s", subject, other)
	}

	if granted[key] == nil {
		granted[key] = map[structs.ClaimClass]string{}
	}

	granted[key][cl.Class()] = cl.AllocID
	at := Attachment(c, cl.Namespace, cl.VolumeID, cl.NodeID)
	if at == nil {
		return
	}

	c.want(at.State != structs.AttachmentDetaching,
		"%s: granted on an attachment that is detaching", subject)
	c.want(at.AccessMode == cl.AccessMode &&
		at.AttachmentMode == cl.AttachmentMode,
		"%s: attached in another mode", subject)
}

// claimQueues checks that the stored counts equal the claims, and that no claim waits that could be granted.
func (c *checker) claimQueues() {
	found := map[string]int{}
	for cl := range claims.Scan(c) {
		key := fmt.Sprint(cl.Namespace, "/", cl.VolumeID, " ", cl.Class(), " ", cl.State)
		found[key]++
	}

	kept := map[string]int{}
	for l := range claimQueues.Scan(c) {
		for _, n := range l.Classes {
			for _, state := range claimStates {
				count := *n.In(state)
				if count != 0 {
					key := fmt.Sprint(l.Namespace, "/", l.VolumeID, " ", n.Class(), " ", state)
					kept[key] = count
				}
			}
		}
	}

	wantCounts(c, "claims of volume", found, kept)
	seen := map[volumeKey]bool{}
	for cl := range waitingByPlugin.Scan(c) {
		key := volumeKey{cl.Namespace, cl.VolumeID}
		if seen[key] {
			continue
		}

		seen[key] = true
		for next := range grantable(c, cl.Namespace, cl.VolumeID) {
			c.want(false, "claim of volume %s/%s for allocation %s waits though it could be granted",
				next.Namespace, next.VolumeID, next.AllocID)
		}
	}
}

// attachments checks that a claim uses each attachment that is not detaching, that no claim uses the others,
// and that a volume for a single node has at most one.
func (c *checker) attachments() {
	single := map[volumeKey]bool{}
	count := map[volumeKey]int{}
	for a := range attachments.Scan(c) {
		subject := fmt.Sprintf("attachment of volume %s/%s to node %s",
			a.Namespace, a.VolumeID, a.NodeID)
		used := inUse(c, a)
		switch a.State {
		case structs.AttachmentAttaching, structs.AttachmentAttached:
			c.want(used, "%s is %s and no claim uses it", subject, a.State)
			c.want(Volume(c, a.Namespace, a.VolumeID) != nil,
				"%s is %s and the volume is gone", subject, a.State)
		case structs.AttachmentDetaching:
			c.want(!used, "%s is detaching under a claim", subject)
		default:
			c.want(false, "%s: state %q", subject, a.State)
		}

		c.want(a.ExternalNodeID != "",
			"%s: its external node ID is not known", subject)
		c.want(!a.Found || a.State == structs.AttachmentDetaching,
			"%s was found and is %s", subject, a.State)
		if a.Found {
			continue // no claim made it, so it may be in addition to theirs
		}

		k := volumeKey{a.Namespace, a.VolumeID}
		count[k]++
		single[k] = single[k] ||
			a.AccessMode.SingleNode() &&
				a.State != structs.AttachmentDetaching
	}

	for k, one := range single {
		c.want(!one || count[k] == 1,
			"volume %s/%s is for a single node and has %d attachments", k.ns, k.volume, count[k])
	}
}

func (c *checker) volumes() {
	external := map[[2]string]string{}
	for v := range volumes.Scan(c) {
		if v.ExternalID != "" {
			key := [2]string{v.PluginID, v.ExternalID}
			c.want(external[key] == "",
				"volumes %s and %s are both %s of plugin %s", external[key], v.ID, v.ExternalID, v.PluginID)
			external[key] = v.ID
		}

		states := []string{
			structs.VolumeCreating,
			structs.VolumeReady,
			structs.VolumeFailed,
			structs.VolumeDeleting,
		}

		c.want(slices.Contains(states, v.State),
			"volume %s/%s: state %q", v.Namespace, v.ID, v.State)
		c.want(v.State != structs.VolumeDeleting ||
			!claims.Has(c, v.Namespace, v.ID),
			"volume %s/%s is deleting and claimed", v.Namespace, v.ID)
	}
}

// plugins checks that a plugin has a row exactly while something refers to the plugin.
func (c *checker) plugins() {
	for p := range plugins.Scan(c) {
		c.want(pluginReferences(c, p.ID) != "",
			"plugin %s: nothing refers to it", p.ID)
		c.want(!p.ControllerSeen || p.Known,
			"plugin %s: its controller was seen and it is not known", p.ID)
	}

	c.counts()
	for v := range volumes.Scan(c) {
		c.want(Plugin(c, v.PluginID) != nil,
			"volume %s/%s: plugin %s has no row", v.Namespace, v.ID, v.PluginID)
	}

	for a := range allocs.Scan(c) {
		for _, id := range a.CSIPlugins {
			c.want(a.ClientTerminal() || Plugin(c, id) != nil,
				"allocation %s: plugin %s has no row", a.ID, id)
		}
	}
}

// counts checks that the stored counts equal the rows.
func (c *checker) counts() {
	name := func(half structs.CSIInstanceKey) string {
		return half.PluginID + " " + string(half.Kind)
	}
	found := map[string]tally{}
	for i := range instances.Scan(c) {
		k := name(i.Key())
		found[k] = found[k].Plus(tallyInstance(i))
	}

	for a := range allocs.Scan(c) {
		for _, half := range PluginHalves(c, a) {
			k := name(half)
			found[k] = found[k].Plus(tally{Runs: 1})
		}
	}

	kept := map[string]tally{}
	for n := range counts.Scan(c) {
		kept[name(structs.CSIInstanceKey{PluginID: n.PluginID, Kind: n.Kind})] = n.Tally
	}

	wantCounts(c, "instances and runs of plugin", found, kept)
}

// instances checks that each instance has a node whose row names it.
func (c *checker) instances() {
	halves := map[string][]structs.CSIInstanceKey{}
	for i := range instances.Scan(c) {
		subject := fmt.Sprintf("%s instance of plugin %s on node %s",
			i.Kind, i.PluginID, i.NodeID)
		n := Node(c, i.NodeID)
		c.want(n != nil, "%s: no such node", subject)
		c.want(n == nil || n.Status != structs.NodeDown || !i.Healthy,
			"%s is healthy and the node is down", subject)
		c.want(!i.DownWithNode || !i.Healthy,
			"%s is healthy and down with its node", subject)
		p := Plugin(c, i.PluginID)
		c.want(p != nil, "%s: the plugin has no row", subject)
		c.want(!i.Healthy || p == nil ||
			i.IsDriver(p.Provider) && !i.OtherDriver,
			"%s is healthy and of another driver, %q", subject, i.Provider)
		halves[i.NodeID] = append(halves[i.NodeID], i.Key())
	}

	for n := range nodes.Scan(c) {
		named := n.CSIInstances()
		own := halves[n.ID]
		c.want(slices.Equal(named, own),
			"node %s names plugin instances %v and has %v", n.ID, named, own)
	}
}

func (c *checker) allocs() {
	for a := range allocs.Scan(c) {
		c.want(a.Job == nil, "allocation %s: carries its job", a.ID)
		c.want(a.Resources != nil, "allocation %s: has no resources", a.ID)
		c.want(JobOf(c, a) != nil,
			"allocation %s: version %d of job %s is gone", a.ID, a.JobVersion, a.JobID)
		c.want(a.ClientTerminal() || Node(c, a.NodeID) != nil,
			"allocation %s: its node %s is gone", a.ID, a.NodeID)
		c.services(a)
	}
	c.devices()
	c.ports()
	c.nodeUses()
	c.evalAllocs()
}

// services checks the instances of an allocation: they end with it, each is there once, and none is newer
// than the row.
func (c *checker) services(a *structs.Allocation) {
	c.want(!a.ClientTerminal() || len(a.Services) == 0,
		"allocation %s: it has ended and offers services", a.ID)
	seen := map[string]bool{}
	for _, i := range a.Services {
		c.want(!seen[i.ID], "allocation %s: service %s is there twice", a.ID, i.ID)
		seen[i.ID] = true
		c.want(i.CreateIndex != 0 && i.CreateIndex <= i.ModifyIndex && i.ModifyIndex <= a.ModifyIndex,
			"allocation %s: service %s was created at %d and modified at %d, the row at %d",
			a.ID, i.ID, i.CreateIndex, i.ModifyIndex, a.ModifyIndex)
	}
}

// devices checks that no device is given to two allocations that hold resources.
func (c *checker) devices() {
	uses := map[string]structs.DeviceUse{} // by node
	for a := range allocs.Scan(c) {
		if a.Terminal() || len(a.Devices) == 0 {
			continue
		}
		holder := uses[a.NodeID].Holder(a)
		c.want(holder == "",
			"allocation %s: allocation %s has one of its devices", a.ID, holder)
		uses[a.NodeID] = uses[a.NodeID].Add(a)
	}
}

func (c *checker) evals() {
	blocked := map[structs.JobKey]string{}
	for e := range evals.Scan(c) {
		if e.Status != structs.EvalBlocked {
			continue
		}
		k := structs.JobKey{
			Namespace: e.Namespace,
			ID:        e.JobID,
		}
		c.want(blocked[k] == "",
			"job %s/%s has two blocked evaluations: %s, %s", k.Namespace, k.ID, blocked[k], e.ID)
		blocked[k] = e.ID
		missed := missedUnblock(c, e)
		c.want(missed == "", "evaluation %s missed the unblock of %s", e.ID, missed)
	}
}

func (c *checker) jobs() {
	for j := range jobs.Scan(c) {
		v := JobVersion(c, j.Namespace, j.ID, j.Version)
		c.want(v != nil && sameSpec(v, j),
			"job %s/%s: version %d is not kept as it is", j.Namespace, j.ID, j.Version)
		status := jobStatus(c, j)
		c.want(status == j.Status,
			"job %s/%s is %s and should be %s", j.Namespace, j.ID, j.Status, status)
	}
	for s := range jobSubmissions.Scan(c) {
		c.want(JobVersion(c, s.Namespace, s.JobID, s.Version) != nil,
			"source of job %s/%s: version %d is gone", s.Namespace, s.JobID, s.Version)
	}
}

func (c *checker) schedulerConfig() {
	for s := range schedulerConfig.Scan(c) {
		err := validate.SchedulerConfig(s)
		c.want(err == nil, "the configuration of the scheduler is invalid: %v", err)
	}
}

func (c *checker) autopilotConfig() {
	for a := range autopilotConfig.Scan(c) {
		err := validate.AutopilotConfig(a)
		c.want(err == nil, "the configuration of autopilot is invalid: %v", err)
	}
}

// namespaces checks that each namespace with a row has a name.
func (c *checker) namespaces() {
	for n := range namespaces.Scan(c) {
		c.want(n.Name != "", "a namespace has no name")
	}
}

// nodePools checks that each node pool with a row has a name and is not built-in.
func (c *checker) nodePools() {
	for p := range nodePools.Scan(c) {
		c.want(p.Name != "" && !structs.BuiltInNodePool(p.Name),
			"node pool %q: a built-in pool, or one without a name, has no row", p.Name)
	}
}
