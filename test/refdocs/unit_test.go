package refdocs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/client/membership"
)

// TestUnitFile_StopsTheAgentAlone holds what pages say of the unit file: a stop of it leaves the tasks, and
// systemd waits for the longest drain of a node that sets no deadline.
func TestUnitFile_StopsTheAgentAlone(t *testing.T) {
	lines := strings.Split(readFile(t, "../../packaging/systemd/berth.service"), "\n")
	for _, want := range []string{"KillMode=process", "KillSignal=SIGTERM", "RequiresMountsFor=/var/lib/berth"} {
		if !slices.Contains(lines, want) {
			t.Errorf("packaging/systemd/berth.service has no line %q", want)
		}
	}

	longest := membership.DefaultLeaveDeadline + membership.StopPatience
	var limits []time.Duration
	for _, line := range lines {
		value, is := strings.CutPrefix(line, "TimeoutStopSec=")
		if !is {
			continue
		}
		limit, err := time.ParseDuration(strings.TrimSuffix(value, "in"))
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, limit)
	}
	if len(limits) != 1 || limits[0] <= longest {
		t.Errorf("TimeoutStopSec of packaging/systemd/berth.service is %v; want one of more than %s", limits, longest)
	}
}

// TestServerUnitFile_HandsTheUUIDOver to where the server reads it. A machine without one starts.
func TestServerUnitFile_HandsTheUUIDOver(t *testing.T) {
	lines := strings.Split(readFile(t, "../../packaging/systemd/berth-server.service"), "\n")
	const want = "ExecStartPre=-+/usr/bin/install -m 0400 -o berth -g berth " +
		"/sys/class/dmi/id/product_uuid /run/berth/product_uuid"
	if !slices.Contains(lines, want) || !slices.Contains(lines, "RuntimeDirectory=berth") {
		t.Errorf("packaging/systemd/berth-server.service has no line %q, or no directory for it", want)
	}
}

// TestServerUnitFile_IsHardened holds each option of the unit of servers that takes a right from its agent.
// The test of the packages runs the unit.
func TestServerUnitFile_IsHardened(t *testing.T) {
	lines := strings.Split(readFile(t, "../../packaging/systemd/berth-server.service"), "\n")
	for _, want := range []string{
		"User=berth", "Group=berth", "UMask=0077", "Type=notify", "KillMode=mixed",
		"StateDirectoryMode=0700", "RuntimeDirectoryMode=0700", "ReadWritePaths=/etc/berth",
		"CapabilityBoundingSet=", "NoNewPrivileges=yes", "RestrictSUIDSGID=yes",
		"ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes", "PrivateDevices=yes",
		"ProtectHostname=yes", "ProtectClock=yes", "ProtectKernelTunables=yes", "ProtectKernelModules=yes",
		"ProtectKernelLogs=yes", "ProtectControlGroups=yes", "ProtectProc=invisible",
		"RestrictNamespaces=yes", "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
		"RestrictRealtime=yes", "LockPersonality=yes", "MemoryDenyWriteExecute=yes", "RemoveIPC=yes",
		"KeyringMode=private", "SystemCallArchitectures=native",
		"SystemCallFilter=@system-service", "SystemCallFilter=~@privileged @resources",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("packaging/systemd/berth-server.service has no line %q", want)
		}
	}
}
