package scenario

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/test/cluster"
)

// TestStorm_KeepsTheInvariants partitions nodes, kills leaders, and stops and runs jobs that hold volumes of
// one writer. No operator forces a release, so two nodes may never have one volume: the storage fails the
// test if they do. At the end each job has its own volume.
func TestStorm_KeepsTheInvariants(t *testing.T) {
	s := startStorageCluster(t, 3)
	const jobs = 3
	for i := range 3 {
		s.addNode(fmt.Sprintf("n%d", i+1), attaching)
	}
	for i := range jobs {
		s.registerVolume(fmt.Sprintf("v%d", i))
		s.registerJob(fmt.Sprintf("job%d", i), 1, fmt.Sprintf("v%d", i))
	}
	for i := range jobs {
		s.awaitRunning(fmt.Sprintf("job%d", i), 1)
	}
	seed := uint64(1)
	if text := os.Getenv("BERTH_TEST_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	dice := rand.New(rand.NewPCG(seed, 2))
	servers := cluster.Names(s.Servers)
	events := []struct {
		name string
		do   func()
	}{
		{"a node is partitioned until it is down", func() {
			n := s.Nodes()[dice.IntN(3)]
			s.Net.Cut(n.Name, servers...)
			s.awaitNodeStatus(n, structs.NodeDown)
			s.Net.Heal()
		}},
		{"the leader dies", func() {
			old := s.Leader()
			if err := old.Kill(); err != nil {
				t.Error(err)
			}
			s.Leader(s.Others(old)...)
			s.Restart(old)
		}},
		{"a node and the leader lose each other and the leader its followers", func() {
			old := s.Leader()
			n := s.Nodes()[dice.IntN(3)]
			s.Net.Cut(old.Name, append(cluster.Names(s.Others(old)), n.Name)...)
			s.Leader(s.Others(old)...)
			s.Net.Heal()
		}},
		{"a job is stopped and run again", func() {
			i := dice.IntN(jobs)
			s.stopJob(fmt.Sprintf("job%d", i))
			s.registerJob(fmt.Sprintf("job%d", i), 1, fmt.Sprintf("v%d", i))
		}},
	}
	for range 10 {
		e := events[dice.IntN(len(events))]
		t.Log(e.name)
		e.do()
	}

	for _, n := range s.Nodes() {
		s.awaitNodeStatus(n, structs.NodeReady)
	}
	for i := range jobs {
		id := fmt.Sprintf("job%d", i)
		a := s.awaitRunning(id, 1)[0]
		for _, n := range s.Nodes() {
			if n.ID == a.NodeID {
				s.Await(id+" alone has its volume", func() bool {
					who := s.storage.Mounts(fmt.Sprintf("disk-v%d", i))
					return len(who) == 1 && who[0] == n.Name+" "+a.ID
				})
			}
		}
		s.stopJob(id)
	}
	for i := range jobs {
		s.awaitEnded(fmt.Sprintf("job%d", i))
	}
	s.AwaitRows(s.Leader(), "no claim and no attachment is left", func(tx *state.ReadTx) bool {
		for range csi.ClaimsFrom(tx, structs.AllNamespaces, "", state.Page{}) {
			return false
		}
		for range csi.UnsettledAttachments(tx) {
			return false
		}
		return true
	})
	s.CheckEqualStates()
}
