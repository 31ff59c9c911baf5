package validate

import (
	"math"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

func TestVolume_NamesTheFault(t *testing.T) {
	rejectVolumes(t, map[string]func(*structs.CSIVolume){
		`ok`:                                 func(*structs.CSIVolume) {},
		`volume: id is required`:             func(v *structs.CSIVolume) { v.ID = "" },
		`volume: id "a/b" must not hold '/'`: func(v *structs.CSIVolume) { v.ID = "a/b" },
		`volume "db": namespace "no such" must be`: func(v *structs.CSIVolume) { v.Namespace = "no such" },
		`volume "db": plugin_id "-" must be`:       func(v *structs.CSIVolume) { v.PluginID = "-" },
		`volume "db": class "a/b" must be`:         func(v *structs.CSIVolume) { v.Class = "a/b" },
		`volume "db": snapshot_id and clone_id exclude one another`: func(v *structs.CSIVolume) {
			v.SnapshotID = "a"
			v.CloneID = "b"
		},
		`volume "db": at least one capability`: func(v *structs.CSIVolume) { v.RequestedCapabilities = nil },
		`volume "db": capability 2: access_mode is required`: func(v *structs.CSIVolume) {
			v.RequestedCapabilities = append(v.RequestedCapabilities, &structs.CSIVolumeCapability{})
		},
		`volume "db": capability 2: it is there twice`: func(v *structs.CSIVolume) {
			v.RequestedCapabilities = append(v.RequestedCapabilities, v.RequestedCapabilities[0])
		},
		`volume "db": capability 2: it is null`: func(v *structs.CSIVolume) {
			v.RequestedCapabilities = append(v.RequestedCapabilities, nil)
		},
		`volume "db": mount_options need a capability with attachment_mode file-system`: func(v *structs.CSIVolume) {
			v.RequestedCapabilities[0].AttachmentMode = structs.CSIBlockDevice
			v.MountOptions = &structs.CSIMountOptions{}
		},
		`volume "db": topology_request: required: topology 1: segments must not be empty`: required(nil),
		`volume "db": topology_request: preferred: topology 1: it must also be among the required`: func(v *structs.CSIVolume) {
			required(map[string]string{"a": "b"})(v)
			v.RequestedTopologies.Preferred = []*structs.CSITopology{{Segments: map[string]string{"a": "c"}}}
		},
	})
}

func TestVolume_OnNodeLoss(t *testing.T) {
	policy := func(p string) func(*structs.CSIVolume) {
		return func(v *structs.CSIVolume) { v.OnNodeLoss = p }
	}
	rejectVolumes(t, map[string]func(*structs.CSIVolume){`ok`: policy(structs.LossFence)})
	rejectVolumes(t, map[string]func(*structs.CSIVolume){
		`ok`: policy(structs.LossLease),
		`volume "db": on_node_loss "never" is unknown; one of hold, fence, lease`: policy("never"),
	})
}

func TestVolume_Reclaim(t *testing.T) {
	rule := func(rule string, after ...time.Duration) func(*structs.CSIVolume) {
		return func(v *structs.CSIVolume) {
			v.Reclaim = rule
			for _, d := range after {
				v.DeleteAfter = &d
			}
		}
	}
	rejectVolumes(t, map[string]func(*structs.CSIVolume){`ok`: rule("retain")})
	rejectVolumes(t, map[string]func(*structs.CSIVolume){
		`ok`:                                     rule("delete", 0),
		`volume "db": reclaim "recycle" must be`: rule("recycle"),
		`volume "db": delete_after needs reclaim = "delete" beside it`: rule("retain", time.Hour),
		`delete_after needs reclaim = "delete"`:                        rule("", time.Hour),
		`volume "db": delete_after must`:                               rule("delete", -1),
		`volume "db": delete_after`:                                    rule("delete", structs.MaxInterval+1),
	})
}

func TestDuty_B1_StringsAndMapsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 129)
	rejectVolumes(t, map[string]func(*structs.CSIVolume){
		`ok`: func(v *structs.CSIVolume) {
			v.Name = long[:128]
			v.ExternalID = long[:128]
		},
		`name has 129 bytes; CSI allows 128`:        func(v *structs.CSIVolume) { v.Name = long },
		`external_id has 129 bytes; CSI allows 128`: func(v *structs.CSIVolume) { v.ExternalID = long },
		`snapshot_id has 129 bytes; CSI allows 128`: func(v *structs.CSIVolume) { v.SnapshotID = long },
		`clone_id has 129 bytes; CSI allows 128`:    func(v *structs.CSIVolume) { v.CloneID = long },
		`external_id must be text in UTF-8`:         func(v *structs.CSIVolume) { v.ExternalID = "\xff" },
		`parameters has 4097 bytes; CSI allows 4096`: func(v *structs.CSIVolume) {
			v.Parameters = map[string]string{"k": strings.Repeat("x", 4096)}
		},
		`context has 5001 bytes; CSI allows 4096`: func(v *structs.CSIVolume) {
			v.Context = map[string]string{"k": strings.Repeat("x", 5000)}
		},
		`secrets has 6001 bytes; CSI allows 4096`: func(v *structs.CSIVolume) {
			v.Secrets = structs.Secrets{"k": strings.Repeat("s3cret", 1000)}
		},
		`secrets: key or value is not text in UTF-8`:   func(v *structs.CSIVolume) { v.Secrets = structs.Secrets{"k": "s3cret\xff"} },
		`parameters has an empty key`:                  func(v *structs.CSIVolume) { v.Parameters = map[string]string{"": "x"} },
		`mount_options: fs_type has 129 bytes; CSI al`: func(v *structs.CSIVolume) { v.MountOptions = &structs.CSIMountOptions{FSType: long} },
	})
}

func TestDuty_B2_MountFlagsAreBoundedAndNotShown(t *testing.T) {
	rejectVolumes(t, map[string]func(*structs.CSIVolume){
		`mount_options: mount_flags have 6000 bytes in all; CSI allows 4096`: func(v *structs.CSIVolume) {
			v.MountOptions = &structs.CSIMountOptions{MountFlags: []string{strings.Repeat("s3cret", 1000)}}
		},
		`mount_options: a mount flag must be text`: func(v *structs.CSIVolume) {
			v.MountOptions = &structs.CSIMountOptions{MountFlags: []string{"s3cret\x00"}}
		},
		`mount_options: mount_flags holds an empty flag`: func(v *structs.CSIVolume) { v.MountOptions = &structs.CSIMountOptions{MountFlags: []string{""}} },
	})
}

func TestDuty_B6_NamesHoldNoControlCharacters(t *testing.T) {
	for _, r := range []rune{0x01, 0x08, 0x0B, 0x0C, 0x0E, 0x1F, 0x7F, 0x80, 0x9F} {
		if err := Volume(testVolume(func(v *structs.CSIVolume) { v.Name = "a" + string(r) })); err == nil {
			t.Errorf("name with %U is allowed", r)
		}
	}
	for _, name := range []string{"tab\t", "line\n", "größe 世界", "a b"} {
		if err := Volume(testVolume(func(v *structs.CSIVolume) { v.Name = name })); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestDuty_B7_B8_Capacity(t *testing.T) {
	rejectVolumes(t, map[string]func(*structs.CSIVolume){
		`capacity_min must not be negative`: func(v *structs.CSIVolume) { v.RequestedCapacityMin = -1 },
		`capacity_max must not be negative`: func(v *structs.CSIVolume) { v.RequestedCapacityMax = -1 },
		`capacity_min 8.0 EiB (9223372036854775807 bytes) is above the largest size of a volume, 1.0 EiB`: func(v *structs.CSIVolume) { v.RequestedCapacityMin = math.MaxInt64 },
		`capacity_max 8.0 EiB (9223372036854775807 bytes) is above the largest size of a volume, 1.0 EiB`: func(v *structs.CSIVolume) { v.RequestedCapacityMax = math.MaxInt64 },
		`capacity_max (5 B) must not be below capacity_min (10 B)`: func(v *structs.CSIVolume) {
			v.RequestedCapacityMin = 10
			v.RequestedCapacityMax = 5
		},
		`ok, equal values ask for the very size`: func(v *structs.CSIVolume) {
			v.RequestedCapacityMin = 10
			v.RequestedCapacityMax = 10
		},
		`ok, no maximum`: func(v *structs.CSIVolume) { v.RequestedCapacityMin = 10 },
	})
}

func TestDuty_B9_TopologySegments(t *testing.T) {
	long := strings.Repeat("x", 64)
	rejectVolumes(t, map[string]func(*structs.CSIVolume){
		`ok`: required(map[string]string{
			"topology.hostpath.csi/node": "n-1.example",
			"zone":                       "eu_1",
		}),
		`segment key "-a" must be`:          required(map[string]string{"-a": "x"}),
		`segment key "a/b/c" must be`:       required(map[string]string{"a/b/c": "x"}),
		`segment key "/a" must be`:          required(map[string]string{"/a": "x"}),
		`segment key "` + long + `" must`:   required(map[string]string{long: "x"}),
		`the value of segment "a" must be`:  required(map[string]string{"a": long}),
		`the value of segment "b" must be`:  required(map[string]string{"b": "x y"}),
		`segment key "zone" is there twice`: required(map[string]string{"zone": "a", "ZONE": "b"}),
	})
}

func TestDuty_D4_SecretKeys(t *testing.T) {
	rejectVolumes(t, map[string]func(*structs.CSIVolume){
		`ok`: func(v *structs.CSIVolume) { v.Secrets = structs.Secrets{"user-name_1.x": "s3cret"} },
		`secrets: 1 keys hold other charact`: func(v *structs.CSIVolume) {
			v.Secrets = structs.Secrets{
				"my s3cret": "x",
				"fine":      "y",
			}
		},
	})
}

func TestDuty_B9_TopologyKeysCompareWithoutRegardToCase(t *testing.T) {
	node := &structs.CSITopology{Segments: map[string]string{"Example.com/Zone": "a", "rack": "R1"}}
	for name, c := range map[string]struct {
		segments map[string]string
		want     bool
	}{
		"the same":      {map[string]string{"Example.com/Zone": "a"}, true},
		"another case":  {map[string]string{"example.com/zone": "a", "RACK": "R1"}, true},
		"another value": {map[string]string{"example.com/zone": "A"}, false},
		"another key":   {map[string]string{"example.com/zon": "a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&structs.CSITopology{Segments: c.segments}).Matches(node); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
