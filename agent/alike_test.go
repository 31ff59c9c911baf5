package agent

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/internal/auditlog"
	"berth/internal/peertls"
)

// ofOneServer has the settings of the agent that servers may have of their own, with the reason.
var ofOneServer = map[string]string{
	"name":                      "each has its own",
	"data_dir":                  "the files of one machine",
	"operator_socket":           "the files of one machine",
	"bind_addr":                 "the network of one machine",
	"ports":                     "the network of one machine",
	"addresses":                 "the network of one machine",
	"advertise":                 "the network of one machine",
	"log_level":                 "the log of one machine",
	"log_json":                  "the log of one machine",
	"log_file":                  "the log of one machine",
	"log_rotate_bytes":          "the log of one machine",
	"log_rotate_duration":       "the log of one machine",
	"log_rotate_max_files":      "the log of one machine",
	"enable_debug":              "it opens the profiles of one machine, while access control is off",
	"leave_on_interrupt":        "the end of one agent",
	"leave_on_terminate":        "the end of one agent",
	"region":                    "a server of another region does not join",
	"datacenter":                "the place of one machine",
	"http_allowed_hosts":        "the names of one machine",
	"http_api_response_headers": "the answers of one agent",
	"ui":                        "the page of one agent",
	"telemetry":                 "the metrics of one agent",
	"server":                    "package server compares it",
	"autopilot":                 "the first leader stores it",
	"acl":                       "package server compares it with the mode of the cluster",
	"client":                    "the node of one machine",
	"consul":                    "the agent of Consul beside one machine",
	"vault":                     "the tasks of one machine",
	"plugin_dir":                "the drivers of one machine",
	"plugin":                    "the drivers of one machine",
	"tls.ca_file":               "the files of one machine",
	"tls.cert_file":             "the files of one machine",
	"tls.key_file":              "the files of one machine",
	"tls.ca_key_file":           "the files of one machine",
	"tls.renew":                 "the certificate of one machine",
}

// settingsOf yields the settings of a configuration by their names. Of the blocks tls and limits it yields
// each one.
func settingsOf(typ reflect.Type, above string) (names []string) {
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("hcl"), ",")
		switch name {
		case "":
		case "tls", "limits":
			names = append(names, settingsOf(typ.Field(i).Type, name+".")...)
		default:
			names = append(names, above+name)
		}
	}
	return names
}

// Each setting of the agent is compared among the servers, or has a reason.
func TestAlike_HasEachSettingOfTheAgentOrAReason(t *testing.T) {
	c := DefaultConfig()
	compared := c.alike()
	names := settingsOf(reflect.TypeFor[Config](), "")
	for _, name := range names {
		_, isCompared := compared[name]
		if isCompared == (ofOneServer[name] != "") {
			t.Errorf("the setting %s is compared: %v, and may differ: %q", name, isCompared, ofOneServer[name])
		}
	}
	listed := slices.AppendSeq(slices.Collect(maps.Keys(compared)), maps.Keys(ofOneServer))
	for _, name := range listed {
		if !slices.Contains(names, name) {
			t.Errorf("there is no setting %s", name)
		}
	}
}

// A change of a setting changes what is compared, under its name alone.
func TestAlike_DiffersWithTheSettings(t *testing.T) {
	sink := &auditlog.Sink{Name: "s", Type: "file", DeliveryGuarantee: "enforced"}
	for name, changes := range map[string][]func(*Config){
		"tls.mode": {func(c *Config) { c.TLS.Mode = peertls.ModePrefer },
			func(c *Config) { c.TLS.Mode = peertls.ModeRequire }},
		"tls.plain_loopback":               {func(c *Config) { c.TLS.PlainLoopback = true }},
		"limits.http_max_conns":            {func(c *Config) { c.Limits.HTTPMaxConns++ }},
		"limits.http_max_conns_per_client": {func(c *Config) { c.Limits.HTTPMaxConnsPerClient++ }},
		"audit": {func(c *Config) { c.Audit = auditlog.Config{Enabled: true, Sinks: []*auditlog.Sink{sink}} },
			func(c *Config) { c.Audit.Sinks = nil },
			func(c *Config) { c.Audit.Filters = []*auditlog.Filter{{Name: "f"}} },
			func(c *Config) { c.Audit.Filters = []*auditlog.Filter{{Name: "f", Endpoints: []string{"/v1/jobs"}}} }},
	} {
		c := DefaultConfig()
		for i, change := range changes {
			before := c.alike()
			change(&c)
			for setting, now := range c.alike() {
				if (now != before[setting]) != (setting == name) {
					t.Errorf("change %d of %s: %s was %q and is %q", i, name, setting, before[setting], now)
				}
			}
		}
	}
}
