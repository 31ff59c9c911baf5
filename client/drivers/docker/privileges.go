package docker

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

// capabilities are the kernel's, in the order of their numbers.
var capabilities = []string{
	"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
	"linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
	"sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice",
	"sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap",
	"mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf",
	"checkpoint_restore",
}

// defaultCapabilities are the capabilities that the daemon gives a container.
var defaultCapabilities = []string{
	"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service", "net_raw",
	"setfcap", "setgid", "setpcap", "setuid", "sys_chroot",
}

// checkAllowed rejects a task that asks for more than this node allows. A task that runs a CSI plugin is
// privileged, so nothing is kept from it.
func (d *Driver) checkAllowed(cfg *driver.TaskConfig, want *taskconfig.Task) error {
	if cfg.Privileged {
		return nil
	}

	var faults []error
	privileged := func(asked bool, field string) {
		if asked && !d.cfg.AllowPrivileged {
			faults = append(faults, fmt.Errorf("config.%s: this node gives jobs no privileges over the host "+
				"(allow_privileged in the client's drivers { docker { } })", field))
		}
	}

	privileged(want.Privileged, "privileged")
	other, joins := strings.CutPrefix(want.NetworkMode, "container:")
	allocID, _ := splitID(cfg.ID)
	privileged(joins && !strings.HasSuffix(other, "-"+allocID), "network_mode")
	privileged(want.PIDMode == "host", "pid_mode")
	privileged(want.IPCMode == "host", "ipc_mode")
	privileged(want.UTSMode == "host", "uts_mode")
	privileged(want.UsernsMode == "host", "userns_mode")
	privileged(len(want.Devices) > 0, "devices")
	privileged(slices.ContainsFunc(want.SecurityOpt, mayLoosen), "security_opt")
	for _, c := range want.CapAdd {
		if !want.Privileged && !d.allowsCapability(c) {
			faults = append(faults, fmt.Errorf("config.cap_add: this node does not allow %q "+
				"(allow_caps in the client's drivers { docker { } })", c))
		}
	}

	if l := want.Logging; l != nil && !slices.Contains(d.cfg.AllowLogging, l.Driver) {
		faults = append(faults, fmt.Errorf("config.logging: %q: this node allows %s "+
			"(allow_logging in the client's drivers { docker { } })",
			structs.Cut(l.Driver, structs.MaxQuoted), strings.Join(d.cfg.AllowLogging, ", ")))
	}

	faults = append(faults, d.checkVolumes(want)...)
	most := d.cfg.PIDsLimit
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

func (d *Driver) allowsCapability(name string) bool {
	return slices.Contains(d.cfg.AllowCaps, name) || slices.Contains(d.cfg.AllowCaps, allCapabilities)
}

// confine sets the capabilities of a container without privileges: the daemon's default ones that the node
// allows, with the job's additions, without the ones that the job drops.
func (d *Driver) confine(h *container.HostConfig, want *taskconfig.Task) {
	h.CapDrop = []string{allCapabilities}
	if slices.Contains(want.CapAdd, allCapabilities) {
		h.CapAdd = []string{allCapabilities}
		h.CapDrop = want.CapDrop
		return
	}

	if !slices.Contains(want.CapDrop, allCapabilities) {
		for _, c := range defaultCapabilities {
			if d.allowsCapability(c) && !slices.Contains(want.CapDrop, c) {
				h.CapAdd = append(h.CapAdd, c)
			}
		}
	}

	for _, c := range want.CapAdd {
		if !slices.Contains(h.CapAdd, c) && !slices.Contains(want.CapDrop, c) {
			h.CapAdd = append(h.CapAdd, c)
		}
	}
}

// privilege gives a container every privilege that this machine has. The daemon's own way fails on a machine
// whose root lacks a capability: there the container gets the others, the host's devices, and no filters.
func privilege(h *container.HostConfig, missing []string) {
	if len(missing) == 0 {
		h.Privileged = true
		return
	}
	h.CapAdd = []string{allCapabilities}
	h.CapDrop = missing
	h.SecurityOpt = append(h.SecurityOpt, "seccomp=unconfined", "apparmor=unconfined")
	h.DeviceCgroupRules = []string{"a *:* rwm"}
	h.Mounts = append(h.Mounts, bind("/dev", "/dev", ""))
	h.MaskedPaths = []string{}
	h.ReadonlyPaths = []string{}
}

// missingCapabilities are the kernel's capabilities that no process of the agent can have. The daemon's are
// the same.
func missingCapabilities() ([]string, error) {
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
		for i, name := range capabilities {
			if i <= n && mask&(1<<i) == 0 {
				missing = append(missing, name)
			}
		}

		return missing, nil
	}

	return nil, fmt.Errorf("reading the capabilities of the agent: there is no bounding set")
}
