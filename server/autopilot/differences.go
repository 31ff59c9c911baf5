package autopilot

import (
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"

	"berth/structs/cluster"
)

// settings has what the servers tell of the settings that all should have alike, and of their states. One
// that does not answer, or is too old to tell, is not in it.
type settings struct {
	mu       sync.Mutex
	byServer map[string]map[string]string // the values by the names of the server and of the setting
	reported map[string]string            // the sentences by the names of the settings
}

func (s *settings) set(byServer map[string]map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byServer = byServer
}

// differences returns the settings that not all servers have alike. A setting that a server does not name has
// the value "": a server of another version may not have it.
func (s *settings) differences() (all []*cluster.SettingDifference) {
	s.mu.Lock()
	byServer := s.byServer
	s.mu.Unlock()

	names := map[string]bool{}
	for _, values := range byServer {
		for name := range values {
			names[name] = true
		}
	}

	servers := slices.Sorted(maps.Keys(byServer))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d := &cluster.SettingDifference{Setting: name}
		seen := map[string]bool{}
		for _, server := range servers {
			value, told := byServer[server][name]
			if !told && d.OfState() {
				continue // it is not there yet, or was not yet
			}
			seen[value] = true
			d.Servers = append(d.Servers, cluster.ServerSetting{Server: server, Value: value})
		}
		if len(seen) > 1 {
			all = append(all, d)
		}
	}
	return all
}

// ofClocks returns the difference between wall clocks of servers and the cluster time, nil for none.
func ofClocks(wrong []cluster.WrongClock) *cluster.SettingDifference {
	if len(wrong) == 0 {
		return nil
	}
	d := &cluster.SettingDifference{Setting: cluster.WallClock}
	for _, c := range wrong {
		d.Servers = append(d.Servers, cluster.ServerSetting{Server: c.Server, Value: c.String()})
	}
	return d
}

// report writes each difference into the log once, and counts them as a metric.
func (s *settings) report(logger hclog.Logger) {
	all := s.differences()
	metrics.SetGauge([]string{"autopilot", "differences"}, float32(len(all)))

	s.mu.Lock()
	defer s.mu.Unlock()
	now := map[string]string{}
	for _, d := range all {
		now[d.Setting] = d.String()
		if s.reported[d.Setting] == now[d.Setting] {
			continue
		}
		if d.OfState() {
			logger.Error("the servers have applied the same entries and have different states",
				"difference", now[d.Setting], "remedy", d.Remedy())
		} else {
			logger.Warn("the servers do not have a setting alike: which one counts depends on the server that leads",
				"setting", d.Setting, "difference", now[d.Setting])
		}
	}
	for name := range s.reported {
		ofState := cluster.SettingDifference{Setting: name}.OfState()
		if now[name] == "" && !ofState {
			logger.Info("all servers have a setting alike again", "setting", name)
		}
	}
	s.reported = now
}
