package assembly

import (
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/config"
	"berth/client/csi/volumes"
	"berth/client/hooks/artifact"
	"berth/internal/backoff"
)

// noConsul is a Consul that is there, and that no test calls.
type noConsul struct{ Consul }

// The agent gives its own ports to no task by an artifact, and bounds the downloads of the node.
func TestArtifactConfig_HasThePortsAndTheBoundOfTheNode(t *testing.T) {
	cfg := config.DefaultConfig()
	cfg.OwnPorts = []int{4646, 4647}
	got := artifactConfig(Parts{Config: cfg, Logger: hclog.NewNullLogger()})
	if !slices.Equal(got.AgentPorts, cfg.OwnPorts) {
		t.Errorf("got the ports %v", got.AgentPorts)
	}
	if want := artifact.NodeSlots().Most; got.Slots.Most != want || want < 2 || want > 8 {
		t.Errorf("got %d slots, want %d, from 2 to 8", got.Slots.Most, want)
	}
}

// The hooks whose set-up waits for the servers end their pauses with the end of a cut.
func TestHooks_KnowTheEndOfACut(t *testing.T) {
	p := Parts{
		Config:      config.DefaultConfig(),
		Consul:      &noConsul{},
		Logger:      hclog.NewNullLogger(),
		ServersBack: &backoff.Recovery{},
	}
	for name, back := range map[string]*backoff.Recovery{
		"the volumes":      volumesConfig(p, &volumes.Manager{}, nil, nil).ServersBack,
		"the predecessors": watcherConfig(p).ServersBack,
		"the disk":         diskConfig(p).ServersBack,
		"the tokens":       tokenConfig(p).ServersBack,
		"the lookups":      lookupConfig(p, mustLogins(t, p)).ServersBack,
	} {
		if back != p.ServersBack {
			t.Errorf("%s: the hook has %p, not the recovery of the parts", name, back)
		}
	}
}

// The data of an allocation is complete for others when the servers have sent the allocations of the node.
func TestDiskConfig_IsCompleteWithTheServers(t *testing.T) {
	p := Parts{Config: config.DefaultConfig(), Contacted: make(chan struct{})}
	if diskConfig(p).Complete != p.Contacted {
		t.Error("the disk does not wait for the servers")
	}
}

// Drivers that divide the processors count with the sum of the speeds that the operator sets.
func TestPluginConfig_HasTheSpeedsThatTheOperatorSets(t *testing.T) {
	cfg := config.DefaultConfig()
	cfg.CPUTotalCompute = 4000
	if got := pluginConfig(cfg).Compute; got != 4000 {
		t.Errorf("got %d, want 4000", got)
	}
}
