package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/client/guard/watch"
	"berth/structs"
)

// writerJob is a job that appends to a file of a volume.
func writerJob(name, volume string) jobFile {
	return jobFile{
		name:   name,
		once:   true,
		uses:   []volumeUse{{source: volume, at: "/vol"}},
		script: `i=0; while true; do i=$((i+1)); echo "$i" >> /vol/lines; echo "line $i"; sleep 0.1; done`,
	}
}

// leaseVolume creates a volume whose user ends with the lease of its node.
func (a *agent) leaseVolume(id string) {
	a.t.Helper()
	text := volumeFile{id: id}.hcl() + "on_node_loss = \"lease\"\n"
	a.must("volume", "create", a.writeFile("volume-"+id+".hcl", text))
}

// endOf reads the record of the guard of a node, nil if there is none.
func (a *agent) endOf(alloc string) (*watch.Ended, error) {
	b, err := os.ReadFile(a.data("guard", alloc+".ended"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	e := &watch.Ended{}
	if err == nil {
		err = json.Unmarshal(b, e)
	}
	return e, err
}

// awaitEndByGuard waits until the guard has ended an allocation and unmounted its volumes.
func (a *agent) awaitEndByGuard(alloc string) {
	a.t.Helper()
	eventually(a.t, "the guard has ended the allocation", func() error {
		e, err := a.endOf(alloc)
		if err == nil && (e == nil || !e.Unmounted) {
			err = fmt.Errorf("its record is %+v", e)
		}
		return err
	})
}

// frozenFor is longer than the default lease.
const frozenFor = 12 * time.Second

// The others elect a leader within seconds, so no node may lose its lease.
func TestGuard_EndsNothingWhileTheLeaderIsFrozen(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.node
	leader, followers := c.leader()
	s := followers[0]
	s.must("job", "run", "-detach", example(t, "hostpath.hcl"))
	s.healthyNodes("hostpath", 1)
	s.leaseVolume("lease")
	s.must("job", "run", "-detach", s.writeJob(writerJob("lease", "lease")))
	alloc := s.awaitRunning("lease", 1)[0].ID
	s.awaitOutput(alloc, "line 3")

	leader.freeze()
	begun := time.Now()
	eventually(t, "another leader", func() error { return s.leadsNot(leader) })
	time.Sleep(frozenFor - time.Since(begun)) // the fault
	ended, err := n.endOf(alloc)
	if err != nil || ended != nil || !n.allocsAtWork()[alloc] {
		t.Errorf("the guard has ended the allocation: %+v, %v", ended, err)
	}
	leader.signal(syscall.SIGCONT)
	c.awaitOneLeader()
	if now := s.awaitRunning("lease", 1)[0].ID; now != alloc {
		t.Errorf("allocation %s runs in the place of %s", now, alloc)
	}
	s.mustEventually("job", "stop", "-purge", "lease")
	s.awaitFree("lease")
	s.mustEventually("job", "stop", "-purge", "hostpath")
}

// The agent stops in the middle of its work, and its node still ends what must not outlive the lease.
// When the agent goes on, it releases the volume.
func TestGuard_EndsATaskWithTheLeaseOfAFrozenAgent(t *testing.T) {
	t.Parallel()
	s := newAgent(t, "s0", "-server")
	s.args = append(s.args, "-config", s.writeFile("lease.hcl",
		"server {\n  heartbeat_ttl = \"3s\"\n  heartbeat_grace = \"1m\"\n}\n"))
	s.ready = (*agent).hasLeader
	s.start()
	n := newAgent(t, "n0", "-client", "-servers", fmt.Sprintf("127.0.0.1:%d", s.rpc))
	n.start()
	s.must("job", "run", "-detach", example(t, "hostpath.hcl"))
	s.healthyNodes("hostpath", 1)
	s.leaseVolume("lease")
	s.createVolume(volumeFile{id: "hold"})
	s.must("job", "run", "-detach", s.writeJob(writerJob("lease", "lease")))
	s.must("job", "run", "-detach", s.writeJob(writerJob("hold", "hold")))
	alloc := s.awaitRunning("lease", 1)[0].ID
	held := s.awaitRunning("hold", 1)[0].ID
	s.awaitOutput(alloc, "line 3")
	v, err := get[*structs.CSIVolumeDetail](s, "/v1/volume/csi/lease")
	if err != nil || len(v.Claims) != 1 || !v.Claims[0].Guarded {
		t.Fatalf("the claim is not guarded: %+v, %v", v, err)
	}

	n.signal(syscall.SIGSTOP)
	n.awaitEndByGuard(alloc)
	atWork := n.allocsAtWork()
	if atWork[alloc] || !atWork[held] {
		t.Errorf("at work are %v; want %s alone", atWork, held)
	}
	var left []string
	for _, m := range mountsBelow(n.data("csi", "v")) {
		if strings.HasSuffix(m, "/mount") {
			left = append(left, m)
		}
	}
	if len(left) != 1 {
		t.Errorf("the published volumes are %q; want that of %s alone", left, held)
	}

	n.signal(syscall.SIGCONT)
	eventually(t, "the allocation is lost and its claim is released", func() error {
		v, err := get[*structs.CSIVolumeDetail](s, "/v1/volume/csi/lease")
		if err == nil && len(v.Claims) > 0 && v.Claims[0].AllocID == alloc {
			err = fmt.Errorf("its claim is %+v", v.Claims[0])
		}
		return err
	})
	if now := s.awaitRunning("hold", 1)[0].ID; now != held {
		t.Errorf("allocation %s runs in the place of %s", now, held)
	}
	eventually(t, "the order is gone", func() error {
		if _, err := os.Stat(n.data("guard", alloc+".order")); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("it is there (%w)", err)
		}
		return nil
	})
	s.must("job", "stop", "-purge", "lease")
	s.must("job", "stop", "-purge", "hold")
	s.awaitFree("lease")
	s.awaitFree("hold")
	s.must("job", "stop", "-purge", "hostpath")
}
