package job

import (
	"fmt"
	"slices"
	"strings"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// maxNamedUsers bounds the users that an error names. It counts the others. An error has to stay readable
// with thousands of claims.
const maxNamedUsers = 8

// checkPluginUse returns an error while volumes need a plugin that a job runs and would no longer run as
// next, nil for a job that stops. A half of a plugin that another job serves, on the same node if it is the
// node's, is not needed from this one. The reports of the nodes show the job that serves it, because an
// allocation whose driver was rejected runs on beside it. Without a report, each job may be the one: a
// rejected stop can be forced, but the stop of the wrong job leaves volumes mounted.
func checkPluginUse(tx *state.ReadTx, job, next *structs.Job) error {
	s := &useSearch{
		tx:   tx,
		job:  job,
		seen: map[structs.CSIClaimKey]bool{},
	}

	kept := pluginHalves(next)
	controllers := map[string]bool{}
	for a := range state.LiveAllocsByJob(tx, job.Namespace, job.ID) {
		for _, half := range state.PluginHalves(tx, a) {
			switch {
			case slices.Contains(kept, half) || !s.mayServe(a, half):
			case half.Kind == structs.CSIKindNode:
				s.findMounts(half, a.NodeID)
			// A controller serves the whole cluster, so its attachments are searched once.
			case !controllers[half.PluginID]:
				controllers[half.PluginID] = true
				s.findAttachments(half)
			}
		}
	}

	return s.rejection()
}

// pluginHalves lists the halves of plugins that the groups of a job run.
func pluginHalves(job *structs.Job) (halves []structs.CSIInstanceKey) {
	if job == nil {
		return nil
	}

	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			// A group with a count of 0 runs no plugin.
			if t.CSIPluginConfig == nil || g.Count == 0 {
				continue
			}

			for _, kind := range t.CSIPluginConfig.Kinds() {
				halves = append(halves, structs.CSIInstanceKey{PluginID: t.CSIPluginConfig.ID, Kind: kind})
			}
		}
	}

	return halves
}

// useSearch collects the users of the plugins of a job.
type useSearch struct {
	tx      *state.ReadTx
	job     *structs.Job
	seen    map[structs.CSIClaimKey]bool // the users that were found
	plugins []string                     // that are used
	named   []string                     // the first users
}

// mayServe reports whether an allocation of the job serves a half of a plugin on its node, or may do so after
// a restart or the end of another one.
func (s *useSearch) mayServe(a *structs.Allocation, half structs.CSIInstanceKey) bool {
	i := csi.Instance(s.tx, half.PluginID, half.Kind, a.NodeID)
	switch {
	case i == nil:
		return true
	case i.OtherDriver: // it gets no calls, and the driver of the plugin may wait for its end
		return i.AllocID != a.ID
	}
	return i.DownWithNode || !i.Healthy || !s.runsInAnother(i)
}

// findMounts finds the claims on volumes of a plugin for which its half on a node is needed. A claim is a use
// until the node has unmounted the volume, also after the end of its allocation.
func (s *useSearch) findMounts(half structs.CSIInstanceKey, node string) {
	for c := range csi.ClaimsByNode(s.tx, node) {
		if c.State == structs.ClaimGranted && c.PluginID == half.PluginID {
			s.addClaim(c)
		}
	}
}

// findAttachments finds the attachments that nothing but the controller of a plugin detaches.
func (s *useSearch) findAttachments(half structs.CSIInstanceKey) {
	// One healthy controller of another job is enough to detach all.
	for i := range csi.InstancesByPluginKind(s.tx, half.PluginID, half.Kind) {
		if i.Healthy && s.runsInAnother(i) {
			return
		}
	}

	for v := range csi.VolumesByPlugin(s.tx, half.PluginID) {
		for a := range csi.AttachmentsByVolume(s.tx, v.Namespace, v.ID) {
			s.addAttachment(a)
		}
	}
}

// runsInAnother reports whether an allocation of another job runs an instance, and is to go on.
func (s *useSearch) runsInAnother(i *structs.CSIPluginInstance) bool {
	a := state.Alloc(s.tx, i.AllocID)
	if a == nil || a.ServerTerminal() || s.isOwn(a) {
		return false
	}
	job := state.Job(s.tx, a.Namespace, a.JobID) // its stop may not have reached the allocation yet
	return job != nil && !job.Stop && slices.Contains(state.PluginHalves(s.tx, a), i.Key())
}

func (s *useSearch) isOwn(a *structs.Allocation) bool {
	return a.Namespace == s.job.Namespace && a.JobID == s.job.ID
}

// addAttachment adds the claims for which a volume is attached to a node. Without one, nobody uses it there,
// but the controller still has to detach it.
func (s *useSearch) addAttachment(a *structs.CSIAttachment) {
	used := false
	for _, c := range csi.ClaimsByVolume(s.tx, a.Namespace, a.VolumeID) {
		if c.State == structs.ClaimGranted && c.NodeID == a.NodeID {
			used = true
			s.addClaim(c)
		}
	}

	if !used {
		s.add(structs.CSIClaimKey{Namespace: a.Namespace, VolumeID: a.VolumeID, AllocID: a.NodeID}, a.PluginID,
			fmt.Sprintf("volume %q is %s at node %s", a.VolumeID, a.State, s.nodeName(a.NodeID)))
	}
}

func (s *useSearch) addClaim(c *structs.CSIClaim) {
	s.add(c.Key(), c.PluginID, fmt.Sprintf("volume %q is in use by allocation %s of job %q on node %s",
		c.VolumeID, structs.ShortID(c.AllocID), c.JobID, s.nodeName(c.NodeID)))
}

func (s *useSearch) add(key structs.CSIClaimKey, plugin, text string) {
	if s.seen[key] {
		return
	}

	s.seen[key] = true
	if !slices.Contains(s.plugins, plugin) {
		s.plugins = append(s.plugins, plugin)
	}

	if len(s.named) < maxNamedUsers {
		s.named = append(s.named, text)
	}
}

func (s *useSearch) nodeName(id string) string {
	n := state.Node(s.tx, id)
	if n == nil || n.Name == "" {
		return structs.ShortID(id)
	}
	return n.Name
}

// rejection names the users, nil if there are none.
func (s *useSearch) rejection() error {
	if len(s.seen) == 0 {
		return nil
	}
	if rest := len(s.seen) - len(s.named); rest > 0 {
		s.named = append(s.named, fmt.Sprintf("and %d more", rest))
	}
	return structs.Preconditionf("job %q runs plugin %s, which its users need to let go of their volumes: %s. "+
		"Stop the users first. To stop the plugin all the same: %s", s.job.ID, strings.Join(s.plugins, ", "),
		strings.Join(s.named, "; "), structs.CommandLine(s.job.Namespace, "job stop -force", s.job.ID))
}
