package docker

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"golang.org/x/sys/unix"

	"berth/client/drivers/docker/engine"
	"berth/client/drivers/driver"
	"berth/client/machine/netns"
	"berth/structs"
)

// network makes a network namespace with the files of an allocation.
func (n *node) network(name string) *driver.Network {
	n.t.Helper()
	made := &driver.Network{
		Namespace: filepath.Join(n.dir, name),
		Hostname:  "box",
		Hosts:     filepath.Join(n.dir, name+".hosts"),
		Resolver:  filepath.Join(n.dir, name+".resolv"),
	}
	err := netns.Make(made.Namespace)
	n.t.Cleanup(func() {
		if err := netns.Remove(made.Namespace); err != nil {
			n.t.Error(err)
		}
	})
	if err == nil {
		err = os.WriteFile(made.Hosts, []byte("192.0.2.1 box\n"), 0o644)
	}
	if err == nil {
		err = os.WriteFile(made.Resolver, []byte("nameserver 192.0.2.53\n"), 0o644)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return made
}

// member is a task of an allocation in a network.
func (n *node) member(alloc, task string, in *driver.Network, steps ...string) *driver.TaskConfig {
	n.t.Helper()
	cfg := n.task(alloc, steps...)
	cfg.ID = alloc + "/" + task
	cfg.Task = task
	cfg.Network = in
	delete(cfg.Config, "network_mode")
	return cfg
}

// linkOf is the name of a namespace that a process in it sees.
func (n *node) linkOf(in *driver.Network) string {
	n.t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(in.Namespace, &st); err != nil {
		n.t.Fatal(err)
	}
	return fmt.Sprintf("net:[%d]", st.Ino)
}

// names lists the containers of the node.
func (n *node) names(d *Driver) string {
	n.t.Helper()
	list, err := d.engine.List(n.ctx, labelNode+"=n1")
	if err != nil {
		n.t.Fatal(err)
	}
	var names []string
	for _, c := range list {
		names = append(names, strings.TrimPrefix(c.Names[0], "/")+" "+string(c.State))
	}
	return strings.Join(names, ", ")
}

// TestDaemon_JoinsTheNetworkOfTheAllocation shares a namespace between two containers and a process of the
// node.
func TestDaemon_JoinsTheNetworkOfTheAllocation(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	if info := d.Fingerprint(n.ctx); info.Attributes[structs.AttrNetworkNamespace(Name)] != "1" {
		t.Errorf("the attributes are %v", info.Attributes)
	}
	in := n.network("ns")
	first := n.member("al", "first", in, "link:/proc/self/ns/net", "cat:/proc/sys/kernel/hostname",
		"cat:/etc/hosts", "cat:/etc/resolv.conf", "serve:80", "trap:0")
	first.Config["ports"] = []any{"http"}
	first.Config["extra_hosts"] = []any{"db:192.0.2.2"}
	first.Ports = []structs.AllocatedPort{{Label: "http", Value: 20000, To: 80, HostIP: "127.0.0.1"}}
	second := n.member("al", "second", in, "link:/proc/self/ns/net", "cat:/etc/hosts", "trap:0")
	n.start(d, first)
	n.awaitOutput(first, n.linkOf(in)+"\nbox\n192.0.2.1 box\n192.0.2.2 db\nnameserver 192.0.2.53\nready\n")
	n.start(d, second)
	n.awaitOutput(second, n.linkOf(in)+"\n192.0.2.1 box\nready\n")
	err := netns.Do(in.Namespace, func() error {
		conn, err := net.DialTimeout("tcp", "127.0.0.1:80", 2*time.Minute)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	if err != nil {
		t.Errorf("a process of the node does not reach the container: %v", err)
	}
	c, err := d.engine.Inspect(n.ctx, containerName(first.ID))
	if err != nil || len(c.HostConfig.PortBindings) != 0 {
		t.Errorf("the daemon publishes %v, %v", c.HostConfig.PortBindings, err)
	}
	if s, err := d.Stats(n.ctx, first.ID); err != nil || s.MemoryUsage == 0 {
		t.Errorf("measured %+v, %v", s, err)
	}
	hosts := d.containers.hosts.path(first.ID)
	n.destroy(d, first)
	if _, err := os.Stat(hosts); !os.IsNotExist(err) {
		t.Errorf("the file of hosts is left: %v", err)
	}
	if got := n.names(d); got != "second-al running, berth-pause-al running" {
		t.Errorf("left beside the second task: %s", got)
	}
	if s, err := d.Stats(n.ctx, second.ID); err != nil || s.MemoryUsage == 0 {
		t.Errorf("measured %+v, %v", s, err)
	}
	n.destroy(d, second)
	if got := n.names(d); got != "" {
		t.Errorf("left at the end: %s", got)
	}
}

// pauseOf returns the ID of the pause container of an allocation, "" if there is none.
func (n *node) pauseOf(d *Driver, alloc string) string {
	n.t.Helper()
	c, err := d.engine.Inspect(n.ctx, pauseName(alloc))
	if isGone(err) {
		return ""
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return c.ID
}

// awaitIn waits until a task says that it is in a network.
func (n *node) awaitIn(cfg *driver.TaskConfig) {
	n.t.Helper()
	n.awaitOutput(cfg, n.linkOf(cfg.Network)+"\nready\n")
}

func (n *node) mustRemove(d *Driver, container string) {
	n.t.Helper()
	if err := d.engine.Remove(n.ctx, container); err != nil {
		n.t.Fatal(err)
	}
}

// TestDaemon_JoinsTheSameNetworkAgain starts containers after the end of what the earlier ones have joined.
func TestDaemon_JoinsTheSameNetworkAgain(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, stop := n.agent()
	in := n.network("ns")
	steps := []string{"link:/proc/self/ns/net", "trap:0"}
	first := n.member("al", "first", in, steps...)
	h := n.start(d, first)
	n.awaitIn(first)

	t.Log("somebody removes the pause container")
	n.mustRemove(d, n.pauseOf(d, "al"))
	second := n.member("al", "second", in, steps...)
	n.start(d, second)
	n.awaitIn(second)

	t.Log("the agent ends, and the daemon with its containers; the namespace stays")
	stop()
	n.Stop()
	n.Run()
	d, _ = n.recoverAll([]*driver.Handle{h})
	n.wait(d, first)
	n.destroy(d, first)
	n.destroy(d, second)
	if got := n.names(d); got != "" {
		t.Fatalf("left are %s", got)
	}
	n.mustRemoveImage(d)
	third := n.member("al", "third", in, steps...)
	n.start(d, third)
	n.awaitIn(third)

	t.Log("the namespace is replaced: the old pause container is not that of the new one")
	old := n.pauseOf(d, "al")
	other := n.network("other")
	fourth := n.member("al", "fourth", other, steps...)
	n.start(d, fourth)
	n.awaitIn(fourth)
	if n.pauseOf(d, "al") == old {
		t.Error("the pause container is the old one")
	}
	n.destroy(d, third)
	n.destroy(d, fourth)
	if got := n.names(d); got != "" {
		t.Errorf("left at the end: %s", got)
	}
}

func (n *node) mustRemoveImage(d *Driver) {
	n.t.Helper()
	image, err := d.engine.Image(n.ctx, pauseImage)
	if err == nil {
		err = d.engine.RemoveImage(n.ctx, image.ID)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// TestDaemon_LosesPauseContainers of agents that were killed.
func TestDaemon_LosesPauseContainers(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	killed, kill := n.agent()
	in := n.network("ns")
	left := n.member("left", "web", in, "trap:0") // killed before its container was made
	held := n.member("held", "web", in, "trap:0")
	unknown := n.member("unknown", "web", in, "trap:0")
	for _, cfg := range []*driver.TaskConfig{left, unknown} {
		if _, err := killed.pauses.ensure(n.ctx, cfg); err != nil {
			t.Fatal(err)
		}
	}
	h := n.start(killed, held)
	kill()
	n.cfg.GC.Dangling.Period = 500 * time.Millisecond
	n.cfg.GC.Dangling.CreationGrace = time.Millisecond
	d, stop := n.recoverFirst(h)
	n.destroy(d, left) // as the agent does with a task whose start was not recorded
	if n.pauseOf(d, "left") != "" {
		t.Error("the end of a task without a container leaves its pause container")
	}
	n.until("the pause container of an unknown allocation is gone", func() bool {
		return n.pauseOf(d, "unknown") == ""
	})
	if n.pauseOf(d, "held") == "" {
		t.Error("the pause container of a running task is gone")
	}
	stop() // a search would remove what follows
	// The container of another task of the allocation runs, and this agent has not found it yet.
	for _, t := range d.tasks.all() {
		d.tasks.forget(t.id)
	}
	if err := d.pauses.release(n.ctx, "held"); err != nil || n.pauseOf(d, "held") == "" {
		t.Errorf("the pause container of a running container is gone, %v", err)
	}
	n.destroy(d, held)

	// Another task of the allocation is between its pause container and its own.
	started := d.tasks.noteStarting(left.ID)
	if _, err := d.pauses.ensure(n.ctx, left); err != nil {
		t.Fatal(err)
	}
	if err := d.pauses.release(n.ctx, "left"); err != nil || n.pauseOf(d, "left") == "" {
		t.Errorf("the pause container of a task that starts is gone, %v", err)
	}
	started()
	n.destroy(d, left)
	if got := n.names(d); got != "" {
		t.Errorf("left at the end: %s", got)
	}
}

// TestDaemon_NamesTheFaultOfANetwork starts tasks that cannot join theirs.
func TestDaemon_NamesTheFaultOfANetwork(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	in := n.network("ns")
	plain := filepath.Join(n.dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, edit := range map[string]func(*driver.TaskConfig){
		"does not see the network namespace": func(cfg *driver.TaskConfig) {
			cfg.Network = &driver.Network{Namespace: plain}
		},
		"write hostname in the group's network": func(cfg *driver.TaskConfig) { cfg.Config["hostname"] = "x" },
		"write dns { servers } in the group's network": func(cfg *driver.TaskConfig) {
			cfg.Config["dns_servers"] = []any{"192.0.2.1"}
		},
		"write dns { searches }": func(cfg *driver.TaskConfig) { cfg.Config["dns_search_domains"] = []any{"a"} },
		"write dns { options }":  func(cfg *driver.TaskConfig) { cfg.Config["dns_options"] = []any{"a"} },
		"only the daemon knows": func(cfg *driver.TaskConfig) {
			cfg.Config["extra_hosts"] = []any{"x:host-gateway"}
		},
		"names another one; remove one of the two": func(cfg *driver.TaskConfig) {
			cfg.Config["network_mode"] = "bridge"
			cfg.Config["ports"] = []any{"http"}
			cfg.Ports = []structs.AllocatedPort{{Label: "http", Value: 20000, HostIP: "127.0.0.1"}}
		},
	} {
		cfg := n.member("al", "web", in, "trap:0")
		edit(cfg)
		if _, err := d.Start(n.ctx, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		n.destroy(d, cfg)
		if got := n.names(d); got != "" {
			t.Errorf("%s: left are %s", want, got)
		}
	}
	own := n.member("al", "web", in, "link:/proc/self/ns/net", "cat:/proc/sys/kernel/hostname", "trap:0")
	own.Config["network_mode"] = "none" // as in the dialect, it is in a network of its own
	own.Config["hostname"] = "own"
	n.start(d, own)
	n.until("the task runs", func() bool { return strings.HasSuffix(n.output(own, "stdout"), "own\nready\n") })
	if out := n.output(own, "stdout"); strings.Contains(out, n.linkOf(in)) || n.pauseOf(d, "al") != "" {
		t.Errorf("a task with a network_mode says %q", out)
	}
	n.destroy(d, own)
}

func TestCheckJoined_ReportsAContainerElsewhere(t *testing.T) {
	n := &node{t: t, dir: t.TempDir()}
	in := n.network("ns").Namespace
	c := &engine.Container{State: &container.State{Running: true, Pid: os.Getpid()}}
	err := checkJoined(c, in)
	if err == nil || !strings.Contains(err.Error(), "did not start the container in") {
		t.Errorf("got %v", err)
	}
	if err := checkJoined(c, "/proc/self/ns/net"); err != nil {
		t.Errorf("in the namespace: %v", err)
	}
	c.State.Running = false
	if err := checkJoined(c, in); err != nil {
		t.Errorf("after its end: %v", err)
	}
}
