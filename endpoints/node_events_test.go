package endpoints

import (
	"slices"
	"testing"
	"time"

	"berth/state"
	"berth/structs"
)

// messages writes the events between two states of a node's parts.
func messages(old, now nodeHealth) []string {
	var all []string
	for _, e := range eventsBetween(old, now, time.Unix(1, 0)) {
		all = append(all, e.Subsystem+": "+e.Message)
	}
	return all
}

func TestNodeEvents_OnChangesOnly(t *testing.T) {
	driver := func(healthy bool, description string) nodeHealth {
		return healthOf(&structs.Node{Drivers: map[string]*structs.DriverInfo{
			"exec": {Detected: true, Healthy: healthy, HealthDescription: description},
		}})
	}
	devices := func(healthy bool) nodeHealth {
		return healthOf(&structs.Node{NodeResources: &structs.NodeResources{
			Devices: []*structs.NodeDeviceResource{{
				Vendor:    "acme",
				Type:      "gpu",
				Name:      "x1",
				Instances: []*structs.NodeDevice{{ID: "0", Healthy: healthy, HealthDescription: "too hot"}},
			}},
		}})
	}
	plugin := func(alloc string, healthy bool, description string) nodeHealth {
		h := nodeHealth{}
		h.addInstance(&structs.CSIPluginInstance{Kind: structs.CSIKindNode, CSIInfo: structs.CSIInfo{
			PluginID:          "ebs",
			AllocID:           alloc,
			Healthy:           healthy,
			HealthDescription: description,
		}})
		return h
	}
	for name, c := range map[string]struct {
		old, now nodeHealth
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
			driver(true, ""), nodeHealth{},
			[]string{"Driver: driver exec is gone"},
		},
		"device becomes unhealthy": {
			devices(true), devices(false),
			[]string{"Device: device 0 of acme/gpu/x1 is unhealthy: too hot"},
		},
		"device is gone": {
			devices(true), nodeHealth{},
			[]string{"Device: device 0 of acme/gpu/x1 is gone"},
		},
		"new plugin": {
			nodeHealth{}, plugin("a1", true, ""),
			[]string{"Storage: plugin ebs (node) is healthy"},
		},
		"new plugin, unhealthy": {
			nodeHealth{}, plugin("a1", false, "starting"),
			[]string{"Storage: plugin ebs (node) is unhealthy: starting"},
		},
		"plugin is replaced": {
			plugin("a1", true, ""), plugin("a2", true, ""),
			[]string{"Storage: plugin ebs (node) is replaced: allocation a2 runs it instead of a1"},
		},
		"plugin of a node that was": {plugin("a1", false, state.NodeIsDown), plugin("a1", true, ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := messages(c.old, c.now); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
