package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"berth/structs"
)

// AutopilotConfig is the row with the rules by which the leader gives votes and removes dead servers. There
// is at most one. While there is none, DefaultAutopilotConfig counts.
type AutopilotConfig struct {
	CleanupDeadServers      bool          // failed servers are removed
	LastContactThreshold    time.Duration // a healthy server has heard of the leader within it
	MaxTrailingLogs         uint64        // log entries by which a healthy server may be late
	MinQuorum               uint64        // voters that stay, at least, when failed ones are removed
	ServerStabilizationTime time.Duration // a server is healthy for that long before it has a vote
	EnableRedundancyZones   bool          // one server of each redundancy_zone votes
	// MostVoters is the largest number of servers that had a vote. The leader notes it, and no request of a
	// user changes it. A removal by an operator lowers it.
	MostVoters uint64
	structs.Indexes
}

// DefaultAutopilotConfig returns the configuration that counts while none is stored.
func DefaultAutopilotConfig() AutopilotConfig {
	return AutopilotConfig{
		CleanupDeadServers:      true,
		LastContactThreshold:    200 * time.Millisecond,
		MaxTrailingLogs:         250,
		ServerStabilizationTime: 10 * time.Second,
		EnableRedundancyZones:   true,
	}
}

// AutopilotConfigJSON is the JSON of an AutopilotConfig: the dialect has these durations as texts. In a
// request, an empty text and a MaxTrailingLogs of 0 stand for the default.
type AutopilotConfigJSON struct {
	CleanupDeadServers      bool
	LastContactThreshold    string
	MaxTrailingLogs         uint64
	MinQuorum               uint64
	ServerStabilizationTime string
	EnableRedundancyZones   bool
	structs.Indexes
}

// Row returns the configuration of the JSON. The error is invalid if a text is no duration.
func (j *AutopilotConfigJSON) Row() (AutopilotConfig, error) {
	row := DefaultAutopilotConfig()
	row.CleanupDeadServers = j.CleanupDeadServers
	row.MinQuorum = j.MinQuorum
	row.EnableRedundancyZones = j.EnableRedundancyZones
	row.Indexes = j.Indexes
	if j.MaxTrailingLogs != 0 {
		row.MaxTrailingLogs = j.MaxTrailingLogs
	}
	err := readDuration("LastContactThreshold", j.LastContactThreshold, &row.LastContactThreshold)
	if err != nil {
		return AutopilotConfig{}, err
	}
	err = readDuration("ServerStabilizationTime", j.ServerStabilizationTime, &row.ServerStabilizationTime)
	return row, err
}

// readDuration reads the text of a field, and leaves d as it is for an empty one.
func readDuration(field, text string, d *time.Duration) error {
	if text == "" {
		return nil
	}
	read, err := time.ParseDuration(text)
	if err != nil {
		return structs.Invalidf("%s is %q; expected a duration such as 10s",
			field, structs.Cut(text, structs.MaxQuoted))
	}
	*d = read
	return nil
}

// MarshalJSON writes the durations as texts.
func (c AutopilotConfig) MarshalJSON() ([]byte, error) {
	return json.Marshal(AutopilotConfigJSON{
		CleanupDeadServers:      c.CleanupDeadServers,
		LastContactThreshold:    c.LastContactThreshold.String(),
		MaxTrailingLogs:         c.MaxTrailingLogs,
		MinQuorum:               c.MinQuorum,
		ServerStabilizationTime: c.ServerStabilizationTime.String(),
		EnableRedundancyZones:   c.EnableRedundancyZones,
		Indexes:                 c.Indexes,
	})
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (c *AutopilotConfig) UnmarshalJSON(b []byte) error {
	var j AutopilotConfigJSON
	err := json.Unmarshal(b, &j)
	if err != nil {
		return err
	}
	*c, err = j.Row()
	return err
}

// AutopilotConfigGet reads the configuration of autopilot.
var AutopilotConfigGet = structs.Read[structs.QueryRequest, AutopilotConfigResponse](
	"Operator.AutopilotGetConfiguration")

// AutopilotConfigResponse has the configuration. Its indexes are 0 while none is stored.
type AutopilotConfigResponse struct {
	Config *AutopilotConfig
	structs.QueryMeta
}

// AutopilotConfigSet replaces the configuration of autopilot.
var AutopilotConfigSet = structs.Write[AutopilotConfigRequest, AutopilotConfigSetResponse](
	"Operator.AutopilotSetConfiguration")

// AutopilotConfigRequest has the new configuration. With CAS it replaces only a configuration with the
// ModifyIndex of the new one; 0 requires that none is stored.
type AutopilotConfigRequest struct {
	Config AutopilotConfig
	CAS    bool
	structs.WriteOptions
}

// AutopilotConfigSetResponse reports whether the configuration was replaced. It is false only with CAS.
type AutopilotConfigSetResponse struct {
	Updated bool
	structs.WriteMeta
}

// StatusRaftStats reads how far one server has followed the log. Each server answers it itself.
var StatusRaftStats = structs.Read[structs.QueryRequest, RaftStats]("Status.RaftStats")

// RaftStats tell how far a server has followed the log. QueryMeta has the time since its last contact with
// the leader.
type RaftStats struct {
	LastTerm  uint64 // of the last entry of its log
	LastIndex uint64 // of the last entry of its log
	Wall      int64  `codec:",omitempty"` // of its wall clock, UnixNano
	// Settings has the settings of the server that all servers should have alike, by their names. They are no
	// secrets.
	Settings map[string]string `codec:",omitempty"`
	structs.QueryMeta
}

// AutopilotHealth reads the health of the servers, as the leader sees it.
var AutopilotHealth = structs.Read[structs.QueryRequest, AutopilotHealthResponse]("Operator.ServerHealth")

// AutopilotHealthResponse has the health of all servers of the Raft configuration.
type AutopilotHealthResponse struct {
	Healthy          bool     // all servers are healthy
	FailureTolerance int      // healthy voters that may fail before the cluster stops answering
	Leader           string   // the ID of the leader
	Voters           []string // the IDs of the servers with a vote, the leader first
	Servers          []*ServerHealth
	// Differences are the settings that the live servers do not have alike, by their names, the entries after
	// which their states differ, and the wall clocks that differ from the cluster time. Healthy and the votes
	// do not depend on them: a change of a setting restarts one server after another.
	Differences []*SettingDifference `json:",omitempty"`
	structs.QueryMeta
}

// StateAt begins the name of a difference between states. The number of an entry of the log follows. Its
// values are digests of the state after this entry, on the servers that have one.
const StateAt = "state after entry "

// SettingDifference is a setting that the servers do not have alike.
type SettingDifference struct {
	Setting string          // such as tls.mode
	Servers []ServerSetting // by their names
}

// ServerSetting is the setting of one server.
type ServerSetting struct {
	Server string // its name
	Value  string
}

// WallClock is the name of the difference between the wall clocks of servers and the cluster time. It has the
// servers whose clocks differ from that.
const WallClock = "wall clock"

// OfState reports whether the states of the servers differ: they have applied the same entries of the log.
func (d SettingDifference) OfState() bool { return strings.HasPrefix(d.Setting, StateAt) }

// Remedy is the next step, without a full stop.
func (d SettingDifference) Remedy() string {
	if d.OfState() {
		return "keep a copy of the data directory of the server that differs from the others, remove the " +
			"directory and start the server again: it joins as a replacement (see docs/operations/servers.md)"
	}
	if d.Setting == WallClock {
		return "set the clocks of these servers right; if they are right, see `berth operator clock status`"
	}
	return "write the same value into the configuration of each server, and restart one after the other"
}

// String is a sentence about the difference, without a full stop.
func (d SettingDifference) String() string {
	var values []string
	for _, s := range d.Servers {
		values = append(values, fmt.Sprintf("%s on %s", cmp.Or(s.Value, "not set"), s.Server))
	}
	if d.Setting == WallClock {
		return "wall clocks of servers differ from the cluster time: " + strings.Join(values, ", ")
	}
	return "the servers differ in " + d.Setting + ": " + strings.Join(values, ", ")
}

// ServerHealth is the health of one server, as the leader sees it.
type ServerHealth struct {
	ID          string
	Name        string
	Address     string // host:port of Raft and RPC
	SerfStatus  string // in the gossip: alive, leaving, left or failed
	Version     string
	Leader      bool
	LastContact time.Duration // since the last contact with the leader; in JSON a text
	LastTerm    uint64        // of the last entry of its log
	LastIndex   uint64        // of the last entry of its log
	Healthy     bool
	Voter       bool
	StableSince time.Time // the time at which Healthy last changed
}

type plainServerHealth ServerHealth

type serverHealthJSON struct {
	plainServerHealth
	LastContact string
}

// MarshalJSON writes LastContact as a text, as the dialect has it.
func (s ServerHealth) MarshalJSON() ([]byte, error) {
	return json.Marshal(serverHealthJSON{
		plainServerHealth: plainServerHealth(s),
		LastContact:       s.LastContact.String(),
	})
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (s *ServerHealth) UnmarshalJSON(b []byte) error {
	var j serverHealthJSON
	err := json.Unmarshal(b, &j)
	if err != nil {
		return err
	}
	*s = ServerHealth(j.plainServerHealth)
	return readDuration("LastContact", j.LastContact, &s.LastContact)
}
