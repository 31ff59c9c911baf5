package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/structs"
)

// onAnotherMachine makes an agent run in namespaces with the identity of another machine. It sees neither the
// processes nor the files of the original. The namespaces end with it.
func (a *agent) onAnotherMachine(original *agent) {
	a.t.Helper()
	const product = "/sys/class/dmi/id/product_uuid"
	id := a.writeFile("machine-id", "0123456789abcdef0123456789abcdef\n")
	uuid := a.writeFile("product_uuid", "6f2a9c1e-5b1d-4c3a-9a55-0d1e2f3a4b5c\n")
	script := a.writeFile("other-machine", fmt.Sprintf(`#!/bin/sh
exec unshare -m --propagation private -p -f --kill-child --mount-proc sh -c '
  mount -t tmpfs none %[5]s && mount --bind %[1]s /etc/machine-id || exit 9
  [ ! -e %[3]s ] || mount --bind %[2]s %[3]s || exit 9
  exec %[4]s "$@"' sh "$@"
`, id, uuid, product, a.program, original.dir))
	err := os.Chmod(script, 0o700)
	if err != nil {
		a.t.Fatal(err)
	}
	a.program = script
}

// copyFiles copies the files of an agent that are its memory: not those of its tasks and mounts.
func (a *agent) copyFiles(from *agent) {
	a.t.Helper()
	err := filepath.WalkDir(from.data(), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, _ := filepath.Rel(from.data(), path)
		switch {
		case d.IsDir() && (inside == "alloc" || inside == "client/csi"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(a.data(), inside), 0o700)
		case !d.Type().IsRegular():
			return nil // sockets
		}
		content, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(a.data(), inside), content, 0o600)
		}
		return err
	})
	if err != nil {
		a.t.Fatal(err)
	}
}

// The disk of a server was copied, and the copy starts on another machine beside the first one.
func TestCopy_OfAServerIsNoMember(t *testing.T) {
	t.Parallel()
	c := newServers(t)
	original := c.servers[0]
	original.kill()
	twin := newAgent(t, "twin", "-server", "-bootstrap-expect", "3", "-retry-join",
		"127.0.0.1:"+strconv.Itoa(c.servers[1].serf)+",127.0.0.1:"+strconv.Itoa(c.servers[2].serf))
	twin.copyFiles(original)
	twin.onAnotherMachine(original)
	original.start()
	twin.launch()

	at := c.servers[1]
	at.awaitListed(1, "rejected", "server", "members")
	twin.awaitLogged("the data directory of this server is from another machine")
	peers := at.must("operator", "raft", "list-peers")
	if strings.Contains(peers, strconv.Itoa(twin.rpc)) || !strings.Contains(peers, strconv.Itoa(original.rpc)) {
		t.Errorf("the members of Raft are\n%s", peers)
	}
	c.leader()
	twin.kill()
}

// A node with a writer is frozen, another server leads, and a copy of the disk starts on another machine.
func TestCopy_OfALostNodeFreesNoVolume(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leader, followers := c.leader()
	at := followers[0]
	at.must("job", "run", example(t, "hostpath.hcl"))
	at.healthyNodes("hostpath", 1)
	at.must("volume", "create", example(t, "volume.hcl"))
	at.must("job", "run", "-detach", example(t, "counter.hcl"))
	at.awaitRunning("counter", 1)
	frozen := c.node.cmd.Process
	if err := frozen.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = frozen.Signal(syscall.SIGCONT) }()
	id := at.nodeID(c.node.name)
	isDown := func() error {
		n, err := get[*structs.Node](at, "/v1/node/"+id)
		if err == nil && n.Status != structs.NodeDown {
			err = fmt.Errorf("the node is %s", n.Status)
		}
		return err
	}
	eventually(t, "the node is down", isDown)
	leader.kill()
	c.leader()

	twin := newAgent(t, "twin", "-client", "-servers", c.rpc)
	twin.copyFiles(c.node)
	twin.onAnotherMachine(c.node)
	twin.launch()
	twin.awaitLogged("has another agent")
	claims, err := at.claims("counter")
	if err != nil || len(claims) != 1 || claims[0].NodeID != id {
		t.Errorf("the volume has the claims %v, error %v", claims, err)
	}
	if err := isDown(); err != nil {
		t.Error(err)
	}
	twin.kill()

	if err := frozen.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	leader.start()
	at.awaitRunning("counter", 1)
	at.must("job", "stop", "-purge", "counter")
	at.awaitFree("counter")
}
