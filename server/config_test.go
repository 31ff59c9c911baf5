package server

import (
	"slices"
	"strings"
	"testing"

	"berth/server/control/garbage"
	"berth/server/fencing"
)

// Each setting of the garbage collection reaches the loop.
func TestConfig_GivesTheCollectionItsSettings(t *testing.T) {
	c := DefaultConfig()
	c.EvalGC = 1
	c.JobGC = 2
	c.NodeGC = 3
	c.GCInterval = 4
	c.GCRows = 5
	c.FenceParallel = 3
	loops := c.control()
	keep := garbage.Thresholds{
		Eval: 1,
		Job:  2,
		Node: 3,
		Rows: 5,
	}
	if loops.FenceParallel != 3 {
		t.Errorf("the loops fence %d nodes at once, want 3", loops.FenceParallel)
	}
	if loops.GCKeep != keep || loops.GCInterval != 4 {
		t.Errorf("the loops have %+v, each %s", loops.GCKeep, loops.GCInterval)
	}
}

func TestConfig_ChecksTheDevicesThatFence(t *testing.T) {
	good := []*fencing.Device{{Name: "a", Agent: "x"}, {Name: "b", Agent: "x"}}
	for name, tc := range map[string]struct {
		devices []*fencing.Device
		want    string
	}{
		"good":     {good, ""},
		"no agent": {[]*fencing.Device{{Name: "a"}}, `server.fencing "a": agent "" must be`},
		"a name twice": {slices.Concat(good, good),
			`server.fencing "a": there are two of them; expected each name once`},
		"many": {make([]*fencing.Device, 65), "server.fencing: there are 65 blocks; expected at most 64"},
	} {
		c := DefaultConfig()
		c.DataDir = "/data"
		c.Name = "s1"
		c.Fencing = tc.devices
		err := c.Validate()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

func TestConfig_BoundsTheNodesThatAreFencedAtOnce(t *testing.T) {
	for n, good := range map[int]bool{0: false, 1: true, 16: true, 17: false} {
		c := DefaultConfig()
		c.DataDir = "/data"
		c.Name = "s1"
		c.FenceParallel = n
		err := c.Validate()
		if (err == nil) != good || !good && !strings.Contains(err.Error(), "expected 1 to 16") {
			t.Errorf("%d at once: %v", n, err)
		}
	}
}
