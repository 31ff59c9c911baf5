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

// findVolume returns the volume of a request.
func findVolume(tx Reader, ns, id string) (*structs.CSIVolume, error) {
	v := Volume(tx, ns, id)
	if v == nil {
		return nil, structs.NotFoundf("no volume %q in namespace %q", id, ns)
	}
	return v, nil
}

// UnsettledVolumes yields the volumes for which the leader has a call to make: to create, delete or expand.
func UnsettledVolumes(tx Reader) iter.Seq[*structs.CSIVolume] {
	return unsettledVolumes.Scan(tx)
}

// VolumeStub returns the volume as lists show it.
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

// pluginSummary has the fields of a plugin that its volumes show.
type pluginSummary struct {
	row         *structs.CSIPluginRow
	controllers tally
	nodes       tally
}

func summarizePlugin(tx Reader, plugin string) pluginSummary {
	controllers, nodes := talliesOf(tx, plugin)
	return pluginSummary{
		row:         Plugin(tx, plugin),
		controllers: controllers,
		nodes:       nodes,
	}
}

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

// unschedulable returns why no allocation can use the volume, with any claims, and "" if one can.
func (p pluginSummary) unschedulable(v *structs.CSIVolume) string {
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

// unschedulable returns why no allocation can use the volume, with any claims, and "" if one can.
func unschedulable(tx Reader, v *structs.CSIVolume) string {
	return summarizePlugin(tx, v.PluginID).unschedulable(v)
}

// VolumeDetail returns a volume with its plugin, claims, attachments and allocations. Parts with secrets are
// redacted copies.
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
		Blocked:             unschedulable(tx, v),
		ExpandBlocked:       ExpandBlocked(tx, v),
		LossPolicy:          LossPolicy(tx, v),
		Provider:            s.Provider,
		ControllerRequired:  s.ControllerRequired,
		ControllersHealthy:  s.ControllersHealthy,
		ControllersExpected: s.ControllersExpected,
		NodesHealthy:        s.NodesHealthy,
		NodesExpected:       s.NodesExpected,
	}

	p := Plugin(tx, v.PluginID)
	if p != nil {
		d.ProviderVersion = p.Version
	}

	d.WaitingJobs = JobsWaitingFor(tx, v)
	reason := Reasons(tx)
	for _, c := range ClaimsByVolume(tx, v.Namespace, v.ID) {
		addClaim(tx, d, c, reason(c))
	}

	for a := range AttachmentsByVolume(tx, v.Namespace, v.ID) {
		a = a.Copy().Redacted()
		d.Attachments = append(d.Attachments, a)
		text := renamedNode(tx, a)
		if text != "" {
			d.Warnings = append(d.Warnings, text)
		}
	}

	return d
}

// JobsWaitingFor returns the jobs that could not be placed and wait for a volume to change. It reads a
// bounded number of evaluations.
func JobsWaitingFor(tx Reader, v *structs.CSIVolume) (jobs []string) {
	read := 0
	for e := range evalsByBlocked.Scan(tx, structs.WakeVolume(v.Namespace, v.ID)) {
		read++
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

// renamedNode warns if the plugin's name of a node has changed since the volume was attached to it. The
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
	for c := range claims.Scan(tx, v.Namespace, v.ID) {
		allocs = append(allocs, c.AllocID)
		if len(allocs) == manyHolders {
			break
		}
	}

	if len(allocs) > 0 {
		count := ClaimCount(tx, v.Namespace, v.ID)
		return structs.Preconditionf(
			"volume %q is claimed by allocation %s", v.ID, listNames(allocs, count))
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
	v, err := findVolume(tx, p.RequestNamespace(), p.ID)
	if err != nil {
		return err
	}

	if !p.Force {
		if err := usersOf(tx, v); err != nil {
			return err
		}
	}

	for _, k := range classesIn(tx, v, structs.ClaimGranted) {
		for _, c := range someHolders(tx, v, k) {
			return structs.Preconditionf("volume %q is in use: %s",
				v.ID, describeHolder(tx, c))
		}
	}

	if err := checkAnswered(tx, v, p); err != nil {
		return err
	}

	if !p.Force && (v.State == structs.VolumeCreating ||
		v.State == structs.VolumeDeleting) {
		command := structs.CommandLine(v.Namespace, "volume deregister -force", v.ID)
		return structs.Preconditionf(
			"volume %q is %s: without its row it may stay at its plugin; to delete the row all the same: %s",
			v.ID, v.State, command)
	}

	for _, c := range ClaimsByVolume(tx, v.Namespace, v.ID) {
		dropClaim(tx, c)
	}

	deleteVolume(tx, v)
	return nil
}

// mayExist reports whether a failed creation may have created a volume all the same: RESOURCE_EXHAUSTED is
// also the answer of a transport whose message was too large (CSI spec, CreateVolume errors).
func mayExist(v *structs.CSIVolume) bool {
	e := v.LastError
	return e != nil && e.Code == structs.CSICodeExhausted
}

// deleteVolume deletes the row. The release of the volume may not yet have unblocked each evaluation that
// waits for its place on a node, and the row that records the release is gone. So all evaluations that wait
// for capacity are evaluated again.
func deleteVolume(tx *WriteTx, v *structs.CSIVolume) {
	volumes.Delete(tx, v)
	deleteUnblock(tx, structs.WakeVolume(v.Namespace, v.ID))
	unblockKey(tx, structs.WakeCapacity) // it frees no capacity for jobs without volumes
	dropUnusedPlugin(tx, v.PluginID)
	rebindDriver(tx, v.PluginID, v.ModifyTime)
}

// VolumeDelete records that the plugin is to delete a volume. The row is deleted after that. A volume that
// was never created is deleted at once.
func VolumeDelete(tx *WriteTx, p *structs.CSIVolumeDeleteRequest) error {
	v, err := findVolume(tx, p.RequestNamespace(), p.ID)
	if err != nil {
		return err
	}

	err = usersOf(tx, v)
	if err != nil {
		return err
	}

	if v.State == structs.VolumeFailed &&
		v.ExternalID == "" &&
		!mayExist(v) {
		deleteVolume(tx, v)
		return nil
	}

	err = checkSealed(tx, p.SealedSecrets)
	if err != nil {
		return err
	}

	own := p.Secrets != nil || p.SealedSecrets != nil
	if v.State == structs.VolumeDeleting && !own {
		return nil
	}

	v = v.Copy()
	if v.State != structs.VolumeDeleting {
		v.LastError = nil
	}

	v.State = structs.VolumeDeleting
	v.ExpandPending = false
	v.ModifyTime = p.Now
	if own {
		if v.Deletion == nil {
			v.Deletion = &structs.CSIDeletion{
				Secrets:       v.Secrets,
				SealedSecrets: v.SealedSecrets,
			}
		}

		v.Secrets = p.Secrets.Copy()
		v.SealedSecrets = p.SealedSecrets
	}

	putWithoutUnblock(tx, v)
	return nil
}

// endDeletion restores the secrets of a volume that is not deleted after all, because the deletion's may be
// wrong.
func endDeletion(v *structs.CSIVolume) {
	if v.Deletion != nil {
		v.Secrets = v.Deletion.Secrets
		v.SealedSecrets = v.Deletion.SealedSecrets
		v.Deletion = nil
	}
}
