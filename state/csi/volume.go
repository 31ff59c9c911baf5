package csi

import (
	"iter"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// Volume returns the volume, nil if there is none.
func Volume(tx mvcc.Reader, ns, id string) *structs.CSIVolume {
	return schema.Volumes.Get(tx, ns, id)
}

// VolumeByExternal returns the volume that has an ID at a plugin, nil if none has it.
func VolumeByExternal(tx mvcc.Reader, plugin, external string) *structs.CSIVolume {
	if external == "" {
		return nil // of each volume that is not made yet
	}
	return schema.VolumesByPlugin.First(tx, plugin, external)
}

// HostVolumesNamed yields the dynamic host volumes of a namespace with a name, whatever their nodes are.
func HostVolumesNamed(tx mvcc.Reader, ns, name string) iter.Seq[*structs.CSIVolume] {
	return schema.VolumesByHostName.Scan(tx, ns, name)
}

// UnsettledVolumes yields the volumes for which the leader has a call to make: to create, delete or expand.
func UnsettledVolumes(tx mvcc.Reader) iter.Seq[*structs.CSIVolume] {
	return schema.UnsettledVolumes.Scan(tx)
}

// VolumeStub returns the volume as lists show it.
func VolumeStub(tx *mvcc.ReadTx, v *structs.CSIVolume) *structs.CSIVolumeListStub {
	s := new(structs.CSIVolumeListStub)
	placeless := func(v *structs.CSIVolume) bool { return Placeless(tx, v) != "" }
	stubsWith(tx, placeless)(v, s)
	return s
}

// bareStub returns the part of a stub that the row of the volume has.
func bareStub(v *structs.CSIVolume) structs.CSIVolumeListStub {
	return structs.CSIVolumeListStub{
		ID:         v.ID,
		Namespace:  v.Namespace,
		Name:       v.Name,
		ExternalID: v.ExternalID,
		State:      v.State,
		Topologies: v.Topologies,
		PluginID:   v.PluginID,
		Class:      v.Class,
		Labels:     v.Labels,
		DeleteAt:   v.DeleteAt,
		CreateTime: v.CreateTime,
		ModifyTime: v.ModifyTime,
		Indexes:    v.Indexes,
	}
}

// countClaims puts the counts of a volume's claims into its stub.
func countClaims(s *structs.CSIVolumeListStub, counts []structs.CSIClassCount) {
	for _, n := range counts {
		s.Waiting += n.Waiting
		if n.Granted == 0 {
			continue
		}

		// Claims of other modes would conflict, so each class with granted claims has the same ones.
		s.AccessMode = n.AccessMode
		s.AttachmentMode = n.AttachmentMode
		if n.Mode == structs.ClaimWrite {
			s.CurrentWriters += n.Granted
		} else {
			s.CurrentReaders += n.Granted
		}
	}
}

// pluginSummary has the fields of a plugin that its volumes show.
type pluginSummary struct {
	row         *structs.CSIPluginRow
	controllers Tally
	nodes       Tally
}

// summarizePlugin returns the fields of a plugin that its volumes show.
func summarizePlugin(tx mvcc.Reader, plugin string) pluginSummary {
	controllers, nodes := TalliesOf(tx, plugin)
	return pluginSummary{
		row:         Plugin(tx, plugin),
		controllers: controllers,
		nodes:       nodes,
	}
}

// fillStub adds the facts of the plugin to a stub. A volume whose plugin has no row is not schedulable.
func (p pluginSummary) fillStub(v *structs.CSIVolume, s *structs.CSIVolumeListStub) {
	if p.row == nil {
		return
	}
	s.Provider = p.row.Provider
	s.ControllerRequired = p.row.ControllerRequired
	s.ControllersHealthy = p.controllers.Healthy
	s.ControllersExpected = p.controllers.Expected()
	s.NodesHealthy = p.nodes.Healthy
	s.NodesExpected = p.nodes.Expected()
	s.Schedulable = p.unschedulable(v) == ""
}

// Unschedulable returns why no allocation can use the volume, with any claims, and "" if one can.
func (p pluginSummary) unschedulable(v *structs.CSIVolume) string {
	// The state of the volume itself comes first: its remedy is needed in any case.
	switch why := blockOf(v, p.row); {
	case why != "":
		return why
	case p.nodes.Healthy == 0:
		return "no node instance of plugin " + v.PluginID + " is healthy"
	case p.row.ControllerRequired && p.controllers.Healthy == 0:
		return "no controller of plugin " + v.PluginID + " is healthy"
	}
	return ""
}

// Unschedulable returns why no allocation can use the volume, with any claims, and "" if one can.
func Unschedulable(tx mvcc.Reader, v *structs.CSIVolume) string {
	why := summarizePlugin(tx, v.PluginID).unschedulable(v)
	if why == "" {
		why = Placeless(tx, v)
	}
	return why
}

// JobsWaitingFor returns the jobs that could not be placed and wait for a volume to change, or for a host
// volume of its name. It reads a bounded number of evaluations.
func JobsWaitingFor(tx mvcc.Reader, v *structs.CSIVolume) (jobs []string) {
	keys := []string{structs.WakeVolume(v.Namespace, v.ID)}
	if v.Host != nil {
		keys = append(keys, structs.WakeHostVolume(v.Namespace, v.Host.Name))
	}
	for _, key := range keys {
		jobs = addWaiting(tx, jobs, key)
	}
	return jobs
}

// addWaiting adds the jobs whose evaluations wait for a key.
func addWaiting(tx mvcc.Reader, jobs []string, key string) []string {
	read := 0
	for e := range schema.EvalsByBlocked.Scan(tx, key) {
		read++

		// Evaluations that are pending again keep their position until they are processed, and may be many.
		if read > 10*structs.MaxWaitingJobs ||
			len(jobs) == structs.MaxWaitingJobs {
			break
		}

		if e.Status == structs.EvalBlocked &&
			!slices.Contains(jobs, e.JobID) {
			jobs = append(jobs, e.JobID)
		}
	}

	return jobs
}

// VolumesFrom yields the volumes of a namespace whose ID begins with prefix, from a namespace and ID on.
func VolumesFrom(
	tx *mvcc.ReadTx,
	ns, prefix string,
	at mvcc.Page,
) iter.Seq[*structs.CSIVolume] {
	rows := schema.Volumes.Range(tx, schema.NamespaceScope(ns, prefix), at)
	return schema.Filter(rows, func(v *structs.CSIVolume) bool {
		return strings.HasPrefix(v.ID, prefix)
	})
}

// NeverCreated reports whether a volume can be made anew with other arguments, nil for one without a row. A
// failure without an external ID is final: the plugin has rejected the last creation. See mayExist for the
// calls before it.
func NeverCreated(v *structs.CSIVolume) bool {
	return v == nil || v.State == structs.VolumeFailed && v.ExternalID == ""
}

// mayExist reports whether a failed creation may have created a volume all the same. The first of two calls
// may have had another outcome than the last. RESOURCE_EXHAUSTED is also the answer of a transport whose
// message was too large (CSI spec, CreateVolume errors).
func mayExist(v *structs.CSIVolume) bool {
	e := v.LastError
	return v.Unanswered || e != nil && e.Code == structs.CSICodeExhausted
}

// checkRemake rejects a volume v that replaces old, which could not be created, with another name or plugin,
// if the plugin may have made old before: nothing would name that volume any more.
func checkRemake(v, old *structs.CSIVolume) error {
	if !old.Unanswered || v.PluginID == old.PluginID && v.NameAtPlugin() == old.NameAtPlugin() {
		return nil
	}
	return structs.Preconditionf("plugin %q may have volume %q under the name %q, because a call to create it "+
		"was not answered; delete it first: %s", old.PluginID, old.ID, old.NameAtPlugin(),
		structs.CommandLine(old.Namespace, "volume delete", old.ID))
}
