package structs

import "strconv"

// AttrNodeProtocol is the attribute in which a node agent says how much of a job it knows. An agent that does
// not report it has protocol 0.
const AttrNodeProtocol = "berth.protocol"

// NodeProtocol is the protocol of the node agent of this version. It grows with each version whose servers
// send a field that an older agent would drop without an error. Its scheduler has the list of these fields.
const NodeProtocol = 6

// HealthProtocol is the protocol since which agents report the health of allocations in their deployments.
const HealthProtocol = 1

// ServicesProtocol is the protocol since which agents offer services.
const ServicesProtocol = 2

// NetworksProtocol is the protocol since which agents give allocations networks of their own.
const NetworksProtocol = 3

// ConnectProtocol is the protocol since which agents know Connect, and the addresses and weights of services.
const ConnectProtocol = 4

// RootFilesProtocol is the protocol since which tasks of exec see the files beside their own directories.
const RootFilesProtocol = 4

// MigrateHealthProtocol is the protocol since which agents also report the health of allocations of services
// that are in no deployment.
const MigrateHealthProtocol = 5

// RunDurationProtocol is the protocol since which agents know the max_run_duration of a group.
const RunDurationProtocol = 6

// Protocol returns the protocol of the node's agent.
func (n *Node) Protocol() int {
	p, err := strconv.Atoi(n.Attributes[AttrNodeProtocol])
	if err != nil || p < 0 {
		return 0
	}
	return p
}
