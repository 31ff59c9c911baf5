package server

import (
	"testing"

	"berth/server/control"
)

// Each setting of the garbage collection reaches the loop.
func TestConfig_GivesTheCollectionItsSettings(t *testing.T) {
	c := DefaultConfig()
	c.EvalGC = 1
	c.JobGC = 2
	c.NodeGC = 3
	c.GCInterval = 4
	c.GCRows = 5
	loops := c.control()
	keep := control.GCThresholds{
		Eval: 1,
		Job:  2,
		Node: 3,
		Rows: 5,
	}
	if loops.GCKeep != keep || loops.GCInterval != 4 {
		t.Errorf("the loops have %+v, each %s", loops.GCKeep, loops.GCInterval)
	}
}
