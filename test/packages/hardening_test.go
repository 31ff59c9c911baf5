package packages

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"berth/client/membership"
	"berth/test/kit"
)

// open are the checks of `systemd-analyze security` that the unit of servers does not pass, with the reason
// of each. It passes all others.
var open = map[string]string{
	"RootDirectoryOrRootImage":              "the agent reads certificates and runs programs of the machine",
	"PrivateMounts":                         "ProtectSystem gives it mounts of its own",
	"RestrictAddressFamilies_AF_NETLINK":    "the agent reads the addresses of the machine",
	"RestrictAddressFamilies_AF_UNIX":       "the operator socket",
	"RestrictAddressFamilies_AF_INET_INET6": "RPC, gossip and the HTTP API",
	"ProcSubset":                            "metrics have the memory and the load of the machine",
	"PrivateNetwork":                        "RPC, gossip and the HTTP API",
	"PrivateUsers":                          "audit and peer credentials have the users of the machine",
	"DeviceAllow":                           "ProtectClock itself allows a device, for reading",
	"IPAddressDeny":                         "the addresses of a cluster are those of its operator",
}

// TestServerUnit_PassesTheChecksOfSystemd but for those that its work needs.
func TestServerUnit_PassesTheChecksOfSystemd(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		kit.SkipLacking(t, "systemd-analyze")
	}
	report := output(t, "systemd-analyze", "security", "--offline=true", "--json=short", "--no-pager",
		"../../packaging/systemd/berth-server.service")
	var checks []struct {
		Check       string  `json:"json_field"`
		Description string  `json:"description"`
		Exposure    *string `json:"exposure"` // nil: passed
	}
	kit.Must(t, json.Unmarshal([]byte(report), &checks))
	if len(checks) < 50 {
		t.Fatalf("systemd-analyze makes %d checks:\n%s", len(checks), report)
	}
	for _, c := range checks {
		_, accepted := open[c.Check]
		switch {
		case c.Exposure != nil && !accepted:
			t.Errorf("%s: %s: harden the unit again", c.Check, c.Description)
		case c.Exposure == nil && accepted:
			t.Errorf("%s passes: take it out of the list", c.Check)
		}
	}
}

// property is a property of a unit.
type property struct{ name, value, reason string }

var nodeProperties = []property{
	{"Type", "notify", "a start ends when the API answers"},
	{"Restart", "always", "an agent that ends starts again, also after a signal that systemd calls clean"},
	{"RestartPreventExitStatus", "0 78", "a server that has left, and a configuration that is not valid, stay so"},
	{"StartLimitIntervalUSec", "0", "an agent that ends starts again for as long as it takes"},
	{"KillMode", "process", "tasks outlive their agent"},
	{"KillSignal", "15", "the agent drains its node and stops at SIGTERM"},
	{"SendSIGHUP", "no", "SIGHUP is a reload"},
	{"Delegate", "yes", "the agent makes cgroups for its tasks"},
	{"LimitNOFILE", "65536", "a server has a connection of each node"},
	{"TasksMax", "infinity", "tasks of jobs count as those of the unit"},
	{"OOMPolicy", "continue", "a task without memory does not end the agent"},
	{"KeyringMode", "private", "the keys of a login are not those of the agent"},
	{"PrivateTmp", "no", "a mount namespace of the agent would lose the mounts of volumes"},
	{"PrivateMounts", "no", "a mount namespace of the agent would lose the mounts of volumes"},
	{"ProtectSystem", "no", "a mount namespace of the agent would lose the mounts of volumes"},
	{"NoNewPrivileges", "no", "tasks inherit it, and sudo fails"},
}

var serverProperties = []property{
	{"Type", "notify", "a start ends when the API answers"},
	{"User", "berth", "the agent is not root"},
	{"Group", "berth", "the agent is not root"},
	{"Restart", "always", "an agent that ends starts again, also after a signal that systemd calls clean"},
	{"RestartPreventExitStatus", "0 78", "a server that has left, and a configuration that is not valid, stay so"},
	{"StartLimitIntervalUSec", "0", "an agent that ends starts again for as long as it takes"},
	{"KillMode", "mixed", "the agent ends the fence agents that it has started"},
	{"LimitNOFILE", "65536", "a server has a connection of each node"},
	{"OOMPolicy", "continue", "a fence agent without memory does not end the server"},
	{"StateDirectoryMode", "0700", "the state has secrets"},
	{"RuntimeDirectoryMode", "0700", "the operator socket gives all rights"},
	{"UMask", "0077", "files of the agent are its own"},
	{"SystemCallErrorNumber", "1", "a program with a forbidden call gets an error, and does not crash"},
}

// dropped are the capabilities that no task of a storage cluster needs.
const dropped = "cap_sys_boot cap_sys_pacct cap_mac_admin cap_mac_override cap_audit_control cap_audit_read " +
	"cap_syslog cap_wake_alarm cap_block_suspend"

// checkUnits checks the units as systemd reads them.
func (m *machine) checkUnits() {
	m.t.Helper()
	m.checkProperties("berth", nodeProperties)
	m.checkProperties("berth-server", serverProperties)
	kept := strings.Fields(m.must("systemctl show -P CapabilityBoundingSet berth"))
	if len(kept) < 20 {
		m.t.Errorf("the node agent has the capabilities %q", kept)
	}
	for _, c := range kept {
		if strings.Contains(dropped+" ", c+" ") {
			m.t.Errorf("the node agent and its tasks have the capability %s", c)
		}
	}

	shown := strings.TrimSpace(m.must("systemctl show -P TimeoutStopUSec berth"))
	timeout, err := time.ParseDuration(strings.NewReplacer("min", "m", " ", "").Replace(shown))
	kit.Must(m.t, err)
	if least := membership.DefaultLeaveDeadline + membership.StopPatience; timeout <= least {
		m.t.Errorf("systemd kills an agent that drains after %s, and a drain may take %s", timeout, least)
	}
}

func (m *machine) checkProperties(unit string, all []property) {
	m.t.Helper()
	for _, p := range all {
		got := strings.TrimSpace(m.must("systemctl show -P " + p.name + " " + unit))
		if got != p.value {
			m.t.Errorf("%s.service has %s=%s, want %s: %s", unit, p.name, got, p.value, p.reason)
		}
	}
}
