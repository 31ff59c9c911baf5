package job

import (
	"berth/scheduler/explain"
	"berth/state"
	"berth/structs"
)

// Why tells why a job does not run as its specification demands, and of a deleted job why allocations of it
// have not ended. Times in the text change without a change of the index. A client of such a text asks again
// after a while, and does not wait for the index.
func (j Jobs) Why(tx *state.ReadTx, req *structs.JobGetRequest, resp *structs.WhyResponse) error {
	job, err := findJob(tx, req.RequestNamespace(), req.JobID)
	view := explain.View{Tx: tx, Now: j.Clock.Now(), Fences: j.Fences(tx)}
	if err == nil {
		view.Sees = req.Sees
		resp.Waits, resp.Reasons = explain.Job(view, job)
	} else {
		// The rows of allocations outlive their job's.
		resp.Waits, resp.Reasons = explain.DeletedJob(view, req.RequestNamespace(), req.JobID)
	}
	// Neither a job nor allocations that could wait: the ID is wrong.
	if err != nil && !resp.Waits {
		return err
	}
	resp.Text = structs.WhyText(resp.Reasons)
	return nil
}
