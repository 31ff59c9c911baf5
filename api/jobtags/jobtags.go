// Package jobtags has the routes of the tags of job versions, each with the call of the client.
package jobtags

import (
	"context"

	"berth/api"
	"berth/structs"
)

const path = "/v1/job/{id}/versions/{tag}/tag"

var apply = api.NewEndpoint(api.Put, path,
	api.ServeMethod(structs.JobTagApply, bindApply, api.Whole[structs.JobTagResponse]))

func bindApply(c *api.Call, req *structs.JobTagRequest) error {
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

// Apply puts a tag on a version of a job, in place of the tag that the version has.
func Apply(ctx context.Context, c *api.Client, r structs.JobTagRequest) (*structs.JobTagResponse, error) {
	body := struct {
		Version     uint64
		Description string
	}{r.JobVersion, r.Description}
	return apply.Send(ctx, c, api.Request{ID: r.JobID, Tag: r.TagName, Body: body})
}

var remove = api.NewEndpoint(api.Remove, path,
	api.ServeMethod(structs.JobTagRemove, bindRemove, api.Whole[structs.Empty]))

func bindRemove(c *api.Call, req *structs.JobUntagRequest) error {
	req.JobID = c.ID()
	req.TagName = api.Tag(c)
	return nil
}

// Remove removes a tag from its version of a job.
func Remove(ctx context.Context, c *api.Client, id, tag string) error {
	return remove.Exec(ctx, c, api.Request{ID: id, Tag: tag})
}
