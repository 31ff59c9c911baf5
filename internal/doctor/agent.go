package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"berth/internal/agentproof"
	"berth/structs"
)

const noAgent = "no agent answers on the operator socket of this machine"

func checkAgent(_ context.Context, m *Machine) []Finding {
	switch a := m.Agent; {
	case a == nil:
		return one(Skip, noAgent, "start it: systemctl start "+m.unit()+", or berth agent")
	case a.Unhealthy != nil:
		return one(Fail, fmt.Sprintf("the agent is not healthy: %v", a.Unhealthy),
			"berth server members shows the servers, journalctl -u 'berth*' the log")
	case a.NodeFault != nil:
		return one(Warn, fmt.Sprintf("the servers do not tell the state of the node: %v", a.NodeFault),
			"set BERTH_TOKEN if the cluster needs a token, and run it again")
	case a.Node == nil:
		return one(OK, "the agent is healthy", "")
	case a.Node.SecondAgent != nil:
		return one(Fail, fmt.Sprintf("another agent has the ID of the node, %s", a.Node.ID),
			"a machine is a copy of this one: stop its agent and remove client/node-id and client/secret-id there")
	case a.Node.Status != structs.NodeReady:
		return one(Fail, fmt.Sprintf("the node is %s: %s", a.Node.Status, a.Node.StatusDescription),
			"berth node status -self shows its events")
	}
	return one(OK, "the agent is healthy, and its node is ready", "")
}

// checkServers reports what the servers do not have alike, and the servers of which that is not known.
func checkServers(_ context.Context, m *Machine) []Finding {
	switch {
	case m.Agent == nil:
		return one(Skip, noAgent, "")
	case m.Agent.ServersFault != nil:
		text := fmt.Sprintf("nothing is known of differences between the servers: %v", m.Agent.ServersFault)
		return one(Skip, text, "berth server members shows them; set BERTH_TOKEN if the cluster needs a token")
	}

	var faults []Finding
	for _, name := range m.Agent.Silent {
		faults = append(faults, Finding{
			Result: Warn,
			Text:   "the settings of the server " + name + " are not known: the leader has no contact with it",
			Remedy: "berth operator autopilot health shows the servers; start the agent there, or mend its network",
		})
	}
	for _, d := range m.Agent.Differences {
		f := Finding{
			Result: Warn,
			Text:   d.String(),
			Remedy: d.Remedy(),
		}
		if d.OfState() {
			f.Result = Fail
		}
		faults = append(faults, f)
	}
	if faults != nil {
		return faults
	}
	return one(OK, "no difference between the servers is known", "")
}

// checkCopies reports what a server lacks to tell its machine from one that has a copy of its disk.
func checkCopies(_ context.Context, m *Machine) []Finding {
	const remedy = "run the agent by the unit berth-server.service, or as root; in a container mount the " +
		"UUID of the host as /etc/machine-id (docs/operations/servers.md)"
	switch seen := agentproof.ReadMachine(m.root); {
	case m.Agent == nil:
		return one(Skip, noAgent, "")
	case !m.Agent.Server:
		return one(Skip, "the agent is no server", "")
	case m.Agent.Machine.HasUUID():
		return one(OK, "the UUID of this machine tells the server from a copy of its disk elsewhere", "")
	case seen.HasUUID():
		return one(Warn, "the server cannot read the UUID of this machine: a copy of its disk in a machine "+
			"with the same /etc/machine-id passes for it", remedy)
	case m.Agent.Machine == "":
		return one(Warn, "the server finds neither a UUID nor /etc/machine-id: a copy of its disk passes for it", "make the file: systemd-machine-id-setup; "+remedy)
	case m.euid != 0:
		return one(Skip, "only root sees whether this machine has a UUID", "sudo berth doctor")
	}
	return one(OK, "this machine has no UUID, so /etc/machine-id tells the server from a copy of its disk "+
		"elsewhere: make a new one there before the first start", "")
}

// unit returns the unit of systemd that suits the agent.
func (m *Machine) unit() string {
	if m.Client {
		return "berth"
	}
	return "berth-server"
}

// node returns the row of the node, nil if no agent told it. Then skip has the finding.
func (m *Machine) node() (n *structs.NodeDetail, skip []Finding) {
	switch {
	case m.Agent == nil:
		return nil, one(Skip, noAgent, "")
	case m.Agent.Node == nil && m.Agent.NodeFault != nil:
		return nil, one(Skip, "the servers do not tell the state of the node", "")
	case m.Agent.Node == nil:
		return nil, one(Skip, "the agent is no node", "")
	}
	return m.Agent.Node, nil
}

// checkDrivers reports the task drivers that the node has and cannot use.
func checkDrivers(_ context.Context, m *Machine) []Finding {
	n, skip := m.node()
	if n == nil {
		return skip
	}

	var faults []Finding
	healthy := 0
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		d := n.Drivers[name]
		switch {
		case d == nil || !d.Detected:
		case d.Healthy:
			healthy++
		default:
			faults = append(faults, Finding{
				Result: Warn,
				Text:   fmt.Sprintf("the driver %s is not healthy: %s", name, d.HealthDescription),
				Remedy: "berth node status -self -verbose shows the driver",
			})
		}
	}
	switch {
	case len(faults) > 0:
		return faults
	case healthy == 0:
		return one(Fail, "the node has no healthy task driver, so it runs nothing",
			"berth node status -self -verbose shows the reason of each")
	}
	return one(OK, fmt.Sprintf("healthy task drivers: %d", healthy), "")
}

// checkPlugins reports the instances of CSI plugins on the node that do not serve.
func checkPlugins(_ context.Context, m *Machine) []Finding {
	n, skip := m.node()
	if n == nil {
		return skip
	}

	halves := []struct {
		name string
		list map[string]*structs.CSIInfo
	}{
		{"controller", n.CSIControllerPlugins},
		{"node", n.CSINodePlugins},
	}

	var faults []Finding
	healthy := 0
	for _, half := range halves {
		for _, id := range slices.Sorted(maps.Keys(half.list)) {
			info := half.list[id]
			if info.Healthy {
				healthy++
				continue
			}
			faults = append(faults, Finding{
				Result: Fail,
				Text: fmt.Sprintf("the %s half of the plugin %s is not healthy: %s",
					half.name, id, info.HealthDescription),
				Remedy: "berth plugin status " + structs.ShellWord(id),
			})
		}
	}
	switch {
	case len(faults) > 0:
		return faults
	case healthy == 0:
		return one(Skip, "the node runs no CSI plugin: berth job run starts one", "")
	}
	return one(OK, fmt.Sprintf("healthy plugin instances: %d", healthy), "")
}
