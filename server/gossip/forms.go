package gossip

import (
	"github.com/hashicorp/serf/serf"

	"berth/structs"
	"berth/structs/cluster"
)

// Member returns a server as the HTTP API shows it.
func Member(m serf.Member) *cluster.AgentMember {
	return &cluster.AgentMember{
		Name:        m.Name,
		Addr:        m.Addr.String(),
		Port:        m.Port,
		Tags:        m.Tags,
		Status:      m.Status.String(),
		ProtocolMin: m.ProtocolMin,
		ProtocolMax: m.ProtocolMax,
		ProtocolCur: m.ProtocolCur,
		DelegateMin: m.DelegateMin,
		DelegateMax: m.DelegateMax,
		DelegateCur: m.DelegateCur,
	}
}

// CheckAddresses bounds the gossip addresses of one request to join servers. The error is invalid.
func CheckAddresses(addrs []string) error {
	if len(addrs) == 0 || len(addrs) > structs.MaxJoinAddresses {
		return structs.Invalidf("joining servers: %d gossip addresses are given, expected 1 to %d",
			len(addrs), structs.MaxJoinAddresses)
	}
	for _, addr := range addrs {
		if addr == "" || len(addr) > structs.MaxJoinAddress {
			return structs.Invalidf("joining servers: an address has %d bytes, expected host or host:port, at most %d bytes", len(addr), structs.MaxJoinAddress)
		}
	}
	return nil
}
