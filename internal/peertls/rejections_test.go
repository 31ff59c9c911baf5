package peertls

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

func TestRejections_AreToldOncePerHostAndMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Rejections
		at := func(host byte, port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, host), Port: port} }
		if !r.Due(at(1, 1)) || r.Due(at(1, 2)) {
			t.Error("a host is not told of once")
		}
		if !r.Due(at(2, 1)) {
			t.Error("one host uses up the warning of another")
		}
		time.Sleep(rejectionPeriod)
		told := 0
		for host := range byte(255) {
			if r.Due(at(host, 1)) {
				told++
			}
		}
		if told != maxRejectedHosts {
			t.Errorf("told of %d hosts in a minute, want %d", told, maxRejectedHosts)
		}
	})
}
