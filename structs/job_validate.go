package structs

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
)

var jobTypes = []string{JobService, JobBatch, JobSystem, JobSysBatch}

// Validate checks a canonicalized job and returns every fault, each with its path. It checks only the
// specification: the scheduler decides whether volumes and plugins exist.
func (j *Job) Validate() error {
	return j.Faults().Err()
}

// Faults returns the faults of Validate.
func (j *Job) Faults() *Faults {
	f := newFieldErrors("")
	f.checkName("job: id", j.ownID())
	f.require(len(j.ID) <= MaxName, "job: id must have at most %d bytes", MaxName)
	f = f.at("job %q", j.ID)
	f.checkName("region", j.Region)
	f.checkNamespace(j.Namespace)
	f.checkString("name", j.Name, MaxName)
	f.checkOneOf("type", j.Type, jobTypes)
	f.require(j.Priority >= JobMinPriority && j.Priority <= JobMaxPriority,
		"priority %d must be between %d and %d", j.Priority, JobMinPriority, JobMaxPriority)
	f.require(nodePoolForm().MatchString(j.NodePool),
		"node_pool %q must be 1 to 128 letters, digits, dashes and underscores", j.NodePool)
	for _, dc := range firstOf(f, "datacenters", j.Datacenters, MaxListed) {
		f.checkName("datacenters: name", dc)
	}

	f.checkMeta("meta", j.Meta)
	f.checkConstraints(j.Constraints)
	f.checkAffinities(j, j.Affinities)
	f.checkSpreads(j, j.Spreads)
	j.validateUpdate(f.at("update"))
	if j.Periodic != nil {
		j.Periodic.validate(f.at("periodic"), j)
	}

	if j.ParameterizedJob != nil {
		j.ParameterizedJob.validate(f.at("parameterized"), j)
	}

	f.require(len(j.TaskGroups) > 0, "at least one group is required")
	seen := map[string]bool{}
	total := 0
	for i, g := range firstOf(f, "groups", j.TaskGroups, MaxGroups) {
		if g == nil {
			f.addf("group %d is null", i)
			continue
		}

		f.require(!seen[g.Name], "group %q is there twice", g.Name)
		seen[g.Name] = true
		g.validate(f.at("group %q", g.Name), j)
		total += min(max(g.Count, 0), MaxJobCount+1)
	}

	f.require(total <= MaxJobCount, "the counts of its groups are more than %d in sum", MaxJobCount)
	return f.found
}

// ownID returns the ID without the ID of the parent, with which the ID of a child begins.
func (j *Job) ownID() string {
	if j.ParentID == "" {
		return j.ID
	}
	return strings.TrimPrefix(j.ID, j.ParentID+"/")
}

// checkMeta checks keys that become part of the environment of tasks.
func (f fieldErrors) checkMeta(name string, m map[string]string) {
	f.checkBytes(name, PairBytes(m), MaxPairsBytes)
	if f.atMost("entries of "+name, len(m), MaxPairs) < len(m) {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		f.require(environKeyForm().MatchString(k), "%s: key %q must not be empty nor hold = or NUL", name, k)
		f.require(!strings.ContainsRune(m[k], 0),
			"%s: the value of %q must not hold NUL", name, k)
	}
}

func (g *TaskGroup) validate(f fieldErrors, j *Job) {
	f.checkName("name", g.Name)
	f.require(g.Count >= 0, "count %d must not be negative", g.Count)
	f.require(g.Count <= MaxGroupCount, "count %d must be at most %d", g.Count, MaxGroupCount)
	f.require(!j.PerNode() || g.Count <= 1,
		"count %d: a %s job places one on every feasible node; leave count out", g.Count, j.Type)
	f.checkConstraints(g.Constraints)
	f.checkAffinities(j, g.Affinities)
	f.checkSpreads(j, g.Spreads)
	f.checkMeta("meta", g.Meta)
	g.RestartPolicy.validate(f.at("restart"))
	if g.ReschedulePolicy != nil {
		f.require(!j.PerNode(), "reschedule: a %s job has none: its instances belong to their nodes", j.Type)
		g.ReschedulePolicy.validate(f.at("reschedule"))
	}

	g.validateUpdate(f, j)
	g.validateScaling(f, j)
	if d := g.EphemeralDisk; d != nil {
		f.checkRange("ephemeral_disk: size", d.SizeMB, intRange{0, MaxDiskMB, " MiB"})
	}

	if g.ShutdownDelay != nil {
		f.checkDuration("shutdown_delay", *g.ShutdownDelay, MaxTaskWait)
	}

	g.validateRunDuration(f, j)
	g.validateNetworks(f)
	g.validateVolumes(f, j)
	g.validateTasks(f, j)
	g.validateServices(f)
	g.Ask().validateSum(f)
}

func (g *TaskGroup) validateRunDuration(f fieldErrors, j *Job) {
	if g.MaxRunDuration == nil {
		return
	}
	f.require(j.Type == JobBatch || j.Type == JobSysBatch,
		"max_run_duration is for batch and sysbatch jobs: the tasks of a %s job have no end; leave it out",
		j.Type)
	f.require(*g.MaxRunDuration > 0, "max_run_duration %s must be more than 0", *g.MaxRunDuration)
	f.checkDuration("max_run_duration", max(0, *g.MaxRunDuration), MaxInterval)
}

func (g *TaskGroup) validateVolumes(f fieldErrors, j *Job) {
	if f.atMost("volumes", len(g.Volumes), MaxVolumes) < len(g.Volumes) {
		return
	}

	aliases := map[string]string{} // type and source -> alias
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := g.Volumes[alias]
		if v == nil {
			f.addf("volume %q is null", alias)
			continue
		}

		f.checkName("volume: name", alias)
		v.validate(f.at("volume %q", alias), j, g)
		if v.Type == VolumeTypeHost {
			g.checkHostAliases(f, alias, v)
			continue
		}

		volume := v.Type + "\x00" + v.Source
		f.require(aliases[volume] == "",
			"volume %q: source %q is that of volume %q too; mount one volume in several places instead", alias,
			v.Source, aliases[volume])
		aliases[volume] = alias
	}
}

// checkHostAliases rejects two requests for one host volume of which one excludes the other. Others share it,
// for example one that writes and one that only reads.
func (g *TaskGroup) checkHostAliases(f fieldErrors, alias string, v *VolumeRequest) {
	for _, former := range slices.Sorted(maps.Keys(g.Volumes)) {
		if former == alias {
			return
		}
		o := g.Volumes[former]
		f.require(o == nil || o.Type != VolumeTypeHost || !v.Excludes(o),
			"volume %q: host volume %q is that of volume %q too, and its access_mode allows no other writer; "+
				"set read_only, or mount one volume in several places", alias, v.Source, former)
	}
}

func (g *TaskGroup) validateTasks(f fieldErrors, j *Job) {
	f.require(len(g.Tasks) > 0 || g.HasGateway(), "at least one task is required")
	seen := map[string]bool{}
	kinds := map[TaskKind]bool{}
	leaders := 0
	serves := map[string]string{} // plugin and half -> task
	for i, t := range firstOf(f, "tasks", g.Tasks, MaxTasks) {
		if t == nil {
			f.addf("task %d is null", i)
			continue
		}

		f.require(!seen[t.Name], "task %q is there twice", t.Name)
		seen[t.Name] = true
		if t.Leader {
			leaders++
		}

		t.validate(f.at("task %q", t.Name), g)
		g.validateKind(f.at("task %q", t.Name), t, kinds)
		f.at("task %q", t.Name).checkAffinities(j, t.Affinities)
		if t.CSIPluginConfig == nil {
			continue
		}

		for _, kind := range t.CSIPluginConfig.Kinds() {
			key := t.CSIPluginConfig.ID + "\x00" + string(kind)
			f.require(serves[key] == "",
				"tasks %q and %q both run the %s half of plugin %q; one group may run it once",
				serves[key], t.Name, kind, t.CSIPluginConfig.ID)
			serves[key] = t.Name
		}
	}

	f.require(leaders <= 1, "%d tasks are leader; at most one may be", leaders)
	g.validateLifecycles(f)
}

func (p *RestartPolicy) validate(f fieldErrors) {
	if p == nil {
		return
	}
	f.require(p.Mode == RestartModeFail || p.Mode == RestartModeDelay,
		"mode %q must be one of fail, delay", p.Mode)
	f.checkRange("attempts", p.Attempts, intRange{0, MaxRestarts, ""})
	f.checkDuration("delay", p.Delay, MaxInterval)
	f.require(p.Interval > 0, "interval must be above zero")
	f.checkDuration("interval", p.Interval, MaxInterval)
	f.require(p.Attempts <= 0 || p.Delay <= 0 ||
		int64(p.Interval/p.Delay) >= int64(p.Attempts),
		"%d attempts, %s apart, do not fit into an interval of %s", p.Attempts, p.Delay, p.Interval)
}

func (p *ReschedulePolicy) validate(f fieldErrors) {
	f.checkRange("attempts", p.Attempts, intRange{0, MaxReschedules, ""})
	f.checkDuration("interval", p.Interval, MaxInterval)
	f.checkDuration("delay", p.Delay, MaxInterval)
	f.checkDuration("max_delay", p.MaxDelay, MaxInterval)
	if p.Attempts == 0 && !p.Unlimited {
		return // never rescheduled: nothing else matters
	}
	functions := []string{RescheduleConstant, RescheduleExponential, RescheduleFibonacci}
	f.checkOneOf("delay_function", p.DelayFunction, functions)
	f.require(p.Delay > 0, "delay must be above zero")
	f.require(p.Unlimited || p.Interval > 0, "interval must be above zero")
	f.require(!p.DelaysGrow() || p.MaxDelay >= p.Delay,
		"max_delay %s must not be below delay %s", p.MaxDelay, p.Delay)
}

func (v *VolumeRequest) validate(f fieldErrors, j *Job, g *TaskGroup) {
	f.checkString("Name", v.Name, MaxName)
	f.checkOneOf("type", v.Type, []string{VolumeTypeCSI, VolumeTypeHost})
	f.checkName("source", v.Source)
	if v.Type == VolumeTypeHost {
		v.validateHost(f)
		return
	}

	f.checkModes(v.AccessMode, v.AttachmentMode)
	f.require(!v.AccessMode.ReaderOnly() || v.ReadOnly,
		"access_mode %s needs read_only = true", v.AccessMode)
	f.require(v.AttachmentMode != CSIBlockDevice || v.MountOptions == nil,
		"mount_options is not allowed with attachment_mode block-device")
	f.checkMountOptions(v.MountOptions)
	f.require(!v.PerAlloc || !j.PerNode(),
		"per_alloc is not for %s jobs: their allocations have no index of their own", j.Type)
	exclusive := v.AccessMode.SingleNode() ||
		v.AccessMode == CSIMultiNodeSingleWriter && !v.ReadOnly
	f.require(!exclusive || v.PerAlloc || g.Count <= 1,
		"access_mode %s allows one allocation, but count is %d; "+
			"use per_alloc, another access mode or count = 1", v.AccessMode, g.Count)
}

// requiredOr describes an invalid value: "is required" if it is empty, else that it is unknown.
func requiredOr[T ~string](value T) ownText {
	if value == "" {
		return "is required"
	}
	return ownText(fmt.Sprintf("%.40q is unknown", string(value)))
}

func (t *Task) validate(f fieldErrors, g *TaskGroup) {
	f.checkName("name", t.Name)
	f.require(t.Name != "alloc",
		"name %q is taken: so is called the directory that the tasks of a group share", t.Name)
	f.require(t.Driver != "", "driver is required")
	f.checkString("driver", t.Driver, MaxName)
	f.checkString("user", t.User, MaxName)
	f.checkTaskConstraints(t.Constraints)
	f.checkMeta("meta", t.Meta)
	f.checkMeta("env", t.Env)
	f.require(NestsWithin(t.Config, MaxConfigNesting), "config nests maps and lists more than %d levels deep",
		MaxConfigNesting)
	t.RestartPolicy.validate(f.at("restart"))
	f.checkDuration("kill_timeout", t.KillTimeout, MaxTaskWait)
	f.checkDuration("shutdown_delay", t.ShutdownDelay, MaxTaskWait)
	f.checkSignal("kill_signal", t.KillSignal)
	if r := t.Resources; r != nil {
		r.validate(f.at("resources"))
	}

	if l := t.LogConfig; l != nil {
		f.checkRange("logs: max_files", l.MaxFiles, intRange{1, MaxLogFiles, ""})
		f.checkRange("logs: max_file_size", l.MaxFileSizeMB, intRange{1, MaxLogFileSizeMB, " MiB"})
	}

	if c := t.CSIPluginConfig; c != nil {
		c.validate(f.at("csi_plugin"))
	}

	if l := t.Lifecycle; l != nil {
		l.validate(f.at("lifecycle"), t)
	}

	f.require(len(t.VolumeMounts) == 0 || t.Driver != driverRawExec,
		"volume_mount: a task of the driver %s has no file system of its own to mount volumes into; use exec",
		driverRawExec)
	if d := t.DispatchPayload; d != nil {
		d.validate(f.at("dispatch_payload"))
	}

	t.validateMounts(f, g)
	t.validateArtifacts(f)
	t.validateTemplates(f)
}

// checkSignal checks the name of a signal. "" is the default, and the node knows the value of a placeholder.
func (f fieldErrors) checkSignal(name, signal string) {
	f.checkBytes(name, len(signal), MaxName)
	f.require(signal == "" ||
		strings.Contains(signal, "${") ||
		IsSignal(signal),
		"%s %q is not a signal such as SIGTERM", name, signal)
}

// NestsWithin reports whether a value of a task's config nests maps and lists at most a number of levels
// deep. A value has to stay far from the depth limit of a decoder: a log entry, an answer and a snapshot hold
// it at different depths, and a server that cannot read an entry stops.
func NestsWithin(v any, levels int) bool {
	var parts iter.Seq[any]
	switch v := v.(type) {
	case map[string]any:
		parts = maps.Values(v)
	case []any:
		parts = slices.Values(v)
	default:
		return true
	}

	if levels == 0 {
		return false
	}

	for part := range parts {
		if !NestsWithin(part, levels-1) {
			return false
		}
	}

	return true
}

// driverRawExec is the driver whose tasks see the host's own paths.
const driverRawExec = "raw_exec"

func (r *Resources) validate(f fieldErrors) {
	f.require(r.Cores == 0, "cores is not supported by berth yet; use cpu")
	if r.Cores == 0 || r.CPU != 0 { // with cores there is no default of cpu
		f.checkRange("cpu", r.CPU, intRange{1, MaxCPU, " MHz"})
	}

	f.checkRange("memory", r.MemoryMB, intRange{1, MaxMemoryMB, " MiB"})
	f.require(r.MemoryMaxMB <= MaxMemoryMB, "memory_max %d must be at most %d MiB", r.MemoryMaxMB, MaxMemoryMB)
	f.require(r.MemoryMaxMB >= 0,
		"memory_max %d is not a size: a task of berth always has a limit; give a number of MiB", r.MemoryMaxMB)
	f.require(r.MemoryMaxMB <= 0 || r.MemoryMaxMB >= r.MemoryMB,
		"memory_max %d must not be below memory %d", r.MemoryMaxMB, r.MemoryMB)
	for i, d := range firstOf(f, "devices", r.Devices, MaxDeviceDemands) {
		if d == nil {
			f.addf("device %d is null", i+1)
			continue
		}

		d.validate(f.at("device %d", i+1))
	}
}

// validateSum checks the resources of one allocation in all.
func (r Resources) validateSum(f fieldErrors) {
	f.require(r.CPU <= MaxCPU, "its tasks request more than %d MHz of cpu in sum", MaxCPU)
	f.require(r.MemoryMB <= MaxMemoryMB, "its tasks request more than %d MiB of memory in sum", MaxMemoryMB)
	f.require(r.DiskMB <= MaxDiskMB, "it requests more than %d MiB of disk in sum", MaxDiskMB)
}

func (c *CSIPluginConfig) validate(f fieldErrors) {
	f.checkPluginID("id", c.ID)
	f.checkOneOf("type", c.Type,
		[]string{CSIPluginNode, CSIPluginController, CSIPluginMonolith})
	f.checkAbsolutePath("mount_dir", c.MountDir)
	f.checkAbsolutePath("stage_publish_base_dir", c.StagePublishBaseDir)
	f.require(len(c.StagePublishBaseDir) <= MaxPluginBaseDir,
		"stage_publish_base_dir is %d bytes long, at most %d are allowed: "+
			"a path for a plugin has at most 128", len(c.StagePublishBaseDir), MaxPluginBaseDir)
	mount := path.Clean(c.MountDir)
	stage := path.Clean(c.StagePublishBaseDir)
	f.require(stage != mount && !strings.HasPrefix(stage, mount+"/"),
		"stage_publish_base_dir %q must not be within mount_dir %q", stage, mount)
	f.require(!strings.HasPrefix(mount, stage+"/"),
		"mount_dir %q must not be within stage_publish_base_dir %q", mount, stage)
	f.require(c.HealthTimeout > 0, "health_timeout must be above zero")
	f.checkDuration("hang_timeout", c.HangTimeout, MaxTaskWait)
	f.checkString("former_provider", c.FormerProvider, MaxProvider)
	f.checkDuration("health_timeout", c.HealthTimeout, MaxTaskWait)
}

// checkAbsolutePath checks a directory inside a task that something is mounted on.
func (f fieldErrors) checkAbsolutePath(name, dir string) {
	f.checkText(name, dir)
	f.require(path.IsAbs(dir) && path.Clean(dir) != "/" &&
		!strings.ContainsRune(dir, 0),
		"%s %q must be an absolute path other than /", name, dir)
}

func (t *Task) validateMounts(f fieldErrors, g *TaskGroup) {
	modes := []string{PropagationPrivate, PropagationHostToTask, PropagationBothWays}
	seen := map[string]bool{}
	has := g.volumeNames()
	for i, m := range firstOf(f, "volume_mounts", t.VolumeMounts, MaxListed) {
		if m == nil {
			f.addf("volume_mount %d is null", i+1)
			continue
		}

		f := f.at("volume_mount %d", i+1)
		interpolated := strings.Contains(m.Volume, "${")
		f.require(interpolated || g.Volumes[m.Volume] != nil,
			"volume %q is no volume of the group; it has: %s", m.Volume, has)
		if !strings.Contains(m.PropagationMode, "${") {
			f.checkOneOf("propagation_mode", m.PropagationMode, modes)
		}

		f.checkDestination(m.Destination)
		clean := path.Clean("/" + m.Destination)
		f.require(!seen[clean], "destination %q is taken by another volume_mount of the task", m.Destination)
		seen[clean] = true
	}
}

// volumeNames lists the first of the group's volumes.
func (g *TaskGroup) volumeNames() ownText {
	if len(g.Volumes) == 0 {
		return "none"
	}
	names := slices.Sorted(maps.Keys(g.Volumes))
	for i, name := range names {
		names[i] = Cut(name, MaxQuoted)
	}
	if len(names) > MaxFaults {
		names = append(names[:MaxFaults], "…")
	}
	return ownText(strings.Join(names, ", "))
}

func (f fieldErrors) checkDestination(dir string) {
	f.checkText("destination", dir)
	switch {
	case len(dir) > MaxText:
	case dir == "":
		f.addf("destination is required")
	case strings.Contains(dir, "${"): // only the node knows the value
	case slices.Contains(strings.Split(dir, "/"), "..") ||
		path.Clean("/"+dir) == "/":
		f.addf("destination %q must be a path inside the task without \"..\", other than /", dir)
	}
}
