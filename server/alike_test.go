package server

import (
	"reflect"
	"strings"
	"testing"

	"berth/server/fencing"
)

// mayDiffer has the settings of the block that servers may have of their own, with the reason.
var mayDiffer = map[string]string{
	"enabled":                  "a server without it is none",
	"bootstrap_expect":         "one that joins has 0",
	"retry_join":               "addresses, of which one has to answer",
	"retry_interval":           "the start of one server",
	"encrypt":                  "the first key: the keys in use are those of the gossip",
	"raft_snapshot_threshold":  "the files of one server",
	"raft_trailing_logs":       "the files of one server",
	"redundancy_zone":          "the place of one server",
	"non_voting_server":        "the place of one server",
	"default_scheduler_config": "the first leader stores it",
	"keyring":                  "the place of the key; its fingerprint is compared in the gossip",
	"snapshot_agent":           "the place of archives; those that are overdue are told",
	"enable_event_broker":      "the memory of one server",
	"event_buffer_size":        "the memory of one server",
	"event_buffer_bytes":       "the memory of one server",
}

// Each setting is compared, or has a reason.
func TestAlike_HasEachSettingOrAReason(t *testing.T) {
	c := DefaultConfig()
	all := c.alike()
	found := map[string]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Anonymous {
				visit(f.Type)
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("hcl"), ",")
			if name == "" {
				continue
			}
			found[name] = true
			_, compared := all["server."+name]
			if compared == (mayDiffer[name] != "") {
				t.Errorf("the setting %s is compared: %v, and may differ: %q", name, compared, mayDiffer[name])
			}
		}
	}
	visit(reflect.TypeFor[Config]())
	for name := range mayDiffer {
		if !found[name] {
			t.Errorf("there is no setting %s", name)
		}
	}
	for name := range all {
		if !found[strings.TrimPrefix(name, "server.")] {
			t.Errorf("there is no setting %s", name)
		}
	}
}

// The values of the options of a device may be secrets. All else is compared.
func TestAlike_ComparesDevicesWithoutTheirSecrets(t *testing.T) {
	device := func(change func(*fencing.Device)) string {
		d := &fencing.Device{
			Name:    "power",
			Agent:   "fence_ipmilan",
			Options: map[string]string{"password": "secret"},
		}
		change(d)
		return describeDevices([]*fencing.Device{d})
	}
	same := device(func(*fencing.Device) {})
	if got := device(func(d *fencing.Device) { d.Options["password"] = "other" }); got != same {
		t.Errorf("the value of an option is told: %s and %s", same, got)
	}
	for name, change := range map[string]func(*fencing.Device){
		"agent":  func(d *fencing.Device) { d.Agent = "fence_dummy" },
		"option": func(d *fencing.Device) { d.Options["ip"] = "10.0.0.9" },
		"plug":   func(d *fencing.Device) { d.Plug = "${pin.plug}" },
		"match":  func(d *fencing.Device) { d.Match = map[string]string{"pin.rack": "1"} },
		"scope":  func(d *fencing.Device) { d.Scope = fencing.ScopeStorage },
	} {
		if got := device(change); got == same {
			t.Errorf("%s: nothing differs in %s", name, got)
		}
	}
}
