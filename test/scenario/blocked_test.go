package scenario

import (
	"fmt"
	"slices"
	"testing"

	"berth/structs"
)

// A job runs as soon as its requirements are met. Before that its status names them.
func TestBlockedJob_Continues(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(s *storageCluster)
		says    []string
		come    func(s *storageCluster)
	}{
		"when a claim is released": {
			func(s *storageCluster) {
				s.addNode("n1", attaching)
				s.registerVolume("v1")
				s.registerJob("first", 1, "v1")
				s.awaitRunning("first", 1)
			},
			[]string{"csi-volume", "holds volume v1", "first"},
			func(s *storageCluster) { s.stopJob("first") },
		},
		"when the volume comes": {
			func(s *storageCluster) { s.addNode("n1", attaching) },
			[]string{"csi-volume", "v1 does not exist"},
			func(s *storageCluster) { s.registerVolume("v1") },
		},
		"when the plugin becomes healthy": {
			func(s *storageCluster) {
				n := s.addNode("n1", attaching)
				s.registerVolume("v1")
				sick := attaching
				sick.Unhealthy = true
				n.SetPlugin(sick)
			},
			[]string{"plugin p"},
			func(s *storageCluster) {
				s.Nodes()[0].SetPlugin(attaching)
			},
		},
		"when a node comes": {
			func(s *storageCluster) {
				n := s.addNode("n1", attaching)
				s.registerVolume("v1")
				n.PowerOff()
				s.awaitNodeStatus(n, structs.NodeDown)
			},
			nil,
			func(s *storageCluster) { s.addNode("n2", attaching) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := startStorageCluster(t, 1)
			tc.prepare(s)
			s.registerJob("second", 1, "v1")
			s.checkText(s.awaitBlocked("second"), tc.says...)
			tc.come(s)
			s.awaitRunning("second", 1)
		})
	}
}

func TestPerAllocVolumes_EachAllocationHasItsOwn(t *testing.T) {
	s := startStorageCluster(t, 1)
	s.addNode("n1", attaching)
	s.addNode("n2", attaching)
	s.registerVolume("data[0]")
	s.registerJob("db", 2, "data", func(j *structs.Job) {
		j.TaskGroups[0].Volumes["data"].PerAlloc = true
	})
	s.checkText(s.awaitBlocked("db"), "data[1]")
	s.awaitRunning("db", 1)
	s.registerVolume("data[1]")
	for i, a := range s.awaitRunning("db", 2) {
		var on string
		for _, n := range s.Nodes() {
			if n.ID == a.NodeID {
				on = n.Name
			}
		}
		s.checkMounts(fmt.Sprintf("disk-data[%d]", i), on+" "+a.ID)
	}
	s.stopJob("db")
	s.awaitEnded("db")
	s.checkMounts("disk-data[0]")
	s.checkMounts("disk-data[1]")
	if log := s.storage.Log(); !slices.ContainsFunc(log,
		func(l string) bool { return l == "n1 mount disk-data[0]" || l == "n2 mount disk-data[0]" }) {
		t.Errorf("no node mounted data[0]: %v", log)
	}
}
