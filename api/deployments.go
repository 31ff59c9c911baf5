package api

import (
	"encoding/json"

	"berth/structs"
)

var _ = handle(get, "/v1/job/{id}/deployment",
	serveMethod(structs.JobGet, bindJob,
		func(*structs.JobGetResponse) json.RawMessage {
			return json.RawMessage("null")
		}))

var _ = handle(get, "/v1/job/{id}/deployments",
	serveMethod(structs.JobGet, bindJob,
		func(*structs.JobGetResponse) []struct{} {
			return nil
		}))

var _ = handle(get, "/v1/deployments", serveDeployments)

// serveDeployments returns an empty list. berth has no deployments: an update replaces every changed
// allocation at once. Clients of the dialect ask for deployments whenever they show a job, and fail after an
// error.
func serveDeployments(c *call) (any, error) {
	c.setIndex(1)
	return []struct{}{}, nil
}
