package machine

import (
	"reflect"
	"testing"
)

func allUsable(int) bool { return true }

func TestTopology_OfThisMachineHasACoreWithASpeed(t *testing.T) {
	topology := ReadTopology()
	usable := 0
	for _, core := range topology.Cores {
		if core.GuessSpeed <= 0 {
			t.Errorf("core %d has no speed", core.ID)
		}
		if !core.Disabled {
			usable++
		}
	}
	if usable == 0 || len(topology.Nodes) == 0 || len(topology.Distances) != len(topology.Nodes) {
		t.Errorf("got %+v", topology)
	}
}

func TestTopology_ReadsNodesSocketsGradesAndSpeeds(t *testing.T) {
	root := writeTree(t, map[string]string{
		"proc/cpuinfo":                                             "cpu MHz : 2493.75\n",
		"sys/devices/system/node/online":                           "0,2\n",
		"sys/devices/system/node/node0/cpulist":                    "0\n",
		"sys/devices/system/node/node0/distance":                   "10 21\n",
		"sys/devices/system/node/node2/cpulist":                    "2-3\n",
		"sys/devices/system/node/node2/distance":                   "many\n",
		"sys/devices/system/cpu/online":                            "0,2-3\n",
		"sys/devices/system/cpu/cpu2/topology/physical_package_id": "1\n",
		"sys/devices/system/cpu/cpu3/topology/physical_package_id": "-1\n",
		"sys/devices/system/cpu/cpu2/cpufreq/base_frequency":       "2000000\n",
		"sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_max_freq":     "3600000\n",
		"sys/devices/system/cpu/cpu3/cpufreq/cpuinfo_max_freq":     "fast\n",
		"sys/devices/cpu_atom/cpus":                                "3\n",
	})
	got := readTopology(root, func(id int) bool { return id != 3 })
	want := &Topology{
		Nodes:     []int{0, 2},
		Distances: [][]int{{10, 21}, {20, 10}},
		Cores: []Core{
			{ID: 0, GuessSpeed: 3600},
			{ID: 2, Socket: 1, Node: 2, BaseSpeed: 2000, MaxSpeed: 3600, GuessSpeed: 3600},
			{ID: 3, Node: 2, Efficient: true, Disabled: true, GuessSpeed: 3600},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTopology_HasFallbacks(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"nothing": {},
		"garbage": {
			"sys/devices/system/node/online": "all\n",
			"sys/devices/system/cpu/online":  "0-999999999\n",
		},
	} {
		got := readTopology(writeTree(t, files), allUsable)
		if len(got.Cores) == 0 || got.Cores[0].GuessSpeed != 1000 || got.Cores[0].Node != 0 ||
			!reflect.DeepEqual(got.Distances, [][]int{{nearDistance}}) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
