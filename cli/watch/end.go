package watch

import (
	"context"
	"fmt"

	"berth/api"
	"berth/api/allocs"
	"berth/api/jobs"
	"berth/api/show"
	"berth/api/volumes"
	"berth/structs"
)

// AwaitJobEnd follows the allocations of a stopped job until all have ended and have released their volumes.
func (w *Watch) AwaitJobEnd(ctx context.Context, jobID string, used []string) error {
	w.WaitFor("job", "", jobID)
	q := &api.Query{MaxWait: ReadWait}
	live := map[string]bool{} // the IDs of the allocations that were seen alive
	for {
		allocs, meta, err := jobs.AllocationsOf(ctx, w.API, jobID, false, q)
		if err != nil {
			return err
		}

		left := 0
		for _, a := range allocs {
			if !a.ClientTerminal() {
				left++
				live[a.ID] = true
			} else if live[a.ID] {
				w.WriteChange(a.ID, "Allocation %s (%s) is %s",
					w.Call.ID(a.ID), a.Name, a.ClientStatus)
			}
		}

		if left == 0 {
			used, err = w.heldVolumes(ctx, jobID, used)
			if err != nil {
				return err
			}
		}

		if left+len(used) == 0 {
			w.WriteLine("Job %q has ended", jobID)
			return nil
		}

		if left > 0 {
			w.WriteChange("left", "%s still to end", show.Plural(left, "allocation"))
		}

		err = w.AwaitChange(ctx, q, meta)
		if err != nil {
			return err
		}
	}
}

// heldVolumes returns the volumes that ended allocations of a job still hold, and writes the reasons.
func (w *Watch) heldVolumes(ctx context.Context, jobID string, of []string) (still []string, err error) {
	q := &api.Query{
		Filter: fmt.Sprintf("JobID == %q and State == %q", jobID, structs.ClaimGranted),
	}
	for _, id := range of {
		claims, _, err := volumes.ClaimsOf(ctx, w.API, id, q)
		if err != nil && !structs.IsKind(err, structs.KindNotFound) {
			return nil, err
		}

		for _, claim := range claims {
			subject := "held " + id + claim.AllocID
			w.WriteChange(subject, "Allocation %s has ended and still holds volume %s: %s",
				w.Call.ID(claim.AllocID), id, WhyHeld(claim))
		}

		if len(claims) > 0 {
			still = append(still, id)
		}
	}
	return still, nil
}

// WhyHeld explains why a claim of an ended allocation is not released.
func WhyHeld(claim *structs.CSIClaim) string {
	switch {
	case claim.Reason != "":
		return show.OneLine(claim.Reason)
	case claim.ReleaseError != nil:
		why := *claim.ReleaseError
		if why.RetryTime == structs.NeverTry { // volume retry calls no node; the message names the remedy
			why.RetryTime = 0
		}
		return show.ProblemText(&why)
	}
	return "its node has not released it yet"
}

// AwaitAllocEnd follows one allocation until it has ended.
func (w *Watch) AwaitAllocEnd(ctx context.Context, id string) error {
	q := &api.Query{MaxWait: ReadWait}
	for {
		a, meta, err := allocs.Get(ctx, w.API, id, q)
		if err != nil {
			return err
		}

		w.WaitFor("job", a.Namespace, a.JobID)
		w.WriteChange(id, "Allocation %s is %s",
			w.Call.ID(id), a.ClientStatus)
		if a.ClientTerminal() {
			return nil
		}

		err = w.AwaitChange(ctx, q, meta)
		if err != nil {
			return err
		}
	}
}
