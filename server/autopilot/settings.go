package autopilot

import (
	"fmt"
	"time"

	"berth/structs/cluster"
	"berth/structs/validate"
)

// Settings are the `autopilot` block of an agent: the configuration that the first leader stores. A setting
// that it leaves out has its default.
type Settings struct {
	CleanupDeadServers      bool          `hcl:"cleanup_dead_servers"`
	LastContactThreshold    time.Duration `hcl:"last_contact_threshold"`
	MaxTrailingLogs         uint64        `hcl:"max_trailing_logs"`
	MinQuorum               uint64        `hcl:"min_quorum"`
	ServerStabilizationTime time.Duration `hcl:"server_stabilization_time"`
	EnableRedundancyZones   bool          `hcl:"enable_redundancy_zones"`
}

// DefaultSettings returns the settings of an agent without the block.
func DefaultSettings() Settings {
	d := cluster.DefaultAutopilotConfig()
	return Settings{
		CleanupDeadServers:      d.CleanupDeadServers,
		LastContactThreshold:    d.LastContactThreshold,
		MaxTrailingLogs:         d.MaxTrailingLogs,
		MinQuorum:               d.MinQuorum,
		ServerStabilizationTime: d.ServerStabilizationTime,
		EnableRedundancyZones:   d.EnableRedundancyZones,
	}
}

// Row returns the settings as the row that the first leader stores.
func (s *Settings) Row() cluster.AutopilotConfig {
	return cluster.AutopilotConfig{
		CleanupDeadServers:      s.CleanupDeadServers,
		LastContactThreshold:    s.LastContactThreshold,
		MaxTrailingLogs:         s.MaxTrailingLogs,
		MinQuorum:               s.MinQuorum,
		ServerStabilizationTime: s.ServerStabilizationTime,
		EnableRedundancyZones:   s.EnableRedundancyZones,
	}
}

// Validate returns the first fault of the settings.
func (s *Settings) Validate() error {
	row := s.Row()
	err := validate.AutopilotConfig(&row)
	if err != nil {
		return fmt.Errorf("autopilot: %w", err)
	}
	return nil
}
