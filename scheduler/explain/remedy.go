package explain

import (
	"strings"

	"berth/structs"
)

// command returns a command on an object of a namespace, which it names if it is not the default one.
func command(namespace, verb string, args ...string) string {
	if namespace != structs.DefaultNamespace {
		verb += " -namespace " + namespace
	}
	return "berth " + verb + " " + strings.Join(args, " ")
}

// allocCommand returns a command on an allocation, such as status or logs.
func allocCommand(a *structs.Allocation, verb string) string {
	return command(a.Namespace, "alloc "+verb, structs.ShortID(a.ID))
}

// ifItLasts is the remedy of a call of a plugin that has not failed.
func ifItLasts(plugin string) string {
	return "if this lasts: berth plugin status " + plugin
}

// The scheduler's filters of volumes and of plugins: the reasons of those follow them.
const (
	volumeFilter = "csi-volume"
	pluginFilter = "csi-plugin"
	limitFilter  = "csi-limit"
)

// remedyOf returns the next thing that an operator can do when a filter rejects nodes for a job of a
// namespace.
func remedyOf(filter, namespace string) string {
	if filter == volumeFilter {
		return command(namespace, "volume status", "VOLUME") +
			" shows who uses it and from where it is reachable"
	}
	return remedies[filter]
}

// remedies has those of the filters that do not concern the objects of a namespace.
var remedies = map[string]string{
	"eligibility": "start the agents of nodes that are down; else berth node eligibility -enable NODE, " +
		"or berth node drain -disable NODE",
	"datacenter": "set datacenters in the job, or datacenter in the client block of the nodes",
	"node-pool":  "set node_pool in the job, or in the client block of the nodes",
	"protocol":   "update the agents of these nodes",
	"driver": "berth node status NODE shows the drivers; enable the driver in the client block " +
		"of the nodes",
	"constraint": "berth node status -verbose NODE shows the attributes; change the constraint or the nodes",
	"device":     "berth node status NODE shows the devices; ask for fewer, or add nodes that have them",
	"network":    "choose another static port, or a host_network that the nodes have",
	"host-volume": "offer the volume in the client block of the nodes, " +
		"or wait for the end of its writer",
	"distinct-hosts": "add nodes, lower the count, or remove distinct_hosts",
	"distinct-property": "add nodes with other values of the property, raise its limit, " +
		"or lower the count",
	pluginFilter: "run the plugin's job on these nodes: berth plugin status PLUGIN",
	limitFilter:  "add nodes, or end allocations that use volumes of the plugin on these nodes",
	"resources":  "add nodes, end other allocations, or ask for less in the resources block",
}
