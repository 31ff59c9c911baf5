package views

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api/show"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// KindVolume is the kind of the problems of volumes.
const KindVolume = "volume"

// Problem is something that does not run as it should.
type Problem struct {
	Kind    string // volume, node, job and so on
	Name    string
	Link    string // a path of the page, "" for none
	Since   int64  // UnixNano, 0 if it is not known
	Reasons []string
	Remedy  string // a sentence, "" for none
	Command string // shows more, or is the remedy
}

// Age shows since when there is the problem, "" if that is not known.
func (p Problem) Age() string { return show.Age(p.Since) }

// mostReasons is how many reasons a problem shows. The command shows all.
const mostReasons = 3

// Explain adds the reasons of an answer to why something waits, and the first remedy among them.
func (p *Problem) Explain(why *structs.WhyResponse) {
	if why == nil || !why.Waits || len(why.Reasons) == 0 {
		return
	}
	p.Reasons = nil
	for _, r := range slices.Concat(why.Reasons[:1], structs.Causes(why.Reasons)) {
		if len(p.Reasons) < mostReasons && !slices.Contains(p.Reasons, r.Text) {
			p.Reasons = append(p.Reasons, r.Text)
		}
		switch {
		case r.Remedy == "" || p.Remedy != "":
		case strings.HasPrefix(r.Remedy, "berth "):
			p.Command = r.Remedy
			p.Remedy = "run this command"
		default:
			p.Remedy = r.Remedy
		}
	}
}

// VolumeProblem shows a volume that waits, or that cannot be used.
func VolumeProblem(v *structs.CSIVolumeListStub) Problem {
	p := Problem{
		Kind:    KindVolume,
		Name:    v.ID,
		Link:    To(VolumePath, v.Namespace, v.ID),
		Since:   v.ModifyTime,
		Command: structs.CommandLine(v.Namespace, "volume why", v.ID),
	}
	if v.State != structs.VolumeReady {
		p.Reasons = append(p.Reasons, "it is "+v.State)
	}
	if !v.Schedulable {
		p.Reasons = append(p.Reasons, "it is not schedulable")
	}
	if v.Waiting > 0 {
		p.Reasons = append(p.Reasons, structs.Counted(v.Waiting, "claim")+" in its queue")
	}
	if v.Drift != "" {
		p.Reasons = append(p.Reasons, "it differs from its storage: "+v.Drift)
	}
	return p
}

// JobProblem shows a job with an evaluation that is blocked.
func JobProblem(e *structs.Evaluation) Problem {
	p := Problem{
		Kind:    "job",
		Name:    e.JobID,
		Link:    To(JobPath, e.Namespace, e.JobID),
		Since:   e.CreateTime,
		Reasons: []string{"its evaluation is blocked"},
		Command: structs.CommandLine(e.Namespace, "job why", e.JobID),
	}
	if e.StatusDescription != "" {
		p.Reasons = append(p.Reasons, e.StatusDescription)
	}
	if e.QuotaLimitReached != "" {
		p.Reasons = append(p.Reasons, "it waits for the quota "+e.QuotaLimitReached)
	}
	return p
}

// NodeProblem shows a node that is not ready. lost has the facts about its loss, nil if they are not known.
func NodeProblem(n *structs.NodeListStub, lost *cluster.NodeFenceStatusResponse) Problem {
	p := Problem{
		Kind:    "node",
		Name:    cmp.Or(n.Name, show.ShortID(n.ID)),
		Link:    To(NodePath, "", n.ID),
		Reasons: []string{"it is " + n.Status},
		Command: structs.CommandLine("", "node status", n.ID),
	}
	if n.StatusDescription != "" {
		p.Reasons = append(p.Reasons, n.StatusDescription)
	}
	if lost == nil {
		return p
	}

	if lost.Since > 0 {
		p.Since = time.Unix(lost.Since, 0).UnixNano()
	}
	if len(lost.Claims) > 0 {
		p.Reasons = append(p.Reasons, "it holds "+structs.Counted(len(lost.Claims), "claim")+" on volumes")
		p.fence(n, lost)
	}
	if lost.Brake != nil {
		p.Reasons = append(p.Reasons, fmt.Sprintf("the servers fence no node by themselves: %d of %d nodes were "+
			"lost within a short time", lost.Brake.Lost, lost.Brake.Of))
	}
	if len(lost.Runs) > 0 && lost.Runs[0].State == cluster.FenceFailed {
		p.Reasons = append(p.Reasons, "the last fence failed: "+lost.Runs[0].Reason)
	}
	return p
}

// fence adds what releases the claims of a node that is not ready.
func (p *Problem) fence(n *structs.NodeListStub, lost *cluster.NodeFenceStatusResponse) {
	switch {
	case lost.Fenceable():
		p.Remedy = "a fence releases them; this command shows the devices and the volumes"
		p.Command = structs.CommandLine("", "node fence", "-dry-run", n.ID)
	case n.Status == structs.NodeDown:
		p.Remedy = "no fence device of the servers matches the node; if the machine is off, this command releases them"
		p.Command = ConfirmLine(n.ID)
	}
}

// ConfirmLine is the command by which an operator says that the machine of a node is off.
func ConfirmLine(nodeID string) string {
	return structs.CommandLine("", `node confirm-lost -reason "..."`, nodeID)
}

// PluginProblem shows a plugin with instances that are not healthy. ok is false for one without.
func PluginProblem(g *structs.CSIPluginListStub) (p Problem, ok bool) {
	p = Problem{
		Kind:    "plugin",
		Name:    g.ID,
		Link:    To(PluginPath, "", g.ID),
		Command: structs.CommandLine("", "plugin status", g.ID),
	}
	if g.ControllerRequired && g.ControllersHealthy < max(g.ControllersExpected, 1) {
		p.Reasons = append(p.Reasons, "controllers healthy: "+
			show.Count(g.ControllersHealthy, g.ControllersExpected))
	}
	if g.NodesHealthy < g.NodesExpected {
		p.Reasons = append(p.Reasons, "nodes healthy: "+show.Count(g.NodesHealthy, g.NodesExpected))
	}
	if g.Ending > 0 {
		p.Reasons = append(p.Reasons, "instances that ended twice at a call, and do not make it any more: "+
			strconv.Itoa(g.Ending))
	}
	return p, len(p.Reasons) > 0
}

// DeploymentProblem shows a deployment that has failed.
func DeploymentProblem(d *structs.Deployment) Problem {
	return Problem{
		Kind:    "deployment",
		Name:    d.JobID,
		Link:    To(JobPath, d.Namespace, d.JobID),
		Since:   d.ModifyTime,
		Reasons: []string{cmp.Or(d.StatusDescription, "it has failed")},
		Command: structs.CommandLine(d.Namespace, "deployment status", d.ID),
	}
}

// AllocProblem shows an allocation that has failed and is not replaced, or whose state is not known.
func AllocProblem(a *structs.AllocListStub) Problem {
	p := Problem{
		Kind:    "allocation",
		Name:    a.Name,
		Link:    To(AllocPath, a.Namespace, a.ID),
		Since:   a.ModifyTime,
		Reasons: []string{"it is " + a.ClientStatus},
		Command: structs.CommandLine(a.Namespace, "alloc status", a.ID),
	}
	if a.ClientDescription != "" {
		p.Reasons = append(p.Reasons, a.ClientDescription)
	}
	for name, t := range show.Sorted(a.TaskStates) {
		if t == nil || !t.Failed || len(t.Events) == 0 {
			continue
		}
		last := t.Events[len(t.Events)-1]
		p.Reasons = append(p.Reasons, "task "+name+": "+cmp.Or(last.DisplayMessage, last.Type))
	}
	return p
}

// ServerProblem shows a server that does not run. ok is false for one that does.
func ServerProblem(m *cluster.AgentMember) (p Problem, ok bool) {
	p = Problem{
		Kind:    "server",
		Name:    m.Name,
		Reasons: []string{"it is " + m.Status},
		Command: structs.CommandLine("", "server members"),
	}
	return p, m.Status != "alive" && m.Status != "left"
}

// DifferenceProblem shows a setting that the servers do not have alike.
func DifferenceProblem(d *cluster.SettingDifference) Problem {
	return Problem{
		Kind:    "setting",
		Name:    d.Setting,
		Reasons: []string{d.String()},
		Remedy:  d.Remedy(),
		Command: structs.CommandLine("", "operator autopilot health"),
	}
}

// ArchiveProblem shows that the archives of the state fail or are overdue, by what the leader says of them.
// ok is false if they do not.
func ArchiveProblem(stats map[string]string) (p Problem, ok bool) {
	p = Problem{
		Kind:    "archives",
		Name:    "of the state of the servers",
		Remedy:  "see that the directory or the program of snapshot_agent takes archives",
		Command: structs.CommandLine("", "agent-info"),
	}
	switch cluster.ArchiveState(stats[cluster.ArchiveStateKey]) {
	case cluster.ArchivesFailing:
		p.Reasons = append(p.Reasons, "the last attempt failed")
	case cluster.ArchivesOverdue:
		p.Reasons = append(p.Reasons, "the newest one is older than two periods: "+stats["newest"])
	}
	if stats["error"] != "" {
		p.Reasons = append(p.Reasons, stats["error"])
	}
	return p, len(p.Reasons) > 0
}

// UsageProblems shows the volumes that are nearly full, whose mounts are ill, or that a plugin reports as
// abnormal, at most a number of them. more says that there are others.
func UsageProblems(all *storage.VolumeUsageResponse, most int) (problems []Problem, more bool) {
	found := map[storage.UsageKey][]string{}
	add := func(namespace, volume string, reasons ...string) {
		key := storage.UsageKey{Namespace: namespace, VolumeID: volume}
		if len(reasons) > 0 {
			found[key] = append(found[key], reasons...)
		}
	}
	for _, u := range all.Usages {
		add(u.Namespace, u.VolumeID, illUses(u)...)
	}
	for _, h := range all.Health {
		if h.Condition != nil && h.Condition.Abnormal {
			add(h.Namespace, h.VolumeID, "its plugin reports it as abnormal"+reason(h.Condition.Message))
		}
	}

	keys := slices.SortedFunc(maps.Keys(found), storage.CompareUsageKeys)
	more = len(keys) > most
	for _, key := range keys[:min(len(keys), most)] {
		problems = append(problems, Problem{
			Kind:    KindVolume,
			Name:    key.VolumeID,
			Link:    To(VolumePath, key.Namespace, key.VolumeID),
			Reasons: found[key],
			Command: structs.CommandLine(key.Namespace, "volume why", key.VolumeID),
		})
	}
	return problems, more
}

// illUses are the reasons for which the use of a volume on a node is a problem.
func illUses(u *storage.VolumeUsage) (reasons []string) {
	on := " on node " + show.ShortID(u.NodeID)
	shown := usage(u)
	if shown.Tone == Busy || shown.Tone == Bad {
		reasons = append(reasons, shown.Text+on)
	}
	for _, m := range u.Mounts {
		if m.Ill() {
			reasons = append(reasons, "a mount is "+m.State+on+reason(m.Reason))
		}
	}
	if u.Condition != nil && u.Condition.Abnormal {
		reasons = append(reasons, "the plugin reports it as abnormal"+on+reason(u.Condition.Message))
	}
	return reasons
}
