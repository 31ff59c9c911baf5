package operator

import (
	"berth/api/operator"
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/cluster"
)

// operatorAutopilot has the verbs of berth operator autopilot.
var operatorAutopilot = command.Command{
	Name:     "autopilot",
	Synopsis: "Show the health of the servers, and how dead ones are removed",
	Sub: []command.Command{
		{
			Name:     "health",
			Synopsis: "Show the health of the servers",
			Help: `
The leader checks the servers every two seconds. A server is healthy if the
others take it for alive, and if it follows the leader closely.

The exit code is 0 if all servers are healthy, and 1 if one is not.`,
			Renders:  true,
			Run:      autopilotHealth,
			Examples: "berth operator autopilot health",
		},
		{
			Name:     "get-config",
			Synopsis: "Show how servers get votes and how dead ones are removed",
			Renders:  true,
			Run:      autopilotGetConfig,
			Examples: "berth operator autopilot get-config",
		},
		{
			Name:     "set-config",
			Synopsis: "Change how servers get votes and how dead ones are removed",
			Help: `
Settings without an option stay as they are.`,
			Acts: true,
			Flags: []command.Flag{
				{
					Name:  "check-index",
					Kind:  command.Number,
					Value: "index",
					Usage: "Change only the configuration with this modify index",
				},
				onOff("cleanup-dead-servers", "Remove servers that have failed"),
				{
					Name:  "last-contact-threshold",
					Kind:  command.Duration,
					Value: "duration",
					Usage: "A healthy server has heard of the leader within this time",
				},
				{
					Name:  "max-trailing-logs",
					Kind:  command.Number,
					Value: "entries",
					Usage: "A healthy server is behind the leader by at most this number of log entries",
				},
				{
					Name:  "min-quorum",
					Kind:  command.Number,
					Value: "voters",
					Usage: "Remove no voter if fewer would stay",
				},
				{
					Name:  "server-stabilization-time",
					Kind:  command.Duration,
					Value: "duration",
					Usage: "A new server is healthy for this time before it gets a vote",
				},
				onOff("enable-redundancy-zones", "One server of each redundancy_zone votes"),
			},
			Run: autopilotSetConfig,
			Examples: "berth operator autopilot set-config -min-quorum 3\n" +
				"berth operator autopilot set-config -cleanup-dead-servers=false",
		},
	},
}

// autopilotHealth ends with code 1 if a server is unhealthy, after it has shown all servers.
func autopilotHealth(ctx context.Context, c *command.Call) error {
	health, _, err := operator.AutopilotHealth(ctx, c.API, nil)
	if err != nil {
		return err
	}

	err = c.Show(health, func() error {
		c.Pairs(
			"Healthy", strconv.FormatBool(health.Healthy),
			"Failure tolerance", fmt.Sprint(health.FailureTolerance),
		)
		c.Section("Servers", serverHealthTitles, serverHealthRows(health.Servers))
		if len(health.Differences) > 0 {
			c.Section("Settings that the servers do not have alike", "Setting|Server|Value",
				differenceRows(health.Differences))
		}
		return nil
	})

	if err == nil && !health.Healthy {
		err = structs.Internalf("a server is unhealthy")
	}

	return err
}

func differenceRows(all []*cluster.SettingDifference) (rows command.Grid) {
	for _, d := range all {
		for _, s := range d.Servers {
			rows.AddRow(d.Setting, s.Server, cmp.Or(s.Value, "not set"))
		}
	}
	return rows
}

const serverHealthTitles = "Server|ID|Address|Gossip|Version|Leader|Voter|Healthy|" +
	"Last contact|Last term|Last index|Since"

func serverHealthRows(servers []*cluster.ServerHealth) (rows command.Grid) {
	for _, s := range servers {
		contact := s.LastContact.String()
		if s.LastContact < 0 {
			contact = "no contact"
		}

		rows.AddRow(
			s.Name,
			s.ID,
			s.Address,
			s.SerfStatus,
			s.Version,
			show.YesNo(s.Leader),
			show.YesNo(s.Voter),
			show.YesNo(s.Healthy),
			contact,
			fmt.Sprint(s.LastTerm),
			fmt.Sprint(s.LastIndex),
			s.StableSince.UTC().Format(time.RFC3339),
		)
	}

	return rows
}

// autopilotGetConfig shows the index that autopilotSetConfig takes as -check-index.
func autopilotGetConfig(ctx context.Context, c *command.Call) error {
	config, _, err := operator.GetAutopilotConfig(ctx, c.API, nil)
	if err != nil {
		return err
	}

	return c.Show(config, func() error {
		c.Pairs(
			"Cleanup dead servers", strconv.FormatBool(config.CleanupDeadServers),
			"Last contact threshold", config.LastContactThreshold.String(),
			"Max trailing logs", fmt.Sprint(config.MaxTrailingLogs),
			"Min quorum", fmt.Sprint(config.MinQuorum),
			"Server stabilization time", config.ServerStabilizationTime.String(),
			"Enable redundancy zones", strconv.FormatBool(config.EnableRedundancyZones),
			"Modify index", fmt.Sprint(config.ModifyIndex),
		)
		return nil
	})
}

// autopilotSetConfig changes the configuration that it has read. The servers reject the change if another has
// come between.
func autopilotSetConfig(ctx context.Context, c *command.Call) error {
	config, _, err := operator.GetAutopilotConfig(ctx, c.API, nil)
	if err != nil {
		return err
	}

	if isSet(c, "check-index") {
		config.ModifyIndex = uint64(c.Number("check-index"))
	}

	err = changeAutopilot(c, config)
	if err != nil {
		return err
	}

	updated, err := operator.SetAutopilotConfig(ctx, c.API, config, true)
	if err != nil {
		return err
	}

	if !updated {
		return structs.Conflictf("the configuration has another index than %d: "+
			"\"berth operator autopilot get-config\" shows it", config.ModifyIndex)
	}

	return c.Report(command.Changed{"Updated": "true"}, "The configuration of autopilot is changed")
}

// changeAutopilot sets the settings that have an option.
func changeAutopilot(c *command.Call, config *cluster.AutopilotConfig) error {
	for name, setting := range map[string]*uint64{
		"max-trailing-logs": &config.MaxTrailingLogs,
		"min-quorum":        &config.MinQuorum,
	} {
		if isSet(c, name) {
			*setting = uint64(c.Number(name))
		}
	}

	for name, setting := range map[string]*time.Duration{
		"last-contact-threshold":    &config.LastContactThreshold,
		"server-stabilization-time": &config.ServerStabilizationTime,
	} {
		if isSet(c, name) {
			*setting = c.Duration(name)
		}
	}

	return setSwitches(c, map[string]*bool{
		"cleanup-dead-servers":    &config.CleanupDeadServers,
		"enable-redundancy-zones": &config.EnableRedundancyZones,
	})
}
