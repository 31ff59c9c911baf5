package client

import (
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// The agent gives its own ports to no task by an artifact.
func TestArtifactConfig_HasThePortsOfTheAgent(t *testing.T) {
	cfg := DefaultConfig()
	cfg.OwnPorts = []int{4646, 4647}
	got := artifactConfig(Parts{Config: cfg, Logger: hclog.NewNullLogger()})
	if !slices.Equal(got.AgentPorts, cfg.OwnPorts) {
		t.Errorf("got the ports %v", got.AgentPorts)
	}
}
