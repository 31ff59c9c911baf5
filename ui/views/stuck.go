package views

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/api/show"
	"berth/structs"
	"berth/structs/cluster"
)

// StuckVolume is a volume that a lost node has.
type StuckVolume struct {
	Claim *structs.VolumeClaimStub // the first that the node has
	Node  *structs.NodeListStub
	Lost  *cluster.NodeFenceStatusResponse // nil if it is not known
	Why   *structs.WhyResponse             // nil if it is not known
}

// Problem shows the volume with what releases it.
func (s StuckVolume) Problem() Problem {
	c := s.Claim
	p := Problem{
		Kind: KindVolume,
		Name: c.VolumeID,
		Link: To(VolumePath, c.Namespace, c.VolumeID),
		Reasons: []string{fmt.Sprintf("allocation %s of job %s has it on node %s, which is %s",
			show.ShortID(c.AllocID), c.JobID, cmp.Or(s.Node.Name, show.ShortID(s.Node.ID)), s.Node.Status)},
		Command: structs.CommandLine(c.Namespace, "volume why", c.VolumeID),
	}
	if s.Lost != nil && s.Lost.Since > 0 {
		p.Since = time.Unix(s.Lost.Since, 0).UnixNano()
	}

	p.Explain(s.Why)
	if p.Remedy == "" {
		p.Remedy = "if the machine is off: " + ConfirmLine(s.Node.ID)
	}
	return p
}

// MergeVolumes makes one problem of those of a volume: it has the reasons of all, and the first remedy.
func MergeVolumes(problems []Problem) (merged []Problem) {
	at := map[string]int{}
	for _, p := range problems {
		i, known := at[p.Link]
		if p.Kind != KindVolume || !known {
			if p.Kind == KindVolume {
				at[p.Link] = len(merged)
			}
			merged = append(merged, p)
			continue
		}

		first := &merged[i]
		for _, r := range p.Reasons {
			if !slices.Contains(first.Reasons, r) {
				first.Reasons = append(first.Reasons, r)
			}
		}
		if first.Remedy == "" {
			first.Remedy, first.Command = p.Remedy, p.Command
		}
	}
	return merged
}
