package place

import "berth/structs"

// mostParts is the most log entries that one plan becomes. Without it, a per-node job on a large fleet reads
// all nodes, and all its allocations, for each entry. These entries place 131,072 allocations, so a job on a
// fleet of 100,000 nodes needs one plan.
const mostParts = 64

// beginPart begins another part of the plan, and reports whether the plan may have one. Only allocations on
// nodes of their own are placed in later parts, so that no part depends on a former one.
func (p *Placer) beginPart() bool {
	if len(p.parts) == mostParts-1 {
		return false
	}
	p.parts = append(p.parts, len(p.outlook.Plan.Place))
	p.placed = 0
	return true
}

// partPlaced returns the number of allocations that the last part places.
func (p *Placer) partPlaced() int {
	if len(p.parts) == 0 {
		return len(p.outlook.Plan.Place)
	}
	return len(p.outlook.Plan.Place) - p.parts[len(p.parts)-1]
}

// SplitParts moves what the later parts place, and those whom they displace, from the plan to its rest. The
// last part completes the evaluation.
func (p *Placer) SplitParts() {
	if len(p.parts) == 0 {
		return
	}

	whole := *p.outlook.Plan
	parts, partOf := cutParts(p, &whole)
	for _, s := range whole.Stop {
		part := parts[partOf[s.PreemptedBy]] // the first one, if nobody displaces it
		part.Stop = append(part.Stop, s)
	}

	// What is not moved here, such as updates and follow-ups, stays in the first part.
	last := parts[len(parts)-1]
	last.Eval = whole.Eval
	last.Blocked = whole.Blocked
	p.outlook.Plan.Eval = parts[0].Eval
	p.outlook.Plan.Blocked = nil
	p.outlook.Plan.Place = parts[0].Place
	p.outlook.Plan.Stop = parts[0].Stop
	p.outlook.Plan.Rest = parts[1:]
}

// cutParts returns plans with the placements of each part, and the part of each allocation by its ID.
func cutParts(p *Placer, whole *structs.Plan) (parts []*structs.Plan, partOf map[string]int) {
	partOf = map[string]int{}
	parts = make([]*structs.Plan, 0, len(p.parts)+1)
	for i := range len(p.parts) + 1 {
		from, to := 0, len(whole.Place)
		if i > 0 {
			from = p.parts[i-1]
		}

		if i < len(p.parts) {
			to = p.parts[i]
		}

		part := &structs.Plan{
			// A crash of the leader between two parts leaves a pending evaluation, which is planned again.
			Eval:           MoreFollow(whole.Eval),
			Place:          whole.Place[from:to:to],
			JobModifyIndex: whole.JobModifyIndex,
		}

		for _, a := range part.Place {
			partOf[a.ID] = i
		}

		parts = append(parts, part)
	}

	return parts, partOf
}

// MoreFollow returns an evaluation that stays pending, because another plan follows.
func MoreFollow(e *structs.Evaluation) *structs.Evaluation {
	e = e.Copy()
	e.Status = structs.EvalPending
	e.StatusDescription = "more allocations follow"
	e.Again = structs.EvalMore
	e.FailedTGAllocs = nil
	e.QuotaLimitReached = ""
	e.BlockedEval = ""
	return e
}
