package state_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// messages writes the events between two states of a node's parts.
func messages(old, now state.NodeHealth) []string {
	var all []string
	for _, e := range state.EventsBetween(old, now, time.Unix(1, 0)) {
		all = append(all, e.Subsystem+": "+e.Message)
	}
	return all
}

func TestNodeEvents_OnChangesOnly(t *testing.T) {
	driver := func(healthy bool, description string) state.NodeHealth {
		return state.HealthOf(&structs.Node{Drivers: map[string]*structs.DriverInfo{
			"exec": {Detected: true, Healthy: healthy, HealthDescription: description},
		}})
	}
	devices := func(healthy bool) state.NodeHealth {
		return state.HealthOf(&structs.Node{NodeResources: &structs.NodeResources{
			Devices: []*structs.NodeDeviceResource{{
				Vendor:    "acme",
				Type:      "gpu",
				Name:      "x1",
				Instances: []*structs.NodeDevice{{ID: "0", Healthy: healthy, HealthDescription: "too hot"}},
			}},
		}})
	}
	plugin := func(alloc string, healthy bool, description string) state.NodeHealth {
		return state.HealthOf(nil, &structs.CSIPluginInstance{Kind: structs.CSIKindNode, CSIInfo: structs.CSIInfo{
			PluginID:          "ebs",
			AllocID:           alloc,
			Healthy:           healthy,
			HealthDescription: description,
		}, DownWithNode: description == schema.NodeIsDown})
	}
	undetected := func(name, description string) state.NodeHealth {
		return state.HealthOf(&structs.Node{Drivers: map[string]*structs.DriverInfo{
			name: {HealthDescription: description},
		}})
	}
	version := func(v string) state.NodeHealth {
		attributes := map[string]string{"driver.docker.version": v}
		return state.HealthOf(&structs.Node{Drivers: map[string]*structs.DriverInfo{
			"docker": {Detected: true, Healthy: true, Attributes: attributes},
		}})
	}
	for name, c := range map[string]struct {
		old, now state.NodeHealth
		want     []string
	}{
		"same driver": {driver(true, "a"), driver(true, "b"), nil},
		"driver becomes unhealthy": {
			driver(true, ""), driver(false, "no cgroups"),
			[]string{"Driver: driver exec is unhealthy: no cgroups"},
		},
		"driver becomes healthy": {
			driver(false, "x"), driver(true, ""),
			[]string{"Driver: driver exec is healthy"},
		},
		"driver stays unhealthy": {driver(false, "x"), driver(false, "y"), nil},
		"driver is gone": {
			driver(true, ""), state.NodeHealth{},
			[]string{"Driver: driver exec is gone"},
		},
		"driver is no longer detected": {
			driver(true, ""), undetected("exec", "its process has ended"),
			[]string{"Driver: driver exec is gone: its process has ended"},
		},
		"driver is replaced": {
			version("20.10"), version("24.0"),
			[]string{"Driver: driver docker is replaced: it is version 24.0 instead of 20.10"},
		},
		"driver says its version":    {version(""), version("24.0"), nil},
		"driver says no version now": {version("24.0"), version(""), nil},
		"device becomes unhealthy": {
			devices(true), devices(false),
			[]string{"Device: device 0 of acme/gpu/x1 is unhealthy: too hot"},
		},
		"device is gone": {
			devices(true), state.NodeHealth{},
			[]string{"Device: device 0 of acme/gpu/x1 is gone"},
		},
		"new plugin": {
			state.NodeHealth{}, plugin("a1", true, ""),
			[]string{"CSI: plugin ebs (node) is healthy"},
		},
		"new plugin, unhealthy": {
			state.NodeHealth{}, plugin("a1", false, "starting"),
			[]string{"CSI: plugin ebs (node) is unhealthy: starting"},
		},
		"plugin is replaced": {
			plugin("a1", true, ""), plugin("a2", true, ""),
			[]string{"CSI: plugin ebs (node) is replaced: allocation a2 runs it instead of a1"},
		},
		"plugin is gone": {
			plugin("a1", true, ""), state.NodeHealth{},
			[]string{"CSI: plugin ebs (node) is gone"},
		},
		"unhealthy plugin is gone":       {plugin("a1", false, "x"), state.NodeHealth{}, nil},
		"plugin of a node that was down": {plugin("a1", false, schema.NodeIsDown), plugin("a1", true, ""), nil},
		"it is unhealthy when it is back": {
			plugin("a1", false, schema.NodeIsDown), plugin("a1", false, "no answer"),
			[]string{"CSI: plugin ebs (node) is unhealthy: no answer"},
		},
		"it is replaced when it is back": {
			plugin("a1", false, schema.NodeIsDown), plugin("a2", true, ""),
			[]string{"CSI: plugin ebs (node) is replaced: allocation a2 runs it instead of a1"},
		},
		"it is gone when the node is back": {
			plugin("a1", false, schema.NodeIsDown), state.NodeHealth{},
			[]string{"CSI: plugin ebs (node) is gone"},
		},
		"driver that the node does not have": {state.NodeHealth{}, undetected("docker", "x"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := messages(c.old, c.now); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestNodeEvents_AreBounded(t *testing.T) {
	drivers := map[string]*structs.DriverInfo{}
	for i := range state.KeptEvents + 5 {
		drivers[fmt.Sprintf("d%02d", i)] = &structs.DriverInfo{Detected: true, Healthy: true}
	}
	got := messages(state.NodeHealth{}, state.HealthOf(&structs.Node{Drivers: drivers}))
	if len(got) != state.KeptEvents || got[0] != "Driver: driver d00 is healthy" ||
		got[state.KeptEvents-1] != "Driver: 6 other drivers, devices and plugins have changed" {
		t.Errorf("got %q", got)
	}
	long := strings.Repeat("x", 2*structs.MaxText)
	broken := state.HealthOf(&structs.Node{Drivers: map[string]*structs.DriverInfo{
		long: {Detected: true, HealthDescription: long},
	}})
	e := state.EventsBetween(state.NodeHealth{}, broken, time.Unix(1, 0))[0]
	const most = structs.MaxText + len("…")
	if len(e.Message) > most || len(e.Details["driver"]) > most {
		t.Errorf("the message has %d bytes, the detail %d", len(e.Message), len(e.Details["driver"]))
	}
}

// TestNodeEvents_TellWhatTheServersUse: the node reports a healthy plugin, and the servers do not use it.
func TestNodeEvents_TellWhatTheServersUse(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", ofDriver("a.csi")...)
	w.Node("n2")
	for range 2 {
		do(w, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID:       "n2",
			Upserts:      ofDriver("b.csi")[:1],
			Full:         true,
			WriteOptions: w.Now(),
		})
	}
	events := state.Node(w.Store.Read(), "n2").Events
	last := events[len(events)-1].Message
	if len(events) != 2 || !strings.HasSuffix(last, `belongs to driver "a.csi"`) {
		t.Errorf("got %d events, last %q", len(events), last)
	}
}
