package gossip

import (
	"net"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"berth/structs"
)

// lastMember is the last type of the messages of the library about members, leave (0) and join (1). The types
// behind it are for events, queries, their answers, and of messages to forward. The type is the first byte of
// a message.
const lastMember = 1

// Create starts a gossip. Its configuration has a transport, and Apply has set the keyring.
//
// The library takes requests to list and change keys from whoever reaches it, also without encryption. So a
// server with keys that does not verify in both directions takes messages about members alone. It does not
// forward others to servers that do verify.
func Create(sc *serf.Config, logger hclog.Logger) (*serf.Serf, error) {
	mc := sc.MemberlistConfig
	if mc.Keyring != nil && !(mc.GossipVerifyIncoming && mc.GossipVerifyOutgoing) {
		mc.Transport = &guard{Transport: mc.Transport, config: mc, logger: logger}
	}
	return serf.Create(sc)
}

// guard puts a filter in front of the receiver of messages. The library sets the receiver when it starts, and
// asks its transport for the address before it reads the first message.
type guard struct {
	memberlist.Transport
	config *memberlist.Config
	logger hclog.Logger
	once   sync.Once
}

// FinalAdvertiseAddr returns the address for other servers.
func (g *guard) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	g.once.Do(func() {
		g.config.Delegate = &memberFilter{Delegate: g.config.Delegate, logger: g.logger}
	})
	return g.Transport.FinalAdvertiseAddr(ip, port)
}

// memberFilter passes on the messages about members alone.
type memberFilter struct {
	memberlist.Delegate
	logger hclog.Logger
}

// NotifyMsg passes on a message about members, and drops any other.
func (f *memberFilter) NotifyMsg(message []byte) {
	if len(message) > 0 && message[0] > lastMember {
		f.logger.Warn("rejected a message of the gossip that is not about members: "+
			"this server takes it after encrypt_verify_incoming and encrypt_verify_outgoing are true",
			"type", message[0])
		return
	}
	f.Delegate.NotifyMsg(message)
}

// checkVerified returns a failed precondition if this server sends or takes gossip without encryption.
func checkVerified(incoming, outgoing bool) error {
	setting := ""
	switch {
	case !incoming:
		setting = "encrypt_verify_incoming"
	case !outgoing:
		setting = "encrypt_verify_outgoing"
	default:
		return nil
	}
	return structs.Preconditionf("this server has the setting server.%s = false, so its gossip is not "+
		"always encrypted, and would show the keys: set it to true on all servers, and restart them one after the other",
		setting)
}
