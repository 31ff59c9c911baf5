package client

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/membership"
	"berth/client/store"
	"berth/structs"
	"berth/test/kit"
)

// A machine starts again while its disk has no byte for the mark of the boot. The agent has a server, too.
func TestNode_InAnotherBootWaitsForSpaceAndGoesOn(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.dir = kit.MountDisk(t, "8m")
		r.boot = "b1"
		r.start(false)
		r.pass(time.Second)
		r.stop()
		before := len(r.servers.requests())

		free := kit.FillDisk(t, r.dir, 0)
		var log kit.Output
		r.log = hclog.New(&hclog.LoggerOptions{Output: &log})
		r.boot = "b2"
		r.prepare(false)
		kit.Crowd(t, func(table, key, text string) error {
			return store.NewTable[string](table).Put(r.client.db, key, &text)
		})
		r.run()
		defer r.stop()
		r.pass(5 * time.Minute)
		if n := len(r.servers.requests()); n != before {
			t.Errorf("%d registrations without the mark of this boot", n-before)
		}
		lack := r.client.Lack()
		for _, word := range []string{
			"the node waits for space: ", "no space left", r.dir + " has ",
			"below " + r.dir, "filler ", "client/client.db ",
		} {
			if !strings.Contains(lack, word) {
				t.Errorf("the node lacks %q, without %q", lack, word)
			}
		}
		for _, line := range []string{"waiting for the disk", "the disk of the node is full"} {
			if n := strings.Count(log.String(), line); n != 1 {
				t.Errorf("the log has %d times %q:\n%s", n, line, &log)
			}
		}

		free()
		r.pass(5 * time.Second)
		if n := len(r.servers.requests()); n <= before || r.client.Lack() != "" {
			t.Errorf("with space: %d registrations, and it lacks %q", n-before, r.client.Lack())
		}
		if !strings.Contains(log.String(), "the disk of the node has space again") {
			t.Errorf("the log does not tell the end:\n%s", &log)
		}
	})
}

// The disk fills up under a node, and is told once while the space is about the bound.
func TestNode_TellsOnceThatItsDiskIsFull(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.dir = kit.MountDisk(t, "16m")
		var log kit.Output
		r.log = hclog.New(&hclog.LoggerOptions{Output: &log})
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		if lack := r.client.Lack(); lack != "" {
			t.Fatalf("it lacks %q", lack)
		}
		for range 3 {
			free := kit.FillDisk(t, r.dir, fullBelow-4096)
			r.pass(2 * time.Second)
			lack := r.client.Lack()
			if !strings.Contains(lack, "the disk of the node is full: the file system "+r.dir) {
				t.Errorf("it lacks %q", lack)
			}
			free()
			free = kit.FillDisk(t, r.dir, spaceAbove-1<<20)
			r.pass(2 * time.Second)
			if r.client.Lack() == "" {
				t.Error("the disk is not full any more while another task may fill it")
			}
			free()
		}
		if n := strings.Count(log.String(), "is full"); n != 1 {
			t.Errorf("told %d times:\n%s", n, &log)
		}
		r.pass(2 * time.Second)
		if lack := r.client.Lack(); lack != "" {
			t.Errorf("with space it lacks %q", lack)
		}
	})
}

// A node joins its cluster on a full disk. Without the file the next agent would take any cluster for its
// own.
func TestNode_RecordsItsClusterOnceThereIsSpace(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.dir = kit.MountDisk(t, "8m")
		var log kit.Output
		r.log = hclog.New(&hclog.LoggerOptions{Output: &log})
		r.servers.cluster = "c1"
		r.prepare(false)
		free := kit.FillDisk(t, r.dir, 0)
		r.run()
		defer r.stop()
		r.pass(time.Minute)
		recorded := func() string {
			t.Helper()
			id, err := membership.ReadCluster(r.client.config().StateDir())
			if err != nil {
				t.Error(err)
			}
			return id
		}
		if id := recorded(); id != "" || len(r.servers.requests()) == 0 {
			t.Fatalf("the full disk has the cluster %q after %d requests", id, len(r.servers.requests()))
		}
		const line = "failed to record the cluster of this node"
		if n := strings.Count(log.String(), line); n != 1 || !strings.Contains(log.String(), r.dir+" has 0 B of ") {
			t.Errorf("the log has %d times %q:\n%s", n, line, &log)
		}

		// The servers have lost the node in a restore.
		r.servers.do(func() { clear(r.servers.nodes) })
		r.pass(time.Minute)
		registrations := r.servers.called(structs.NodeRegister.Name)
		last := registrations[len(registrations)-1].req.(*structs.NodeRegisterRequest)
		if len(registrations) < 2 || last.ClusterID != "c1" {
			t.Errorf("registration %d is for the cluster %q, want c1", len(registrations), last.ClusterID)
		}

		free()
		r.pass(30 * time.Second)
		if id := recorded(); id != "c1" {
			t.Errorf("with space the disk has the cluster %q, want c1", id)
		}
	})
}
