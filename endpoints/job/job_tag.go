package job

import (
	"context"

	"berth/endpoints/core"
	"berth/fsm"
	"berth/structs"
)

// Tags serves the method that puts a tag on a version of a job.
type Tags struct{ *core.Server }

// Apply puts a tag on a version of a job.
func (p Tags) Apply(
	ctx context.Context, req *structs.JobTagRequest, resp *structs.JobTagResponse,
) (uint64, error) {
	err := structs.CheckJobTag(req.TagName, req.Description) // without an entry in the log
	if err != nil {
		return 0, err
	}
	index, err := fsm.Propose(ctx, p.Raft, fsm.JobTag, req)
	resp.Name = req.TagName
	resp.Description = req.Description
	resp.TaggedTime = req.Now
	return index, err
}
