package scenario

import (
	"fmt"
	"slices"
	"testing"

	"berth/structs"
)

// A job runs when its requirements are met. Before that its status names them.
func TestBlockedJob_Continues(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(s *story)
		says    []string
		come    func(s *story)
	}{
		"when a claim is released": {
			func(s *story) {
				s.node("n1", attaching)
				s.volume("v1")
				s.job("first", 1, "v1")
				s.runs("first", 1)
			},
			[]string{"csi-volume", "holds volume v1", "first"},
			func(s *story) { s.stop("first") },
		},
		"when the volume comes": {
			func(s *story) { s.node("n1", attaching) },
			[]string{"csi-volume", "v1 does not exist"},
			func(s *story) { s.volume("v1") },
		},
		"when the plugin becomes healthy": {
			func(s *story) {
				n := s.node("n1", attaching)
				s.volume("v1")
				sick := attaching
				sick.Unhealthy = true
				n.SetPlugin(sick)
			},
			[]string{"plugin p"},
			func(s *story) {
				s.Nodes()[0].SetPlugin(attaching)
			},
		},
		"when a node comes": {
			func(s *story) {
				n := s.node("n1", attaching)
				s.volume("v1")
				n.Off()
				s.status(n, structs.NodeDown)
			},
			nil,
			func(s *story) { s.node("n2", attaching) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, 1)
			tc.prepare(s)
			s.job("second", 1, "v1")
			s.says(s.blocked("second"), tc.says...)
			tc.come(s)
			s.runs("second", 1)
		})
	}
}

func TestVolumes_OnePerAllocation(t *testing.T) {
	s := begin(t, 1)
	s.node("n1", attaching)
	s.node("n2", attaching)
	s.volume("data[0]")
	s.job("db", 2, "data", func(j *structs.Job) {
		j.TaskGroups[0].Volumes["data"].PerAlloc = true
	})
	s.says(s.blocked("db"), "data[1]")
	s.runs("db", 1)
	s.volume("data[1]")
	for i, a := range s.runs("db", 2) {
		var on string
		for _, n := range s.Nodes() {
			if n.ID == a.NodeID {
				on = n.Name
			}
		}
		s.mounted(fmt.Sprintf("disk-data[%d]", i), on+" "+a.ID)
	}
	s.stop("db")
	s.ended("db")
	s.mounted("disk-data[0]")
	s.mounted("disk-data[1]")
	if log := s.storage.Log(); !slices.ContainsFunc(log,
		func(l string) bool { return l == "n1 mount disk-data[0]" || l == "n2 mount disk-data[0]" }) {
		t.Errorf("nobody mounted data[0]: %v", log)
	}
}
