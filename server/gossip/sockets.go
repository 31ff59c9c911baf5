package gossip

import (
	"cmp"
	"errors"
	"log"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"

	"berth/server/raftnet"
	"berth/structs"
)

// portTries bounds the search for a port that is free for both TCP and UDP: a port that is free for TCP
// may be in use for UDP. The errors of the library do not show the difference, so every error counts.
const portTries = 10

// Sockets are the addresses of the gossip.
type Sockets struct {
	Bind      string // host:port
	Advertise string // for others, "" for the address bound
	// Transport returns the transport by which the gossip sends. It receives by the sockets of t. nil is t.
	Transport func(t *memberlist.NetTransport) memberlist.NodeAwareTransport
}

// Open opens the sockets and puts them into the configuration of the gossip, before the gossip starts
// anything that would have to be ended when a port is in use.
// It bounds what strangers may send there, and the lines of the log that they cause.
func (s Sockets) Open(mc *memberlist.Config, logger hclog.Logger) (memberlist.Transport, error) {
	host, service, err := net.SplitHostPort(s.Bind)
	port, err2 := strconv.Atoi(service)
	if err := cmp.Or(err, err2); err != nil {
		return nil, structs.Invalidf("server: addresses.serf: %w", err)
	}

	nc := &memberlist.NetTransportConfig{
		BindAddrs: []string{host},
		BindPort:  port,
		Logger:    mc.Logger,
	}

	t, err := memberlist.NewNetTransport(nc)
	for try := 1; port == 0 && err != nil && try < portTries; try++ {
		t, err = memberlist.NewNetTransport(nc)
	}
	if err != nil {
		return nil, structs.Internalf("listening for the gossip on %s: %w", s.Bind, err)
	}

	mc.BindAddr = host
	mc.BindPort = t.GetAutoBindPort()
	mc.AdvertisePort = mc.BindPort
	if err := advertise(t, s.Advertise, mc); err != nil {
		return nil, errors.Join(err, t.Shutdown())
	}

	var transport memberlist.NodeAwareTransport = t
	if s.Transport != nil {
		transport = s.Transport(t)
	}

	bounded := newBoundedTransport(transport, logger)
	mc.Transport = bounded
	sampled := sampledWriter{mc.Logger.Writer(), &faultSampler{now: time.Now}}
	mc.Logger = log.New(sampled, "", 0)
	return bounded, nil
}

// advertise sets the address of the sockets for others: "" stands for the address bound, a port of 0
// for the port bound.
func advertise(t *memberlist.NetTransport, configured string, mc *memberlist.Config) error {
	if configured != "" {
		addr, err := raftnet.ResolveAddress("advertise.serf", configured, mc.BindPort)
		if err != nil {
			return err
		}

		if addr.IP == nil { // a port alone: at the address that the library finds
			addr.IP, _, err = t.FinalAdvertiseAddr("", addr.Port)
			if err != nil {
				return structs.Invalidf("server: advertise.serf needs a host: %w", err)
			}
		}

		mc.AdvertiseAddr = addr.IP.String()
		mc.AdvertisePort = addr.Port
	}

	if _, _, err := t.FinalAdvertiseAddr(mc.AdvertiseAddr, mc.AdvertisePort); err != nil {
		return structs.Invalidf("server: the gossip has no address for others; set advertise.serf: %w", err)
	}
	return nil
}
