package rights

import (
	"cmp"
	"slices"

	"berth/acl"
	"berth/endpoints/injection"
	"berth/structs"
	"berth/structs/storage"
)

// mayRun reports whether a caller may submit a job, nil for one that the method rejects. The groups and tasks
// of the job may be nil. A job that keeps the counts of its stored version gets the larger ones.
func mayRun(a *acl.ACL, requestNamespace string, job, kept *structs.Job) bool {
	if job == nil {
		return a.Namespace(requestNamespace, acl.SubmitJob)
	}

	ns := cmp.Or(job.Namespace, requestNamespace)
	if !a.Namespace(ns, acl.SubmitJob) {
		return false
	}

	left := structs.MaxJobCount
	for _, g := range storage.JobWithSources(job).TaskGroups {
		if g == nil {
			continue
		}
		if !mayRunGroup(a, ns, g) {
			return false
		}

		count := min(countOf(g, kept), left) // the method rejects a job with more
		left -= count
		if !mayMountEach(a, ns, g, indexes{to: count}) {
			return false
		}
	}
	return true
}

// countOf returns the largest count with which a group may start.
func countOf(g *structs.TaskGroup, kept *structs.Job) int {
	count := max(g.Count, 1) // without a count it gets one
	if g.Scaling != nil && g.Scaling.Min != nil {
		count = max(count, int(min(*g.Scaling.Min, structs.MaxGroupCount)))
	}
	if kept != nil && kept.Group(g.Name) != nil {
		count = max(count, kept.Group(g.Name).Count)
	}
	return min(count, structs.MaxGroupCount)
}

// indexes are the indexes of some allocations of a group, without to.
type indexes struct{ from, to int }

// mayMountEach reports whether a group may have its per_alloc volumes of some indexes. Each is a volume of
// its own, about which a rule of its own may decide.
func mayMountEach(a *acl.ACL, ns string, g *structs.TaskGroup, of indexes) bool {
	for _, v := range g.Volumes {
		if v == nil || !v.PerAlloc || v.Type == structs.VolumeTypeHost {
			continue
		}
		for i := of.from; i < of.to; i++ {
			if !mayHave(a, ns, v, structs.PerAllocID(v.Source, i)) {
				return false
			}
		}
	}
	return true
}

func mayRunGroup(a *acl.ACL, ns string, g *structs.TaskGroup) bool {
	for _, v := range g.Volumes {
		if v != nil && !mayMount(a, ns, v) {
			return false
		}
	}
	for _, t := range g.Tasks {
		if t != nil && !mayRunTask(a, ns, t) {
			return false
		}
	}

	// The servers add the tasks of proxies after this.
	for _, s := range g.Services {
		t := injection.SidecarTask(g, s)
		if t != nil && !mayRunTask(a, ns, t) {
			return false
		}
	}
	return true
}

// mayMount reports whether the group of a job may have a volume. For a volume of per_alloc see mayMountEach.
func mayMount(a *acl.ACL, ns string, v *structs.VolumeRequest) bool {
	switch {
	case v.Type == structs.VolumeTypeHost && v.ReadOnly:
		return a.HostVolume(v.Source, acl.MountReadOnly)
	case v.Type == structs.VolumeTypeHost:
		return a.HostVolume(v.Source, acl.MountReadWrite)
	case v.PerAlloc:
		return true
	}
	return mayHave(a, ns, v, v.VolumeID(0, ""))
}

// mayHave reports whether a job may claim a volume, and create it if its request names a class. An inline
// volume has a volume context of the job's choice, as one that a person registers.
func mayHave(a *acl.ACL, ns string, v *structs.VolumeRequest, id string) bool {
	creates := v.Class != "" || v.IsInline()
	return a.Volume(ns, id, acl.VolumeClaim) && (!creates || a.Volume(ns, id, acl.VolumeWrite))
}

func mayRunTask(a *acl.ACL, ns string, t *structs.Task) bool {
	for _, right := range privilegesOf(t) {
		if !a.Namespace(ns, right) {
			return false
		}
	}
	return true
}

// privilegesOf returns the rights that the submission of a task needs beside submit-job. A task that needs
// any of them has rights over its host, and so has each command in it.
func privilegesOf(t *structs.Task) []acl.Capability {
	var rights []acl.Capability
	if t.CSIPluginConfig != nil {
		rights = append(rights, acl.CSIRegisterPlugin) // its driver gives it the devices and mounts of the host
	}
	if !isSandboxed(t.Driver) {
		rights = append(rights, acl.SubmitRawExec)
	}
	if asksForHost(t) {
		rights = append(rights, acl.SubmitPrivileged)
	}
	return rights
}

// sandboxes are the drivers that keep a task in a sandbox unless its configuration asks for more. Of the
// drivers of plugins nobody knows which fields of theirs open it.
var sandboxes = []string{"exec", "docker", "java", "connect"}

// isSandboxed reports whether a driver keeps its tasks in a sandbox. A task without a driver is rejected
// later.
func isSandboxed(driver string) bool { return driver == "" || slices.Contains(sandboxes, driver) }

// hostFields are the fields of the configuration of a container that give it rights over its host, or take
// away what keeps it from them, whatever they hold. A runtime may be one without a sandbox, and the kernel
// has some settings of sysctl once for all containers.
var hostFields = []string{
	"devices", "cap_add", "security_opt", "mount", "mounts", "volumes", "runtime", "sysctl",
}

// ownLimits are the limits that bound a container alone. The others, such as rtprio, take time from the rest
// of the node.
var ownLimits = []string{
	"as", "core", "cpu", "data", "fsize", "locks", "memlock", "nofile", "nproc", "rss", "stack",
}

// ownLogs are the drivers of logs that keep them at the node. With others the daemon calls an address of the
// job's choice, with the rights and the credentials of the daemon.
var ownLogs = []string{"", "json-file", "local", "none"}

// hostModes are the fields that name a namespace to join.
var hostModes = []string{"network_mode", "pid_mode", "ipc_mode", "uts_mode", "userns_mode", "cgroupns"}

// ownModes are the values of such fields with which a container joins neither the host nor another container.
var ownModes = []string{"", "bridge", "none", "private", "shareable"}

// asksForHost reports whether a task asks for more than its sandbox gives. A value with a placeholder counts:
// it is not known before the task starts.
func asksForHost(t *structs.Task) bool {
	privileged, ok := t.Config["privileged"]
	if ok && privileged != false {
		return true
	}

	for _, field := range hostModes {
		if !isOwnMode(t.Config[field]) {
			return true
		}
	}
	return slices.ContainsFunc(hostFields, func(field string) bool { return !isEmpty(t.Config[field]) }) ||
		raisesLimits(t.Config["ulimit"]) || sendsLogs(t.Config["logging"])
}

// raisesLimits reports whether a field has limits that are not the container's own.
func raisesLimits(field any) bool {
	limits, ok := blocksOf(field)
	for _, b := range limits {
		for name := range b {
			ok = ok && slices.Contains(ownLimits, name)
		}
	}
	return !ok
}

// sendsLogs reports whether a field names a driver of logs that sends them away.
func sendsLogs(field any) bool {
	blocks, ok := blocksOf(field)
	for _, b := range blocks {
		for _, name := range []string{"type", "driver"} {
			text, isText := b[name].(string)
			ok = ok && (b[name] == nil || isText && slices.Contains(ownLogs, text))
		}
	}
	return !ok
}

// blocksOf returns the blocks of a field, in any of their forms. ok is false for a field of another form.
func blocksOf(field any) (blocks []map[string]any, ok bool) {
	switch f := field.(type) {
	case nil:
		return nil, true
	case map[string]any:
		return []map[string]any{f}, true
	case []map[string]any:
		return f, true
	case []any:
		for _, one := range f {
			b, isBlock := one.(map[string]any)
			if !isBlock {
				return nil, false
			}
			blocks = append(blocks, b)
		}
		return blocks, true
	}
	return nil, false
}

func isOwnMode(mode any) bool {
	text, ok := mode.(string)
	return mode == nil || ok && slices.Contains(ownModes, text)
}

// isEmpty reports whether a field of a driver's configuration has nothing.
func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
