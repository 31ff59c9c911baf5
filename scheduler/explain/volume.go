package explain

import (
	"cmp"
	"fmt"
	"slices"

	"berth/state"
	"berth/state/csi"
	"berth/state/volumesecrets"
	"berth/structs"
)

// Volume explains why a volume, or a use of it, waits. It reports whether something waits; if nothing does,
// the reasons say so.
func Volume(view View, v *structs.CSIVolume) (waits bool, reasons []*structs.Reason) {
	x := newExplainer(view)
	waits, reasons = x.volume(v)

	// The jobs are searched only if the volume itself explains nothing: their reasons name the volume again.
	if waits {
		return waits, reasons
	}

	jobs := x.waitingJobs(v)
	if len(jobs) == 0 {
		return false, reasons
	}

	return true, jobs
}

// waitingJobs explains the jobs without a place that wait for a volume, which itself waits for nothing. For
// example, only nodes that are not eligible reach it.
func (x *explainer) waitingJobs(v *structs.CSIVolume) []*structs.Reason {
	var jobs sample
	for _, id := range csi.JobsWaitingFor(x.tx, v) {
		j := state.Job(x.tx, v.Namespace, id)
		switch {
		case j == nil || j.Stop:
		case jobs.full():
			jobs.rest++
		default:
			r := reason("job %s waits for a place with volume %s, which is %s", id, v.ID, v.State)

			// The job's own allocations get other remedies than allocations of other jobs.
			x.job = j
			r.Because = (&jobExplainer{x}).blockedGroups(j)
			x.job = nil
			jobs.add(r)
		}
	}

	return jobs.list("jobs")
}

// volume explains the volume itself, from its cause to its effects: its creation, its plugin and its secrets,
// then the claims, and at last the attachments and the expansion.
func (x *explainer) volume(v *structs.CSIVolume) (waits bool, reasons []*structs.Reason) {
	reasons = append(reasons, x.volumeCall(v)...)
	reasons = append(reasons, x.plugin(v)...)
	reasons = append(reasons, x.placeless(v)...)
	reasons = append(reasons, missingSecrets(x.tx, v)...)
	claims := 0
	var queued []structs.ClaimClass
	shown := map[string]bool{} // nodes whose attachment explains a claim
	var waiting sample
	blocked := csi.Reasons(x.tx)
	for _, c := range csi.ClaimsByVolume(x.tx, v.Namespace, v.ID) {
		claims++

		// The users hinder classes, not claims. There are few classes, and perhaps very many claims.
		if k := c.Class(); c.State == structs.ClaimWaiting && !slices.Contains(queued, k) {
			queued = append(queued, k)
		}

		switch {
		case !waiting.full():
			r := x.claim(c, blocked(c))
			waiting.add(r)
			if r != nil && c.State == structs.ClaimGranted && c.EndTime == 0 {
				// The attachment is the reason of this claim, and is not listed again below.
				r.Because = x.attachments(v, func(node string) bool { return node == c.NodeID })
				shown[c.NodeID] = true
			}

		// Only those count that surely wait. To know it of the others, each would have to be explained.
		case c.State == structs.ClaimWaiting || c.EndTime != 0:
			waiting.rest++
		}
	}

	reasons = append(reasons, waiting.list("claims")...)
	if len(queued) > 0 {
		reasons = append(reasons, x.users(v, func(k structs.ClaimClass) bool {
			return slices.ContainsFunc(queued, k.Conflicts)
		})...)
	}

	reasons = append(reasons, x.attachments(v, func(node string) bool { return !shown[node] })...)
	reasons = append(reasons, x.expansion(v)...)
	reasons = append(reasons, x.turnedReadOnly(v)...)
	if len(reasons) > 0 {
		return true, reasons
	}

	return false, []*structs.Reason{reason("volume %s waits for nothing; it is %s; in use by %s",
		v.ID, v.State, count(claims, "allocation"))}
}

// placeless explains that no node reaches a volume any more.
func (x *explainer) placeless(v *structs.CSIVolume) []*structs.Reason {
	why := csi.Placeless(x.tx, v)
	if why == "" {
		return nil
	}
	r := reason("%s", why)
	r.Remedy = "if the node is still there, run the job of the plugin on it; if it is gone for good: " +
		csi.GoneCommand(v)
	return []*structs.Reason{r}
}

// missingSecrets explains that the variable with the secrets of a volume is missing, and so its calls.
func missingSecrets(tx state.Reader, v *structs.CSIVolume) []*structs.Reason {
	_, err := volumesecrets.Variable(tx, v)
	if err == nil {
		return nil
	}
	r := reason("%v", err)
	r.Remedy = command(v.Namespace, "var put", volumesecrets.Path(tx, v), "NAME=@FILE")
	return []*structs.Reason{r}
}

func anyNode(string) bool { return true }

func anyClass(structs.ClaimClass) bool { return true }

// users lists the allocations that may use a volume now and whose claims have a class that hinders.
func (x *explainer) users(v *structs.CSIVolume, hinders func(structs.ClaimClass) bool) []*structs.Reason {
	var users sample
	for _, c := range csi.ClaimsByVolume(x.tx, v.Namespace, v.ID) {
		if c.State != structs.ClaimGranted || c.EndTime != 0 || !hinders(c.Class()) {
			continue
		}

		if users.full() {
			users.rest++
			continue
		}

		r := reason("allocation %s of job %s on node %s has had volume %s for %s",
			structs.ShortID(c.AllocID), c.JobID, x.nodeName(c.NodeID), v.ID, x.since(c.GrantTime))
		a := state.Alloc(x.tx, c.AllocID)
		if a != nil {
			x.freeing(r, a, "give each group a volume of its own, or an access_mode for several")
		}

		users.add(r)
	}

	return users.list("users")
}

// volumeCall explains a creation or deletion that has not ended, or a deletion that is to come.
func (x *explainer) volumeCall(v *structs.CSIVolume) []*structs.Reason {
	var r *structs.Reason
	remedy := x.retryRemedy(v, v.LastError)
	switch v.State {
	case structs.VolumeCreating:
		r = reason("volume %s is being created%s", v.ID, x.failing(v.LastError))
	case structs.VolumeDeleting:
		r = reason("volume %s is being deleted%s", v.ID, x.failing(v.LastError))
	case structs.VolumeFailed:
		r = reason("volume %s could not be created%s", v.ID, x.failing(v.LastError))
		remedy = "mend its file and run it again: " + command(v.Namespace, "volume create", "FILE") +
			"; or " + command(v.Namespace, "volume delete", v.ID)
	default:
		if !v.Marked() {
			return nil
		}

		r = reason("volume %s is to be deleted %s (%s), and grants no claim%s",
			v.ID, x.until(v.DeleteAt), v.DeleteCause, x.failing(v.LastError))
		remedy = "to keep it: " + command(v.Namespace, "volume undelete", v.ID)
	}

	r.Remedy = remedy
	r.Because = x.unknownOutcome(v.Call)
	return []*structs.Reason{r}
}

// retryRemedy is the remedy of a call for a volume that is repeated until it succeeds.
func (x *explainer) retryRemedy(v *structs.CSIVolume, failed *structs.OperationError) string {
	if failed == nil {
		return ifItLasts(v.PluginID)
	}
	return "to try now: " + command(v.Namespace, "volume retry", v.ID)
}

// unknownOutcome explains a call of a plugin whose outcome is not known, nil if there is none.
func (x *explainer) unknownOutcome(call *structs.CSICall) []*structs.Reason {
	if call == nil {
		return nil
	}
	r := reason("the outcome of the call to %s it, sent to node %s %s ago, is unknown; "+
		"only that node repeats it", call.Op, x.nodeName(call.NodeID), x.since(call.Time))
	if state.Node(x.tx, call.NodeID).Lost() {
		r.Because = []*structs.Reason{x.nodeDown(call.NodeID)}
	}
	return []*structs.Reason{r}
}

// failing describes the last failure of an operation and its next attempt, "" without one.
func (x *explainer) failing(e *structs.OperationError) passing {
	if e == nil {
		return passing{}
	}

	text := fmt.Sprintf(": %s (%s, the last %s ago", e.Message, count(e.Attempts, "failure"), x.since(e.Time))
	switch e.RetryTime {
	case 0:
	case structs.NeverTry:
		text += "; not repeated by itself"
	default:
		text += "; the next attempt " + x.until(e.RetryTime).text
	}

	return passing{text: text + ")", fact: ": " + e.Message}
}

// plugin explains why the plugin of a volume serves nobody.
func (x *explainer) plugin(v *structs.CSIVolume) []*structs.Reason {
	p := csi.Plugin(x.tx, v.PluginID)
	status := "berth plugin status " + structs.ShellWord(v.PluginID)
	if p == nil || !p.Known {
		r := reason("no instance of plugin %s has been healthy yet", v.PluginID)
		r.Remedy = "run the job of the plugin; if it runs: " + status
		r.Because = x.instances(v.PluginID)
		return []*structs.Reason{r}
	}

	var reasons []*structs.Reason
	if p.ControllerRequired && !csi.HealthyInstance(x.tx, v.PluginID, structs.CSIKindController) {
		r := reason("no controller of plugin %s is healthy", v.PluginID)
		r.Remedy = status
		r.Because = x.instances(v.PluginID)
		reasons = append(reasons, r)
	}

	if !csi.HealthyInstance(x.tx, v.PluginID, structs.CSIKindNode) {
		r := reason("no node instance of plugin %s is healthy", v.PluginID)
		r.Remedy = status
		r.Because = x.instances(v.PluginID)
		reasons = append(reasons, r)
	}

	return reasons
}

// instances explains the instances of a plugin that are not healthy.
func (x *explainer) instances(plugin string) []*structs.Reason {
	var sick []*structs.Reason
	down := map[string]bool{}
	for i := range csi.InstancesByPlugin(x.tx, plugin) {
		switch {
		case i.Healthy, down[i.NodeID]:
		// Both halves of the plugin are down with the node, which is one reason.
		case i.DownWithNode:
			down[i.NodeID] = true
			sick = append(sick, x.nodeDown(i.NodeID))
		default:
			sick = append(sick, reason("the %s half on node %s is not healthy: %s",
				i.Kind, x.nodeName(i.NodeID), cmp.Or(i.HealthDescription, "it has not answered yet")))
		}

		// One more than listed is enough for list to say that there are more.
		if len(sick) > mostListed {
			break
		}
	}

	return list(sick, "instances")
}

// claim explains a claim that waits, cannot be used yet, or outlives its allocation; nil for any other.
func (x *explainer) claim(c *structs.CSIClaim, blocked string) *structs.Reason {
	name := fmt.Sprintf("the claim of allocation %s (job %s) on node %s",
		structs.ShortID(c.AllocID), c.JobID, x.nodeName(c.NodeID))
	switch {
	case c.EndTime != 0:
		return x.endedClaim(c, name)
	case c.ExpandError != nil:
		r := reason("%s is not expanded%s", name, x.failing(c.ExpandError))
		r.Remedy = "to try now: " + command(c.Namespace, "volume retry", c.VolumeID)
		return r
	case blocked == "":
		return nil
	}

	return reason("%s has been %s for %s: %s", name, c.State, x.since(c.CreateTime), blocked)
}

// endedClaim explains a claim whose allocation has ended.
func (x *explainer) endedClaim(c *structs.CSIClaim, name string) *structs.Reason {
	r := reason("%s is held although the allocation ended %s ago%s",
		name, x.since(c.EndTime), x.failing(c.ReleaseError))
	x.shown[c.AllocID] = true
	if state.Node(x.tx, c.NodeID).Lost() {
		a := state.Alloc(x.tx, c.AllocID)
		if a != nil && a.ClientStatus == structs.AllocLost {
			r = reason(
				"%s is held: the allocation was lost with its node %s ago, and its tasks may still write%s",
				name, x.since(c.EndTime), x.failing(c.ReleaseError))
		}

		lossExplainer{x}.lostHolder(r, c)
		return r
	}

	i := csi.Instance(x.tx, c.PluginID, structs.CSIKindNode, c.NodeID)
	if i == nil || !i.Healthy {
		needs := reason("plugin %s, which unmounts it, has no healthy instance on that node", c.PluginID)
		needs.Remedy = "run the job of the plugin there; if it runs: berth plugin status " +
			structs.ShellWord(c.PluginID)
		r.Because = []*structs.Reason{needs}
		return r
	}

	r.Remedy = "to call the node again: " + command(c.Namespace, "volume detach", c.VolumeID, c.NodeID)
	return r
}

// attachments explains the attachments to some nodes that are neither attached nor gone.
func (x *explainer) attachments(v *structs.CSIVolume, to func(node string) bool) []*structs.Reason {
	var open []*structs.Reason
	for a := range csi.AttachmentsByVolume(x.tx, v.Namespace, v.ID) {
		if a.State == structs.AttachmentAttached || !to(a.NodeID) {
			continue
		}

		r := reason("volume %s is %s at node %s%s", v.ID, a.State, x.nodeName(a.NodeID),
			x.failing(a.LastError))
		r.Remedy = x.retryRemedy(v, a.LastError)

		// The plugin does not confirm the detach, so only an operator can know that nothing is attached.
		if a.LastError != nil && a.State == structs.AttachmentDetaching {
			r.Remedy += "; if the volume is surely not attached: " +
				csi.ForceCommand(a.Namespace, v.ID, a.NodeID)
		}

		waits := csi.AttachmentWaits(x.tx, a)
		if waits != "" {
			r.Because = append(r.Because, reason("%s", waits))
		}

		r.Because = append(r.Because, x.unknownOutcome(a.Call)...)
		open = append(open, r)
	}

	return list(open, "attachments")
}

// expansion explains why a volume does not have its requested size yet.
func (x *explainer) expansion(v *structs.CSIVolume) []*structs.Reason {
	if !v.Expands() {
		return nil
	}

	r := reason("volume %s is to grow from %d to %d bytes%s", v.ID, v.Capacity, v.RequestedCapacityMin,
		x.failing(v.LastError))
	why := csi.ExpandBlocked(x.tx, v)
	if why != "" {
		r.Because = []*structs.Reason{{
			Text:    why,
			Remedy:  command(v.Namespace, "volume status", v.ID) + " shows who uses it and where it is attached",
			Because: x.users(v, anyClass),
		}}
		return []*structs.Reason{r}
	}

	r.Remedy = x.retryRemedy(v, v.LastError)
	return []*structs.Reason{r}
}

// turnedReadOnly explains a fault that the kernel of a node has found in the file system.
func (x *explainer) turnedReadOnly(v *structs.CSIVolume) []*structs.Reason {
	t := v.TurnedReadOnly
	if t == nil {
		return nil
	}
	r := reason("the file system of volume %s turned read-only under allocation %s on node %s %s ago",
		v.ID, structs.ShortID(t.AllocID), x.nodeName(t.NodeID), x.since(t.Time))
	r.Remedy = "check the storage and the file system; the next allocation mounts the volume again"
	return []*structs.Reason{r}
}

// onlyVolumeFails reports whether a group has a single volume, and a call of its plugin has failed.
func (x *jobExplainer) onlyVolumeFails(j *structs.Job, g *structs.TaskGroup) bool {
	for _, request := range g.Volumes {
		if len(g.Volumes) == 1 && request.NeedsClaim() && !request.PerAlloc {
			v := csi.Volume(x.tx, j.Namespace, request.VolumeID(0, ""))
			return v != nil && v.State != structs.VolumeReady && v.LastError != nil
		}
	}
	return false
}
