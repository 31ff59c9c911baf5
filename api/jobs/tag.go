package jobs

import (
	"context"

	"berth/api"
	"berth/structs"
)

const tagPath = "/v1/job/{id}/versions/{tag}/tag"

var tagApply = api.NewEndpoint(&table, api.Put, tagPath,
	api.ServeMethod(structs.JobTagApply, bindTag, api.Whole[structs.JobTagResponse]))

func bindTag(c *api.Call, req *structs.JobTagRequest) error {
	var body struct {
		Version     *uint64
		Description string
		api.DialectOptions
	}
	err := c.DecodeBody(&body)
	if err != nil {
		return err
	}
	if body.Version == nil {
		return structs.Invalidf("Version: expected the number of a version of the job, found none")
	}
	req.JobID = c.ID()
	req.JobVersion = *body.Version
	req.TagName = api.Tag(c)
	req.Description = body.Description
	return nil
}

// ApplyTag puts a tag on a version of a job, in place of the tag that the version has.
func ApplyTag(ctx context.Context, c *api.Client, r structs.JobTagRequest) (*structs.JobTagResponse, error) {
	body := struct {
		Version     uint64
		Description string
	}{r.JobVersion, r.Description}
	return tagApply.Send(ctx, c, api.Request{ID: r.JobID, Tag: r.TagName, Body: body})
}

var tagRemove = api.NewEndpoint(&table, api.Remove, tagPath,
	api.ServeMethod(structs.JobTagRemove, bindUntag, api.Whole[structs.Empty]))

func bindUntag(c *api.Call, req *structs.JobUntagRequest) error {
	req.JobID = c.ID()
	req.TagName = api.Tag(c)
	return nil
}

// RemoveTag removes a tag from its version of a job.
func RemoveTag(ctx context.Context, c *api.Client, id, tag string) error {
	return tagRemove.Exec(ctx, c, api.Request{ID: id, Tag: tag})
}
