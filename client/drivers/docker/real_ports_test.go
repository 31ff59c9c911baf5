package docker

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/client/drivers/docker/dockertest"
	"berth/structs"
)

// ask returns the answer at a port of the node.
func (n *node) ask(network, addr string) (answer string, err error) {
	err = n.Inside(func() error {
		conn, err := (&net.Dialer{}).DialContext(n.ctx, network, addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		if network == "udp" {
			if _, err := conn.Write([]byte("ask")); err != nil {
				return err
			}
		}
		buf := make([]byte, 64)
		count, err := conn.Read(buf)
		answer = string(buf[:count])
		return err
	})
	return answer, err
}

// listen is possible only at a free port of the node.
func (n *node) listen(network, addr string) error {
	return n.Inside(func() error {
		var l io.Closer
		var err error
		if network == "udp" {
			l, err = net.ListenPacket(network, addr)
		} else {
			l, err = net.Listen(network, addr)
		}
		if err != nil {
			return err
		}
		return l.Close()
	})
}

// TestDaemon_PublishesPorts connects to the ports of an allocation. The daemon forwards them to the
// container: at the loopback address with a process, at others with the packet filter.
func TestDaemon_PublishesPorts(t *testing.T) {
	t.Parallel()
	n := nodeOf(t, dockertest.StartBridged(t))
	d, _ := n.agent()
	before := n.Network()
	cfg := n.task("ports", "serve:8080", "serve:20001", "trap:0")
	delete(cfg.Config, "network_mode")
	cfg.Config["ports"] = []any{"http", "local", "same"}
	cfg.Ports = []structs.AllocatedPort{
		{Label: "http", Value: 20000, To: 8080, HostIP: dockertest.NodeIP},
		{Label: "same", Value: 20001, HostIP: dockertest.NodeIP},
		{Label: "local", Value: 20002, To: 8080, HostIP: "127.0.0.1"},
		{Label: "unnamed", Value: 20003, To: 8080, HostIP: dockertest.NodeIP},
		{Label: "elsewhere", Value: 20000, To: 8080, HostIP: "127.0.0.1"},
	}
	inside := map[string]string{"http": "8080", "same": "20001", "local": "8080"}
	h := n.start(d, cfg)
	n.awaitOutput(cfg, "ready\n")
	if at := h.Location; at == nil || !strings.HasPrefix(at.Address, "10.98.0.") || at.Advertised {
		t.Errorf("the task is at %+v", at)
	} else if answer, err := n.ask("tcp", at.Address+":8080"); answer != "tcp 8080\n" {
		t.Errorf("at its own address the task says %q, %v", answer, err)
	}
	for _, p := range cfg.Ports {
		for _, network := range []string{"tcp", "udp"} {
			answer, err := n.ask(network, p.HostAddr())
			taken := n.listen(network, p.HostAddr())
			if inside[p.Label] == "" { // the task does not name it
				if !errors.Is(err, syscall.ECONNREFUSED) || taken != nil {
					t.Errorf("port %s, %s: got %q, %v, %v", p.Label, network, answer, err, taken)
				}
				continue
			}
			if answer != network+" "+inside[p.Label]+"\n" {
				t.Errorf("port %s, %s: got %q, %v", p.Label, network, answer, err)
			}
			if !errors.Is(taken, syscall.EADDRINUSE) {
				t.Errorf("port %s, %s: another process can have it: %v", p.Label, network, taken)
			}
		}
	}
	if err := d.Stop(n.ctx, cfg.ID, "SIGTERM", time.Minute); err != nil {
		t.Fatal(err)
	}
	if result := n.wait(d, cfg); !result.Successful() {
		t.Errorf("got %+v", result)
	}
	n.destroy(d, cfg)
	n.hasNoPorts(d, cfg.Ports, before)
}

// awaitMembers waits until the network namespace has only these programs.
func (n *node) awaitMembers(want ...string) {
	n.t.Helper()
	for members := n.Members(); !slices.Equal(members, want); members = n.Members() {
		if n.ctx.Err() != nil {
			n.t.Fatalf("the network namespace has the processes %q, want %q", members, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// hasNoPorts checks that a task with ports has left nothing.
func (n *node) hasNoPorts(d *Driver, ports []structs.AllocatedPort, before string) {
	n.t.Helper()
	for _, p := range ports {
		for _, network := range []string{"tcp", "udp"} {
			if err := n.listen(network, p.HostAddr()); err != nil {
				n.t.Errorf("port %s, %s, is not free: %v", p.Label, network, err)
			}
		}
	}
	list, err := d.engine.List(n.ctx, labelNode+"=n1")
	if err != nil || len(list) != 0 {
		n.t.Errorf("left are %v, %v", list, err)
	}
	if now := n.Network(); now != before {
		n.t.Errorf("the network is\n%s\nwas\n%s", now, before)
	}
	n.awaitMembers("dockerd") // it runs other programs for a moment
	n.Stop()
	n.awaitMembers()
}
