package hostconfig

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"

	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/structs"
)

// defaultCapabilities are the capabilities that the daemon gives a container.
var defaultCapabilities = []string{
	"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service",
	"net_raw",
	"setfcap", "setgid", "setpcap", "setuid", "sys_chroot",
}

// CheckPrivileges rejects a task that asks for more than this node allows. A task that runs a CSI plugin is
// privileged, so nothing is kept from it.
func CheckPrivileges(c taskconfig.Settings, cfg *driver.TaskConfig, want *taskconfig.Task) error {
	if cfg.Privileged {
		return nil
	}

	var faults []error
	privileged := func(asked bool, field string) {
		if asked && !c.AllowPrivileged {
			faults = append(faults, fmt.Errorf("config.%s: this node gives jobs no privileges over the host "+
				"(allow_privileged in the client's drivers { docker { } })", field))
		}
	}

	privileged(want.Privileged, "privileged")
	other, joins := strings.CutPrefix(want.NetworkMode, "container:")
	// The name of a task's container ends with its allocation: one of the same allocation is no risk.
	allocID, _, _ := strings.Cut(cfg.ID, "/")
	privileged(joins && !strings.HasSuffix(other, "-"+allocID), "network_mode")
	privileged(want.PIDMode == "host", "pid_mode")
	privileged(want.IPCMode == "host", "ipc_mode")
	privileged(want.UTSMode == "host", "uts_mode")
	privileged(want.UsernsMode == "host", "userns_mode")
	privileged(len(want.Devices) > 0, "devices")
	privileged(slices.ContainsFunc(want.SecurityOpt, mayLoosen), "security_opt")
	for _, name := range want.CapAdd {
		if !want.Privileged && !allows(c, name) {
			faults = append(faults, fmt.Errorf("config.cap_add: this node does not allow %q "+
				"(allow_caps in the client's drivers { docker { } })", name))
		}
	}

	if l := want.Logging; l != nil && !slices.Contains(c.AllowLogging, l.Driver) {
		faults = append(faults, fmt.Errorf("config.logging: %q: this node allows %s "+
			"(allow_logging in the client's drivers { docker { } })",
			structs.Cut(l.Driver, structs.MaxQuoted), strings.Join(c.AllowLogging, ", ")))
	}

	faults = append(faults, checkMounts(c.Volumes, want)...)
	most := c.PIDsLimit
	if most > 0 && want.PIDsLimit > int64(most) {
		faults = append(faults, fmt.Errorf("config.pids_limit: this node allows at most %d", most))
	}

	if len(faults) == 0 {
		return nil
	}

	return structs.Deniedf("%w", structs.InvalidAll(faults))
}

// strictOptions are the security options that take no protection away. A profile of the job may: it can allow
// every system call, or be one that the operator has loaded for other programs.
var strictOptions = []string{
	"apparmor=docker-default", "no-new-privileges", "no-new-privileges=true", "seccomp=builtin",
}

func mayLoosen(option string) bool {
	return !slices.Contains(strictOptions, strings.Replace(option, ":", "=", 1))
}

func allows(c taskconfig.Settings, name string) bool {
	return slices.Contains(c.AllowCaps, name) || slices.Contains(c.AllowCaps, taskconfig.AllCapabilities)
}

// Confine sets the capabilities of a container without privileges: the daemon's default ones that the node
// allows, with the job's additions, without the ones that the job drops.
func Confine(c taskconfig.Settings, h *container.HostConfig, want *taskconfig.Task) {
	h.CapDrop = []string{taskconfig.AllCapabilities}
	// CheckPrivileges has found that the node allows all.
	if slices.Contains(want.CapAdd, taskconfig.AllCapabilities) {
		h.CapAdd = []string{taskconfig.AllCapabilities}
		h.CapDrop = want.CapDrop
		return
	}

	if !slices.Contains(want.CapDrop, taskconfig.AllCapabilities) {
		for _, name := range defaultCapabilities {
			if allows(c, name) && !slices.Contains(want.CapDrop, name) {
				h.CapAdd = append(h.CapAdd, name)
			}
		}
	}

	for _, name := range want.CapAdd {
		if !slices.Contains(h.CapAdd, name) && !slices.Contains(want.CapDrop, name) {
			h.CapAdd = append(h.CapAdd, name)
		}
	}
}

// Grant gives a container every privilege that this machine has. The daemon's own way fails on a machine
// whose root lacks a capability: there the container gets the others, the host's devices, and no filters.
func Grant(h *container.HostConfig, missing []string) {
	if len(missing) == 0 {
		h.Privileged = true
		return
	}

	h.CapAdd = []string{taskconfig.AllCapabilities}
	h.CapDrop = missing
	h.SecurityOpt = append(h.SecurityOpt, "seccomp=unconfined", "apparmor=unconfined")
	h.DeviceCgroupRules = []string{"a *:* rwm"}
	h.Mounts = append(h.Mounts, Bind("/dev", "/dev", ""))
	// An empty list is none. Nil would be the daemon's usual paths.
	h.MaskedPaths = []string{}
	h.ReadonlyPaths = []string{}
}

// MissingCapabilities are the kernel's capabilities that no process of the agent can have. The daemon's are
// the same.
func MissingCapabilities() ([]string, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	last, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return nil, err
	}
	return missingIn(string(status), strings.TrimSpace(string(last)))
}

// missingIn reads the bounding set of a process.
func missingIn(status, last string) ([]string, error) {
	n, err := strconv.Atoi(last)
	if err != nil {
		return nil, fmt.Errorf("reading the capabilities of the kernel: %w", err)
	}

	for line := range strings.Lines(status) {
		set, ok := strings.CutPrefix(line, "CapBnd:")
		if !ok {
			continue
		}

		mask, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the capabilities of the agent: %w", err)
		}

		var missing []string
		// The list goes on after the last capability of an older kernel.
		for i, name := range taskconfig.Capabilities {
			if i <= n && mask&(1<<i) == 0 {
				missing = append(missing, name)
			}
		}

		return missing, nil
	}

	return nil, fmt.Errorf("reading the capabilities of the agent: there is no bounding set")
}
