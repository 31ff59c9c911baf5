package state

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"berth/structs"
)

// Volume returns the volume, nil if there is none.
func Volume(tx Reader, ns, id string) *structs.CSIVolume {
	return volumes.Get(tx, ns, id)
}

// UnsettledVolumes yields those for which the leader has a call to make: to create, delete or expand.
func UnsettledVolumes(tx Reader) iter.Seq[*structs.CSIVolume] {
	return unsettledVolumes.Scan(tx)
}

// VolumeStub is the volume as lists show it.
func VolumeStub(tx *ReadTx, v *structs.CSIVolume) *structs.CSIVolumeListStub {
	s := new(structs.CSIVolumeListStub)
	VolumeStubs(tx)(v, s)
	return s
}

func bareStub(v *structs.CSIVolume) structs.CSIVolumeListStub {
	return structs.CSIVolumeListStub{
		ID:         v.ID,
		Namespace:  v.Namespace,
		Name:       v.Name,
		ExternalID: v.ExternalID,
		State:      v.State,
		Topologies: v.Topologies,
		PluginID:   v.PluginID,
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
		s.AccessMode = n.AccessMode
		s.AttachmentMode = n.AttachmentMode
		if n.Mode == structs.ClaimWrite {
			s.CurrentWriters += n.Granted
		} else {
			s.CurrentReaders += n.Granted
		}
	}
}

// pluginLook has the fields of a plugin that its volumes show.
type pluginLook struct {
	row                *structs.CSIPluginRow
	controllers, nodes tally
}

func lookOf(tx Reader, plugin string) pluginLook {
	controllers, nodes := halvesOf(tx, plugin)
	return pluginLook{Plugin(tx, plugin), controllers, nodes}
}

func (l pluginLook) show(v *structs.CSIVolume, s *structs.CSIVolumeListStub) {
	if l.row == nil {
		return
	}
	s.Provider = l.row.Provider
	s.ControllerRequired = l.row.ControllerRequired
	s.ControllersHealthy = l.controllers.Healthy
	s.ControllersExpected = l.controllers.Expected()
	s.NodesHealthy = l.nodes.Healthy
	s.NodesExpected = l.nodes.Expected()
	s.Schedulable = l.unschedulable(v) == ""
}

// unschedulable returns why no allocation can use the volume, with any claims, and "" if one can.
func (l pluginLook) unschedulable(v *structs.CSIVolume) string {
	switch why := blockOf(v, l.row); {
	case why != "":
		return why
	case l.nodes.Healthy == 0:
		return "no node instance of plugin " + v.PluginID + " is healthy"
	case l.row.ControllerRequired && l.controllers.Healthy == 0:
		return "no controller of plugin " + v.PluginID + " is healthy"
	}
	return ""
}

// VolumeDetail returns a volume with its plugin, claims, attachments and allocations. Parts with secrets are
// redacted copies; see structs.CSIVolumeDetail.Redacted.
func VolumeDetail(tx *ReadTx, v *structs.CSIVolume) *structs.CSIVolumeDetail {
	s := VolumeStub(tx, v)
	d := &structs.CSIVolumeDetail{
		CSIVolume:           *v.Copy().Redacted(),
		AccessMode:          s.AccessMode,
		AttachmentMode:      s.AttachmentMode,
		ReadAllocs:          map[string]*structs.AllocListStub{},
		WriteAllocs:         map[string]*structs.AllocListStub{},
		Allocations:         []*structs.AllocListStub{},
		Claims:              []*structs.CSIClaim{},
		Attachments:         []*structs.CSIAttachment{},
		Schedulable:         s.Schedulable,
		Blocked:             lookOf(tx, v.PluginID).unschedulable(v),
		ExpandBlocked:       ExpandBlocked(tx, v),
		Provider:            s.Provider,
		ControllerRequired:  s.ControllerRequired,
		ControllersHealthy:  s.ControllersHealthy,
		ControllersExpected: s.ControllersExpected,
		NodesHealthy:        s.NodesHealthy,
		NodesExpected:       s.NodesExpected,
	}
	if p := Plugin(tx, v.PluginID); p != nil {
		d.ProviderVersion = p.Version
	}
	d.WaitingJobs = jobsWaitingFor(tx, v)
	reason := Reasons(tx)
	for _, c := range ClaimsByVolume(tx, v.Namespace, v.ID) {
		addClaim(tx, d, c, reason(c))
	}
	for a := range AttachmentsByVolume(tx, v.Namespace, v.ID) {
		a = a.Copy().Redacted()
		d.Attachments = append(d.Attachments, a)
		if text := renamedNode(tx, a); text != "" {
			d.Warnings = append(d.Warnings, text)
		}
	}
	return d
}

// jobsWaitingFor returns the jobs that could not be placed and wait for a volume to change. It reads a
// bounded number of evaluations.
func jobsWaitingFor(tx Reader, v *structs.CSIVolume) (jobs []string) {
	looked := 0
	for e := range evalsByBlocked.Scan(tx, structs.WakeVolume(v.Namespace, v.ID)) {
		looked++
		if looked > 10*structs.MaxWaitingJobs ||
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

// renamedNode describes that the plugin's name of a node has changed since the volume was attached to it. The
// attachment keeps the old name, because the detach needs it.
func renamedNode(tx Reader, a *structs.CSIAttachment) string {
	now := Instance(tx, a.PluginID, structs.CSIKindNode, a.NodeID).NodeReport().ID
	if now == "" || now == a.ExternalNodeID {
		return ""
	}
	return fmt.Sprintf("attached to node %s as %q, which plugin %s names %q now: "+
		"see whether its storage still knows the attachment",
		nodeName(tx, a.NodeID), a.ExternalNodeID, a.PluginID, now)
}

func addClaim(tx Reader, d *structs.CSIVolumeDetail, c *structs.CSIClaim, blocked string) {
	c = c.Copy()
	c.Reason = cmp.Or(staleHolder(tx, c), blocked)
	d.Claims = append(d.Claims, c)
	a := Alloc(tx, c.AllocID)
	if c.State != structs.ClaimGranted || a == nil {
		return
	}
	stub := new(structs.AllocListStub)
	AllocStubs(tx)(a, stub)
	d.Allocations = append(d.Allocations, stub)
	if c.Mode == structs.ClaimWrite {
		d.WriteAllocs[a.ID] = stub
		return
	}
	d.ReadAllocs[a.ID] = stub
}

// usersOf names the users that prevent the deletion of a volume: claims by their allocations, else
// attachments.
func usersOf(tx Reader, v *structs.CSIVolume) error {
	var allocs, nodes []string
	rows := claims.Cursor(tx, v.Namespace, v.ID)
	for c := rows.Next(); c != nil && len(allocs) < manyHolders; c = rows.Next() {
		allocs = append(allocs, c.AllocID)
	}
	if len(allocs) > 0 {
		return structs.Preconditionf(
			"volume %q is claimed by allocation %s", v.ID, firstOf(allocs, ClaimCount(tx, v.Namespace, v.ID)))
	}
	for a := range AttachmentsByVolume(tx, v.Namespace, v.ID) {
		nodes = append(nodes, nodeName(tx, a.NodeID))
	}
	if len(nodes) > 0 {
		return structs.Preconditionf(
			"volume %q is still being detached from node %s", v.ID, strings.Join(nodes, ", "))
	}
	return nil
}

// VolumeDeregister deletes the row of a volume without users. Force first deletes the waiting claims, and an
// attached volume is then detached although its row is gone. A granted claim is never deleted: until its node
// has released the volume it may be mounted there, also for an ended allocation. A new registration would
// then mount it twice.
func VolumeDeregister(tx *WriteTx, p *structs.CSIVolumeDeregisterRequest) error {
	v := Volume(tx, p.RequestNamespace(), p.ID)
	if v == nil {
		return structs.NotFoundf("no volume %q in namespace %q", p.ID, p.RequestNamespace())
	}
	if !p.Force {
		if err := usersOf(tx, v); err != nil {
			return err
		}
		if v.State == structs.VolumeCreating ||
			v.State == structs.VolumeDeleting {
			return structs.Preconditionf(
				"volume %q is %s: without its row it may stay at its plugin; to delete the row all the same: %s",
				v.ID, v.State, volumeCommand("deregister -force ", v.Namespace)+v.ID)
		}
	}
	for _, k := range classesIn(tx, v, structs.ClaimGranted) {
		for _, c := range someHolders(tx, v, k) {
			return structs.Preconditionf("volume %q is in use: %s",
				v.ID, describeHolder(tx, c))
		}
	}
	for _, c := range ClaimsByVolume(tx, v.Namespace, v.ID) {
		dropClaim(tx, c)
	}
	forgetVolume(tx, v)
	return nil
}

// mayExist reports whether a failed creation may have created a volume all the same: RESOURCE_EXHAUSTED is
// also the answer of a transport whose message was too large (CSI spec, CreateVolume errors).
func mayExist(v *structs.CSIVolume) bool {
	return v.LastError != nil &&
		v.LastError.Code == structs.CSICodeExhausted
}

// forgetVolume deletes the row. An evaluation that waits for the volume's place on a node may not be
// unblocked by its release yet, and the row that records it is gone. So all evaluations that wait for
// capacity are evaluated again.
func forgetVolume(tx *WriteTx, v *structs.CSIVolume) {
	volumes.Delete(tx, v)
	forgetUnblock(tx, structs.WakeVolume(v.Namespace, v.ID))
	unblockKey(tx, structs.WakeCapacity) // it frees no capacity for jobs without volumes
	unreferPlugin(tx, v.PluginID)
	rebindDriver(tx, v.PluginID, v.ModifyTime)
}

// VolumeDelete records that the plugin is to delete a volume. The row is deleted after that. A volume that
// was never created is deleted at once.
func VolumeDelete(tx *WriteTx, p *structs.CSIVolumeDeleteRequest) error {
	v := Volume(tx, p.RequestNamespace(), p.ID)
	if v == nil {
		return structs.NotFoundf("no volume %q in namespace %q", p.ID, p.RequestNamespace())
	}
	if err := usersOf(tx, v); err != nil {
		return err
	}
	if v.State == structs.VolumeFailed && v.ExternalID == "" &&
		!mayExist(v) {
		forgetVolume(tx, v)
		return nil
	}
	if v.State == structs.VolumeDeleting && p.Secrets == nil {
		return nil
	}
	v = v.Copy()
	if v.State != structs.VolumeDeleting {
		v.LastError = nil
	}
	v.State = structs.VolumeDeleting
	v.ExpandPending = false
	v.ModifyTime = p.Now
	if p.Secrets != nil {
		if v.Deletion == nil {
			v.Deletion = &structs.CSIDeletion{Secrets: v.Secrets}
		}
		v.Secrets = p.Secrets.Copy()
	}
	changeQuietly(tx, v)
	return nil
}

// giveBackSecrets ends the deletion of a volume that stays: the secrets that it was to be deleted with may be
// wrong.
func giveBackSecrets(v *structs.CSIVolume) {
	if v.Deletion != nil {
		v.Secrets = v.Deletion.Secrets
		v.Deletion = nil
	}
}
