package validate

import (
	"slices"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
	"berth/structs/validate/taskfiles"
)

// driverRawExec is the driver whose tasks see the host's own paths.
const driverRawExec = "raw_exec"

// checkTask checks a task by itself and against its group. Its driver checks its configuration on the node.
func checkTask(f field.Errors, t *structs.Task, g *structs.TaskGroup) {
	f.CheckName("name", t.Name)
	f.Require(t.Name != "alloc",
		"name %q is taken: so is called the directory that the tasks of a group share", t.Name)
	f.Require(t.Driver != "", "driver is required")
	f.CheckString("driver", t.Driver, structs.MaxName)
	f.CheckString("user", t.User, structs.MaxName)
	checkTaskConstraints(f, t.Constraints)
	f.CheckMeta("meta", t.Meta)
	f.CheckMeta("env", t.Env)
	f.Require(field.NestsWithin(t.Config, structs.MaxConfigNesting),
		"config nests maps and lists more than %d levels deep", structs.MaxConfigNesting)
	checkRestartPolicy(f.At("restart"), t.RestartPolicy)
	f.CheckDuration("kill_timeout", t.KillTimeout, structs.MaxTaskWait)
	f.CheckDuration("shutdown_delay", t.ShutdownDelay, structs.MaxTaskWait)
	checkSignal(f, "kill_signal", t.KillSignal)
	if r := t.Resources; r != nil {
		checkResources(f.At("resources"), r)
	}

	if l := t.LogConfig; l != nil {
		f.CheckRange("logs: max_files", l.MaxFiles, field.Between(1, structs.MaxLogFiles))
		f.CheckRange("logs: max_file_size", l.MaxFileSizeMB,
			field.Between(1, structs.MaxLogFileSizeMB).In(" MiB"))
	}

	if c := t.CSIPluginConfig; c != nil {
		f := f.At("csi_plugin")
		f.CheckPluginID("id", c.ID)
		checkCSIPlugin(f, c)
	}

	if l := t.Lifecycle; l != nil {
		checkLifecycle(f.At("lifecycle"), l, t)
	}

	if v := t.Vault; v != nil {
		checkVault(f.At("vault"), v)
	}

	checkConsul(f.At("consul"), t.Consul)
	f.Require(len(t.VolumeMounts) == 0 || t.Driver != driverRawExec,
		"volume_mount: a task of the driver %s has no file system of its own to mount volumes into; use exec",
		driverRawExec)
	if d := t.DispatchPayload; d != nil {
		checkDispatchPayload(f.At("dispatch_payload"), d)
	}

	checkMounts(f, t, g)
	taskfiles.CheckArtifacts(f, t)
	taskfiles.CheckTemplates(f, t)
	taskfiles.CheckIdentities(f, t)
	checkActions(f, t)
}

// checkSignal checks the name of a signal. "" is the default, and the node knows the value of a placeholder.
func checkSignal(f field.Errors, name, signal string) {
	f.CheckBytes(name, len(signal), structs.MaxName)
	f.Require(signal == "" ||
		strings.Contains(signal, "${") ||
		structs.IsSignal(signal),
		"%s %q is not a signal such as SIGTERM", name, signal)
}

func checkResources(f field.Errors, r *structs.Resources) {
	f.Require(r.Cores == 0, "cores is not supported by berth yet; use cpu")
	if r.Cores == 0 || r.CPU != 0 { // with cores there is no default of cpu
		f.CheckRange("cpu", r.CPU, field.Between(1, structs.MaxCPU).In(" MHz"))
	}

	f.CheckRange("memory", r.MemoryMB, field.Between(1, structs.MaxMemoryMB).In(" MiB"))
	f.Require(r.MemoryMaxMB <= structs.MaxMemoryMB, "memory_max %d must be at most %d MiB", r.MemoryMaxMB,
		structs.MaxMemoryMB)
	f.Require(r.MemoryMaxMB >= 0,
		"memory_max %d is not a size: a task of berth always has a limit; give a number of MiB",
		r.MemoryMaxMB)
	f.Require(r.MemoryMaxMB <= 0 || r.MemoryMaxMB >= r.MemoryMB,
		"memory_max %d must not be below memory %d", r.MemoryMaxMB, r.MemoryMB)
	for i, d := range field.FirstOf(f, "devices", r.Devices, structs.MaxDeviceDemands) {
		if d == nil {
			f.Addf("device %d is null", i+1)
			continue
		}

		checkDeviceDemand(f.At("device %d", i+1), d)
	}
}

// deviceTargets are the targets of a constraint or an affinity on devices, besides the attributes.
var deviceTargets = []string{"${device.vendor}", "${device.type}", "${device.model}", "${device.ids}"}

var deviceAttributeTarget = field.Pattern(`^\$\{device\.attr\.[^{}\s]+\}$`)

// checkDeviceDemand checks a request for devices. An empty part of the name would match no device group,
// because the groups of a node have none.
func checkDeviceDemand(f field.Errors, r *structs.RequestedDevice) {
	parts := strings.Split(r.Name, "/")
	f.Require(len(parts) <= 3 && !slices.Contains(parts, ""),
		"name %q must be type, vendor/type or vendor/type/name", r.Name)
	f.CheckText("name", r.Name)
	f.Require(r.Count >= 1, "count %d must be at least 1", r.Count)
	f.Require(r.Count <= structs.MaxDevices, "count %d must be at most %d", r.Count, structs.MaxDevices)
	for i, c := range field.FirstOf(f, "constraints", r.Constraints, structs.MaxConstraints) {
		checkDeviceConstraint(f.At("constraint %d", i+1), c)
	}

	for i, a := range field.FirstOf(f, "affinities", r.Affinities, structs.MaxConstraints) {
		f := f.At("affinity %d", i+1)
		if a == nil {
			f.Addf("it is null")
			continue
		}

		checkWeight(f, a)
		checkDeviceConstraint(f, a.Constraint())
	}
}

// checkDeviceConstraint checks a constraint on device groups: nothing but a group has values for its targets.
func checkDeviceConstraint(f field.Errors, c *structs.Constraint) {
	if c != nil && (c.Operand == structs.ConstraintDistinctHosts ||
		c.Operand == structs.ConstraintDistinctProperty) {
		f.Addf("operator %q is not for devices", c.Operand)
		return
	}

	checkConstraint(f, c)
	if c == nil {
		return
	}

	for _, target := range []string{c.LTarget, c.RTarget} {
		// A text without a placeholder is a value. CheckText has reported one that is too long.
		if len(target) > structs.MaxText || !strings.HasPrefix(target, "${") {
			continue
		}

		f.Require(slices.Contains(deviceTargets, target) || deviceAttributeTarget().MatchString(target),
			"%q must be %s or ${device.attr.NAME}", target, field.Text(strings.Join(deviceTargets, ", ")))
	}
}
