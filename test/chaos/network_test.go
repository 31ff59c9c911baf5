package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// The network namespace of the run routes between the members. Each member has a pair of interfaces with it.
// A packet that it drops, by a rule for a source and a destination, is lost without a message.

// worldAddr is the address of the router. It is no member, so no rule drops what it sends.
const worldAddr = "10.77.0.254"

// cuts counts the faults that cut a member off from another one, in one direction.
type cuts struct {
	mu     sync.Mutex
	counts map[[2]*member]int
}

// routeAll makes the world a router.
func routeAll() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	return runIP("", "link set lo up")
}

// connect connects a machine that has just started with the router.
func (m *member) connect() error {
	pid := m.first.Process.Pid
	outer := "to-" + m.name
	_ = runIP("", "link del "+outer) // of the last boot: the kernel removes it some time after its namespace
	err := runIP("",
		fmt.Sprintf("link add %s type veth peer name eth0 netns %d", outer, pid),
		fmt.Sprintf("addr add %s/32 dev %s", worldAddr, outer),
		fmt.Sprintf("link set %s up", outer),
		fmt.Sprintf("route add %s/32 dev %s", m.addr, outer))
	if err != nil {
		return err
	}
	return runIP(strconv.Itoa(pid),
		"link set lo up",
		fmt.Sprintf("addr add %s/32 dev eth0", m.addr),
		"link set eth0 up",
		fmt.Sprintf("route add %s/32 dev eth0", worldAddr),
		"route add default via "+worldAddr)
}

// runIP runs commands of ip in the network namespace of a process, "" for the world's.
func runIP(pid string, commands ...string) error {
	args := []string{"ip", "-batch", "-"}
	if pid != "" {
		args = append([]string{"nsenter", "-t", pid, "-n"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %q: %w: %s", commands, err, out)
	}
	return nil
}

// cut drops what one member sends to others, until heal is called.
func (c *cuts) cut(from *member, to ...*member) (heal func()) {
	for _, other := range to {
		c.change([2]*member{from, other}, 1)
	}
	return func() {
		for _, other := range to {
			c.change([2]*member{from, other}, -1)
		}
	}
}

func (c *cuts) change(pair [2]*member, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.counts[pair]
	c.counts[pair] += by
	action := ""
	switch after := c.counts[pair]; {
	case before == 0:
		action = "add"
	case after == 0:
		action = "del"
	default:
		return
	}
	err := runIP("", fmt.Sprintf("rule %s from %s to %s blackhole", action, pair[0].addr, pair[1].addr))
	if err != nil {
		pair[0].w.note("%v", err)
	}
}
