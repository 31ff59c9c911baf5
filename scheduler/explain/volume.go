package explain

import (
	"cmp"
	"fmt"
	"time"

	"berth/state"
	"berth/structs"
)

// Volume explains why a volume, or a use of it, waits. It reports whether something waits; if nothing does,
// the reasons say so.
func Volume(tx *state.ReadTx, v *structs.CSIVolume, now time.Time) (waits bool, reasons []*structs.Reason) {
	x := &explainer{tx: tx, now: now}
	reasons = append(reasons, x.volumeCall(v)...)
	reasons = append(reasons, x.plugin(v)...)
	claims := 0
	var waiting sample
	blocked := state.Reasons(tx)
	for _, c := range state.ClaimsByVolume(tx, v.Namespace, v.ID) {
		claims++
		switch {
		case !waiting.full():
			waiting.add(x.claim(c, blocked(c)))
		case c.State == structs.ClaimWaiting || c.EndTime != 0:
			waiting.rest++
		}
	}
	reasons = append(reasons, waiting.list("claims")...)
	reasons = append(reasons, x.attachments(v)...)
	reasons = append(reasons, x.expansion(v)...)
	reasons = append(reasons, x.turnedReadOnly(v)...)
	if len(reasons) > 0 {
		return true, reasons
	}
	return false, []*structs.Reason{reason("volume %s waits for nothing; it is %s; in use by %s",
		v.ID, v.State, count(claims, "allocation"))}
}

// users lists the allocations that may use a volume now.
func (x *explainer) users(v *structs.CSIVolume) []*structs.Reason {
	var users sample
	for _, c := range state.ClaimsByVolume(x.tx, v.Namespace, v.ID) {
		if c.State != structs.ClaimGranted || c.EndTime != 0 {
			continue
		}
		if users.full() {
			users.rest++
			continue
		}
		r := reason("allocation %s of job %s on node %s has had it for %s",
			structs.ShortID(c.AllocID), c.JobID, x.nodeName(c.NodeID), x.since(c.GrantTime))
		r.Remedy = "it is free when that allocation ends: berth job stop " + c.JobID
		users.add(r)
	}
	return users.list("users")
}

// volumeCall explains a creation or deletion that has not ended.
func (x *explainer) volumeCall(v *structs.CSIVolume) []*structs.Reason {
	var r *structs.Reason
	retry := "to try now: berth volume retry " + v.ID
	switch v.State {
	case structs.VolumeCreating:
		r = reason("volume %s is being created%s", v.ID, x.failing(v.LastError))
	case structs.VolumeDeleting:
		r = reason("volume %s is being deleted%s", v.ID, x.failing(v.LastError))
	case structs.VolumeFailed:
		r = reason("volume %s could not be created%s", v.ID, x.failing(v.LastError))
		retry = "mend its file and run berth volume create FILE again, or berth volume delete " + v.ID
	default:
		return nil
	}
	if v.LastError != nil {
		r.Remedy = retry
	}
	if v.Call != nil {
		r.Because = append(r.Because, reason("the outcome of the call to %s it at node %s, sent %s ago, is unknown",
			v.Call.Op, x.nodeName(v.Call.NodeID), x.since(v.Call.Time)))
	}
	return []*structs.Reason{r}
}

// failing describes the last failure of an operation and its next attempt, "" without one.
func (x *explainer) failing(e *structs.OperationError) string {
	if e == nil {
		return ""
	}
	text := fmt.Sprintf(": %s (%s, the last %s ago", e.Message, count(e.Attempts, "failure"), x.since(e.Time))
	switch e.RetryTime {
	case 0:
	case structs.NeverTry:
		text += "; not repeated by itself"
	default:
		text += "; the next attempt " + x.until(e.RetryTime)
	}
	return text + ")"
}

// plugin explains why the plugin of a volume serves nobody.
func (x *explainer) plugin(v *structs.CSIVolume) []*structs.Reason {
	p := state.Plugin(x.tx, v.PluginID)
	status := "berth plugin status " + v.PluginID
	if p == nil || !p.Known {
		r := reason("no instance of plugin %s has been healthy yet", v.PluginID)
		r.Remedy = "run the job of the plugin; if it runs: " + status
		r.Because = x.instances(v.PluginID)
		return []*structs.Reason{r}
	}
	var reasons []*structs.Reason
	if p.ControllerRequired && !state.HealthyInstance(x.tx, v.PluginID, structs.CSIKindController) {
		r := reason("no controller of plugin %s is healthy", v.PluginID)
		r.Remedy = status
		r.Because = x.instances(v.PluginID)
		reasons = append(reasons, r)
	}
	if !state.HealthyInstance(x.tx, v.PluginID, structs.CSIKindNode) {
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
	for i := range state.InstancesByPlugin(x.tx, plugin) {
		switch {
		case i.Healthy:
		case i.DownWithNode:
			sick = append(sick, x.nodeDown(i.NodeID))
		default:
			sick = append(sick, reason("the %s half on node %s is not healthy: %s", i.Kind, x.nodeName(i.NodeID),
				cmp.Or(i.HealthDescription, "it has not answered yet")))
		}
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
		return reason("%s is not expanded%s", name, x.failing(c.ExpandError))
	case blocked == "":
		return nil
	}
	return reason("%s has been %s for %s: %s", name, c.State, x.since(c.CreateTime), blocked)
}

// endedClaim explains a claim whose allocation has ended.
func (x *explainer) endedClaim(c *structs.CSIClaim, name string) *structs.Reason {
	r := reason("%s is held although the allocation ended %s ago%s",
		name, x.since(c.EndTime), x.failing(c.ReleaseError))
	if state.Node(x.tx, c.NodeID).Lost() {
		r.Because = []*structs.Reason{x.nodeDown(c.NodeID)}
		r.Remedy = "if the node is off: " + state.DetachCommand(c.Namespace, c.VolumeID, c.NodeID)
		return r
	}
	r.Remedy = fmt.Sprintf("to call the node again: berth volume detach %s %s", c.VolumeID, c.NodeID)
	return r
}

// attachments explains attachments that are neither attached nor gone.
func (x *explainer) attachments(v *structs.CSIVolume) []*structs.Reason {
	var open []*structs.Reason
	for a := range state.AttachmentsByVolume(x.tx, v.Namespace, v.ID) {
		if a.State == structs.AttachmentAttached {
			continue
		}
		r := reason("volume %s is %s at node %s%s", v.ID, a.State, x.nodeName(a.NodeID), x.failing(a.LastError))
		if a.LastError != nil {
			r.Remedy = "to try now: berth volume retry " + v.ID
			if a.State == structs.AttachmentDetaching {
				r.Remedy += "; if the volume is surely not attached: " + state.ForceCommand(a.Namespace, v.ID, a.NodeID)
			}
		}
		waits := state.AttachmentWaits(x.tx, a)
		if waits != "" {
			r.Because = append(r.Because, reason("%s", waits))
		}
		if a.Call != nil {
			r.Because = append(r.Because, reason("the outcome of the %s at node %s, sent %s ago, is unknown",
				a.Call.Op, x.nodeName(a.Call.NodeID), x.since(a.Call.Time)))
		}
		open = append(open, r)
	}
	return list(open, "attachments")
}

// expansion explains why a volume does not have its requested size yet.
func (x *explainer) expansion(v *structs.CSIVolume) []*structs.Reason {
	if !v.ExpandPending || v.State != structs.VolumeReady {
		return nil
	}
	r := reason("volume %s is to grow from %d to %d bytes%s", v.ID, v.Capacity, v.RequestedCapacityMin,
		x.failing(v.LastError))
	why := state.ExpandBlocked(x.tx, v)
	if why != "" {
		r.Because = []*structs.Reason{reason("%s", why)}
	}
	if v.LastError != nil {
		r.Remedy = "to try now: berth volume retry " + v.ID
	}
	return []*structs.Reason{r}
}

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
