package show

import "berth/structs"

// Nodes has the columns of nodes in a list.
var Nodes = Noun[*structs.NodeListStub]{
	Titles: "ID|Name|Datacenter|Pool|Class|Address|Eligibility|Status|Drain|Version",
	Row: func(n *structs.NodeListStub, id func(string) string) []string {
		return []string{
			id(n.ID),
			n.Name,
			n.Datacenter,
			n.NodePool,
			n.NodeClass,
			n.Address,
			n.SchedulingEligibility,
			listedStatus(n),
			YesNo(n.Drain),
			n.Version,
		}
	},
}

// listedStatus returns the status of a node in a list.
func listedStatus(n *structs.NodeListStub) string {
	if n.Returning && n.Status == structs.NodeReady {
		return WithDescription(n.Status, "returning")
	}
	return n.Status
}
