package csi_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/test/kit"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts again")

// The transcripts of the claim queue show the claims of the volume v after each command, and why they wait.
// The nodes n1 to n3 have two allocations each: a1 and b1 run on n1, and so on. c1 runs on n1, too.
//
//	cluster [attaches]                 a new cluster, whose plugin may attach volumes to nodes
//	claim ALLOC MODE                   one of claimModes
//	end ALLOC                          the allocation ends; its node still has the volume
//	release ALLOC                      its node has let go of the volume
//	down NODE, up NODE
//	sick NODE                          the plugin on the node is not healthy
//	attach NODE, detach NODE           the call of the controller succeeds
func TestClaimQueue_Transcripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/claims/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d transcripts, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			var c *claimQueue
			kit.RunTranscript(t, path, *rewrite, func(s *kit.TranscriptStep) string {
				if s.Name == "cluster" {
					c = &claimQueue{threeNodes(t, s.Has("attaches"))}
					c.Alloc("c1", "j", "n1")
					return ""
				}
				c.step(s)
				return c.describe()
			})
		})
	}
}

type claimQueue struct{ *fixture }

var claimModes = map[string]struct {
	mode   string
	access structs.CSIAccessMode
}{
	"writer":          {wr, snw},
	"reader":          {rd, snr},
	"readers":         {rd, mnr},
	"one-writer":      {wr, mnsw},
	"writers":         {wr, mnmw},
	"one-node":        {wr, snmw},
	"one-node-reader": {rd, snmw},
}

func (c *claimQueue) step(s *kit.TranscriptStep) {
	subject := s.Args[0]
	node := "n" + subject[len(subject)-1:]
	switch s.Name {
	case "claim":
		m, known := claimModes[s.Args[1]]
		if !known {
			c.T.Fatalf("line %d: there is no mode %s", s.Line, s.Args[1])
		}
		c.Claim(aClaim("v", subject, m.mode, m.access))
	case "end":
		c.Client(node, subject, structs.AllocComplete)
	case "release":
		c.Release("v", subject)
	case "down":
		do(c.fixture, state.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs: []string{subject}, Status: structs.NodeDown, WriteOptions: c.Now()})
	case "up":
		do(c.fixture, state.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs: []string{subject}, Status: structs.NodeReady, WriteOptions: c.Now()})
	case "sick":
		c.Update(subject, anInstance("p", structs.CSIKindNode, false))
	case "attach", "detach":
		c.Outcome("v", subject, s.Name, nil)
	default:
		c.T.Fatalf("line %d: there is no command %s", s.Line, s.Name)
	}
}

// describe writes the claims in the order of the queue, and the attachments.
func (c *claimQueue) describe() string {
	tx := c.Store.Read()
	var out strings.Builder
	reasons := csi.Reasons(tx)
	for _, cl := range csi.ClaimsByVolume(tx, structs.DefaultNamespace, "v") {
		fmt.Fprintf(&out, "%s on %s: %s", cl.AllocID, cl.NodeID, cl.State)
		if why := reasons(cl); why != "" {
			fmt.Fprintf(&out, ": %s", why)
		}
		out.WriteString("\n")
	}
	for a := range csi.AttachmentsByVolume(tx, structs.DefaultNamespace, "v") {
		fmt.Fprintf(&out, "%s is %s\n", a.NodeID, a.State)
	}
	if out.Len() == 0 {
		return "no claims"
	}
	return out.String()
}
