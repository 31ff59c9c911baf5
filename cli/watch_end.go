package cli

import (
	"context"
	"fmt"

	"berth/api"
	"berth/structs"
)

// awaitJobEnd follows the allocations of a stopped job until all have ended and have released their volumes.
func (w *watch) awaitJobEnd(ctx context.Context, jobID string, volumes []string) error {
	w.waitFor("job", "", jobID)
	q := &api.Query{MaxWait: readWait}
	live := map[string]bool{} // the IDs of the allocations that were seen alive
	for {
		allocs, meta, err := w.api.JobAllocations(ctx, jobID, false, q)
		if err != nil {
			return err
		}
		left := 0
		for _, a := range allocs {
			if !a.ClientTerminal() {
				left++
				live[a.ID] = true
			} else if live[a.ID] {
				w.writeChange(a.ID, "Allocation %s (%s) is %s",
					w.c.id(a.ID), a.Name, a.ClientStatus)
			}
		}
		if left == 0 {
			volumes, err = w.heldVolumes(ctx, jobID, volumes)
			if err != nil {
				return err
			}
		}
		if left+len(volumes) == 0 {
			w.writeLine("Job %q has ended", jobID)
			return nil
		}
		if left > 0 {
			w.writeChange("left", "%s still to end", plural(left, "allocation"))
		}
		err = w.awaitChange(ctx, q, meta)
		if err != nil {
			return err
		}
	}
}

// heldVolumes returns the volumes that ended allocations of a job still hold, and writes the reasons.
func (w *watch) heldVolumes(ctx context.Context, jobID string, volumes []string) (still []string, err error) {
	q := &api.Query{
		Filter: fmt.Sprintf("JobID == %q and State == %q", jobID, structs.ClaimGranted),
	}
	for _, id := range volumes {
		claims, _, err := w.api.VolumeClaims(ctx, id, q)
		if err != nil && !structs.IsKind(err, structs.KindNotFound) {
			return nil, err
		}
		for _, claim := range claims {
			subject := "held " + id + claim.AllocID
			w.writeChange(subject, "Allocation %s has ended and still holds volume %s: %s",
				w.c.id(claim.AllocID), id, whyHeld(claim))
		}
		if len(claims) > 0 {
			still = append(still, id)
		}
	}
	return still, nil
}

// whyHeld explains why a claim of an ended allocation is not released.
func whyHeld(claim *structs.CSIClaim) string {
	switch {
	case claim.Reason != "":
		return oneLine(claim.Reason)
	case claim.ReleaseError != nil:
		why := *claim.ReleaseError
		if why.RetryTime == structs.NeverTry { // volume retry calls no node; the message names the remedy
			why.RetryTime = 0
		}
		return problemText(&why)
	}
	return "its node has not released it yet"
}

// awaitAllocEnd follows one allocation until it has ended.
func (w *watch) awaitAllocEnd(ctx context.Context, id string) error {
	q := &api.Query{MaxWait: readWait}
	for {
		a, meta, err := w.api.Allocation(ctx, id, q)
		if err != nil {
			return err
		}
		w.waitFor("job", a.Namespace, a.JobID)
		w.writeChange(id, "Allocation %s is %s",
			w.c.id(id), a.ClientStatus)
		if a.ClientTerminal() {
			return nil
		}
		err = w.awaitChange(ctx, q, meta)
		if err != nil {
			return err
		}
	}
}
