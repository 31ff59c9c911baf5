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
	c := newChecker(tx)
	checkAllIndexes(c)
	checkClaims(c)
	checkClaimQueues(c)
	checkAttachments(c)
	checkVolumes(c)
	checkPlugins(c)
	checkInstances(c)
	checkAllocs(c)
	checkEvals(c)
	checkJobs(c)
	checkSchedules(c)
	checkSchedulerConfig(c)
	checkAutopilotConfig(c)
	checkNamespaces(c)
	checkNodePools(c)
	checkDeployments(c)
	checkScalingEvents(c)
	checkSITokens(c)
	checkFences(c)
	checkPluginConfigs(c)
	checkNodeLeases(c)
	checkRootKeys(c)
	checkSealedValues(c)
	checkVariables(c)
	checkJoins(c)

	return c.Faults()
}

// mostFaults bounds the number of faults that Check describes, and mostFaultBytes the length of each
// description, because the rows may come from a damaged file.
const (
	mostFaults     = 1000
	mostFaultBytes = 500
)

// checker reads a store and collects the violated invariants.
type checker struct {
	*ReadTx
	faults []string
	more   int // faults that are not described
}

// newChecker returns a checker of the rows of a snapshot.
func newChecker(tx *ReadTx) *checker { return &checker{ReadTx: tx} }

// Faults returns the descriptions of the faults, nil for none. If there are more than it describes, the last
// line has the number of the others.
func (c *checker) Faults() []string {
	if c.more == 0 {
		return c.faults
	}
	return append(c.faults[:len(c.faults):len(c.faults)], fmt.Sprintf("and %d more", c.more))
}

// Want records a fault unless ok.
func (c *checker) Want(ok bool, format string, args ...any) {
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
		c.Want(is == row && found == there,
			"%s %s: counted %+v, kept %+v", subject, k, is, row)
	}
}

func checkIndexes[R mvcc.Record](c *checker, t *mvcc.Table[R]) {
	applied := c.Applied()
	newest := t.Newest(c)
	for r := range t.Scan(c) {
		created, modified := r.Stamps()
		c.Want(created <= modified && modified <= newest && newest <= applied,
			"%s %q: created at %d, modified at %d, table at %d, store at %d",
			t.Name(), t.KeyOfRow(r), created, modified, newest, applied)
	}
}

func checkAllIndexes(c *checker) {
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

// checkClaims checks that every claim has its volume and its node's allocation. The allocation of a waiting claim
// may still start. A granted claim conflicts with no other, and its attachment fits it.
func checkClaims(c *checker) {
	granted := grantedClasses{}
	for cl := range claims.Scan(c) {
		subject := fmt.Sprintf("claim of volume %s/%s for allocation %s",
			cl.Namespace, cl.VolumeID, cl.AllocID)
		v := Volume(c, cl.Namespace, cl.VolumeID)
		a := allocs.Get(c, cl.AllocID)
		c.Want(v != nil, "%s: no such volume", subject)
		c.Want(a != nil, "%s: no such allocation", subject)
		c.Want(a == nil || a.NodeID == cl.NodeID,
			"%s: it is on another node than the claim", subject)
		c.Want(v == nil || v.PluginID == cl.PluginID,
			"%s: the volume is of another plugin", subject)
		c.Want(v == nil || v.Capable(cl.Class()),
			"%s: the volume is not capable of it", subject)
		grows := cl.ExpandBytes != 0 || cl.ExpandError != nil
		c.Want(!grows || v == nil ||
			v.NodeExpandBytes >= cl.ExpandBytes && v.NodeExpandBytes > 0,
			"%s: its node has still to grow the volume to %d, of which the volume does not know",
			subject, cl.ExpandBytes)
		switch cl.State {
		case structs.ClaimWaiting:
			c.Want(a == nil || !a.Terminal(),
				"%s: it waits though the allocation is terminal", subject)
			c.Want(cl.GrantIndex == 0 && cl.EndTime == 0,
				"%s: it waits and has a grant index, or an end", subject)
			continue

		case structs.ClaimGranted:
			c.Want(cl.GrantIndex >= cl.CreateIndex &&
				cl.GrantIndex <= cl.ModifyIndex,
				"%s: grant index %d", subject, cl.GrantIndex)
			c.Want(a == nil || a.ClientTerminal() == (cl.EndTime != 0),
				"%s: end %d differs from that of its allocation", subject, cl.EndTime)

		default:
			c.Want(false, "%s: state %q", subject, cl.State)
		}

		checkGrantedClaim(c, cl, granted, subject)
	}
}

// grantedClasses has the allocations with granted claims, by volume and by the class of the claim.
type grantedClasses map[volumeKey]map[structs.ClaimClass]string

// checkGrantedClaim checks a granted claim against the granted claims before it and against its attachment.
func checkGrantedClaim(c *checker, cl *structs.CSIClaim, granted grantedClasses, subject string) {
	key := volumeKey{cl.Namespace, cl.VolumeID}
	for k, other := range granted[key] {
		c.Want(!k.Conflicts(cl.Class()),
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

	c.Want(at.State != structs.AttachmentDetaching,
		"%s: granted on an attachment that is detaching", subject)
	c.Want(at.AccessMode == cl.AccessMode &&
		at.AttachmentMode == cl.AttachmentMode,
		"%s: attached in another mode", subject)
}

// checkClaimQueues checks that the stored counts equal the claims, and that no claim waits that could be granted.
func checkClaimQueues(c *checker) {
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
			c.Want(false, "claim of volume %s/%s for allocation %s waits though it could be granted",
				next.Namespace, next.VolumeID, next.AllocID)
		}
	}
}

// checkAttachments checks that a claim uses each attachment that is not detaching, that no claim uses the others,
// and that a volume for a single node has at most one.
func checkAttachments(c *checker) {
	single := map[volumeKey]bool{}
	count := map[volumeKey]int{}
	for a := range attachments.Scan(c) {
		subject := fmt.Sprintf("attachment of volume %s/%s to node %s",
			a.Namespace, a.VolumeID, a.NodeID)
		used := inUse(c, a)
		switch a.State {
		case structs.AttachmentAttaching, structs.AttachmentAttached:
			c.Want(used, "%s is %s and no claim uses it", subject, a.State)
			c.Want(Volume(c, a.Namespace, a.VolumeID) != nil,
				"%s is %s and the volume is gone", subject, a.State)
		case structs.AttachmentDetaching:
			c.Want(!used, "%s is detaching under a claim", subject)
		default:
			c.Want(false, "%s: state %q", subject, a.State)
		}

		c.Want(a.ExternalNodeID != "",
			"%s: its external node ID is not known", subject)
		c.Want(!a.Found || a.State == structs.AttachmentDetaching,
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
		c.Want(!one || count[k] == 1,
			"volume %s/%s is for a single node and has %d attachments", k.Namespace, k.VolumeID, count[k])
	}
}

func checkVolumes(c *checker) {
	external := map[[2]string]string{}
	for v := range volumes.Scan(c) {
		if v.ExternalID != "" {
			key := [2]string{v.PluginID, v.ExternalID}
			c.Want(external[key] == "",
				"volumes %s and %s are both %s of plugin %s", external[key], v.ID, v.ExternalID, v.PluginID)
			external[key] = v.ID
		}

		states := []string{
			structs.VolumeCreating,
			structs.VolumeReady,
			structs.VolumeFailed,
			structs.VolumeDeleting,
		}

		c.Want(slices.Contains(states, v.State),
			"volume %s/%s: state %q", v.Namespace, v.ID, v.State)
		c.Want(v.State != structs.VolumeDeleting ||
			!claims.Has(c, v.Namespace, v.ID),
			"volume %s/%s is deleting and claimed", v.Namespace, v.ID)
	}
}

// checkPlugins checks that a plugin has a row exactly while something refers to the plugin.
func checkPlugins(c *checker) {
	for p := range plugins.Scan(c) {
		c.Want(pluginReferences(c, p.ID) != "",
			"plugin %s: nothing refers to it", p.ID)
		c.Want(!p.ControllerSeen || p.Known,
			"plugin %s: its controller was seen and it is not known", p.ID)
	}

	checkCounts(c)
	for v := range volumes.Scan(c) {
		c.Want(Plugin(c, v.PluginID) != nil,
			"volume %s/%s: plugin %s has no row", v.Namespace, v.ID, v.PluginID)
	}

	for a := range allocs.Scan(c) {
		for _, id := range a.CSIPlugins {
			c.Want(a.ClientTerminal() || Plugin(c, id) != nil,
				"allocation %s: plugin %s has no row", a.ID, id)
		}
	}
}

// checkCounts checks that the stored counts equal the rows.
func checkCounts(c *checker) {
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

// checkInstances checks that each instance has a node whose row names it.
func checkInstances(c *checker) {
	halves := map[string][]structs.CSIInstanceKey{}
	for i := range instances.Scan(c) {
		subject := fmt.Sprintf("%s instance of plugin %s on node %s",
			i.Kind, i.PluginID, i.NodeID)
		n := nodes.Get(c, i.NodeID)
		c.Want(n != nil, "%s: no such node", subject)
		c.Want(n == nil || n.Status != structs.NodeDown || !i.Healthy,
			"%s is healthy and the node is down", subject)
		c.Want(!i.DownWithNode || !i.Healthy,
			"%s is healthy and down with its node", subject)
		p := Plugin(c, i.PluginID)
		c.Want(p != nil, "%s: the plugin has no row", subject)
		c.Want(!i.Healthy || p == nil ||
			i.IsDriver(p.Provider) && !i.OtherDriver,
			"%s is healthy and of another driver, %q", subject, i.Provider)
		halves[i.NodeID] = append(halves[i.NodeID], i.Key())
	}

	for n := range nodes.Scan(c) {
		named := n.CSIInstances()
		own := halves[n.ID]
		c.Want(slices.Equal(named, own),
			"node %s names plugin instances %v and has %v", n.ID, named, own)
	}
}

func checkAllocs(c *checker) {
	for a := range allocs.Scan(c) {
		c.Want(a.Job == nil, "allocation %s: carries its job", a.ID)
		c.Want(a.Resources != nil, "allocation %s: has no resources", a.ID)
		c.Want(JobOf(c, a) != nil,
			"allocation %s: version %d of job %s is gone", a.ID, a.JobVersion, a.JobID)
		c.Want(a.ClientTerminal() || Node(c, a.NodeID) != nil,
			"allocation %s: its node %s is gone", a.ID, a.NodeID)
		checkServices(c, a)
	}
	checkDevices(c)
	checkPorts(c)
	checkNodeUses(c)
	checkEvalAllocs(c)
}

// checkServices checks the instances of an allocation: they end with it, each is there once, and none is newer
// than the row.
func checkServices(c *checker, a *structs.Allocation) {
	c.Want(!a.ClientTerminal() || len(a.Services) == 0,
		"allocation %s: it has ended and offers services", a.ID)
	seen := map[string]bool{}
	for _, i := range a.Services {
		c.Want(!seen[i.ID], "allocation %s: service %s is there twice", a.ID, i.ID)
		seen[i.ID] = true
		c.Want(i.CreateIndex != 0 && i.CreateIndex <= i.ModifyIndex && i.ModifyIndex <= a.ModifyIndex,
			"allocation %s: service %s was created at %d and modified at %d, the row at %d",
			a.ID, i.ID, i.CreateIndex, i.ModifyIndex, a.ModifyIndex)
	}
}

// checkDevices checks that no device is given to two allocations that hold resources.
func checkDevices(c *checker) {
	uses := map[string]structs.DeviceUse{} // by node
	for a := range allocs.Scan(c) {
		if a.Terminal() || len(a.Devices) == 0 {
			continue
		}
		holder := uses[a.NodeID].Holder(a)
		c.Want(holder == "",
			"allocation %s: allocation %s has one of its devices", a.ID, holder)
		uses[a.NodeID] = uses[a.NodeID].Add(a)
	}
}

func checkEvals(c *checker) {
	blocked := map[structs.JobKey]string{}
	for e := range evals.Scan(c) {
		if e.Status != structs.EvalBlocked {
			continue
		}
		k := structs.JobKey{
			Namespace: e.Namespace,
			ID:        e.JobID,
		}
		c.Want(blocked[k] == "",
			"job %s/%s has two blocked evaluations: %s, %s", k.Namespace, k.ID, blocked[k], e.ID)
		blocked[k] = e.ID
		missed := missedUnblock(c, e)
		c.Want(missed == "", "evaluation %s missed the unblock of %s", e.ID, missed)
	}
}

func checkJobs(c *checker) {
	for j := range jobs.Scan(c) {
		v := JobVersion(c, j.Namespace, j.ID, j.Version)
		c.Want(v != nil && sameSpec(v, j),
			"job %s/%s: version %d is not kept as it is", j.Namespace, j.ID, j.Version)
		status := jobStatus(c, j)
		c.Want(status == j.Status,
			"job %s/%s is %s and should be %s", j.Namespace, j.ID, j.Status, status)
	}
	for s := range jobSubmissions.Scan(c) {
		c.Want(JobVersion(c, s.Namespace, s.JobID, s.Version) != nil,
			"source of job %s/%s: version %d is gone", s.Namespace, s.JobID, s.Version)
	}
}

func checkSchedulerConfig(c *checker) {
	for s := range schedulerConfig.Scan(c) {
		err := validate.SchedulerConfig(s)
		c.Want(err == nil, "the configuration of the scheduler is invalid: %v", err)
	}
}

func checkAutopilotConfig(c *checker) {
	for a := range autopilotConfig.Scan(c) {
		err := validate.AutopilotConfig(a)
		c.Want(err == nil, "the configuration of autopilot is invalid: %v", err)
	}
}

// checkNamespaces checks that each namespace with a row has a name.
func checkNamespaces(c *checker) {
	for n := range namespaces.Scan(c) {
		c.Want(n.Name != "", "a namespace has no name")
	}
}

// checkNodePools checks that each node pool with a row has a name and is not built-in.
func checkNodePools(c *checker) {
	for p := range nodePools.Scan(c) {
		c.Want(p.Name != "" && !structs.BuiltInNodePool(p.Name),
			"node pool %q: a built-in pool, or one without a name, has no row", p.Name)
	}
}
