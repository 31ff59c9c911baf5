package client

import (
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/hooks/artifact"
)

// The agent gives its own ports to no task by an artifact, and bounds the downloads of the node.
func TestArtifactConfig_HasThePortsAndTheBoundOfTheNode(t *testing.T) {
	cfg := DefaultConfig()
	cfg.OwnPorts = []int{4646, 4647}
	got := artifactConfig(Parts{Config: cfg, Logger: hclog.NewNullLogger()})
	if !slices.Equal(got.AgentPorts, cfg.OwnPorts) {
		t.Errorf("got the ports %v", got.AgentPorts)
	}
	if want := artifact.NodeSlots().Most; got.Slots.Most != want || want < 2 || want > 8 {
		t.Errorf("got %d slots, want %d, from 2 to 8", got.Slots.Most, want)
	}
}

// Drivers that divide the processors count with the sum of the speeds that the operator sets.
func TestPluginConfig_HasTheSpeedsThatTheOperatorSets(t *testing.T) {
	cfg := DefaultConfig()
	cfg.CPUTotalCompute = 4000
	if got := pluginConfig(cfg).Compute; got != 4000 {
		t.Errorf("got %d, want 4000", got)
	}
}
