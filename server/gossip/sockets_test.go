package gossip

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
)

// TestSockets_AdvertisesTheBoundAddressAtAnotherPort configures advertise.serf with a port alone.
func TestSockets_AdvertisesTheBoundAddressAtAnotherPort(t *testing.T) {
	mc := memberlist.DefaultLocalConfig()
	mc.Logger = hclog.NewNullLogger().StandardLogger(nil)
	sockets := Sockets{Bind: "127.0.0.1:0", Advertise: ":4748"}
	gossip, err := sockets.Open(mc, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := gossip.Shutdown(); err != nil {
			t.Error(err)
		}
	}()
	ip, port, err := gossip.FinalAdvertiseAddr(mc.AdvertiseAddr, mc.AdvertisePort)
	if err != nil || ip.String() != "127.0.0.1" || port != 4748 {
		t.Errorf("got address %s, port %d, error %v", ip, port, err)
	}
}
