package api

import (
	"encoding/json"

	"berth/structs"
)

var (
	_ = handle(get, "/v1/job/{id}/deployment",
		read(structs.JobGet, bindJob,
			func(*structs.JobGetResponse) any { return json.RawMessage("null") }))
	_ = handle(get, "/v1/job/{id}/deployments",
		read(structs.JobGet, bindJob, func(*structs.JobGetResponse) any { return []struct{}{} }))
	_ = handle(get, "/v1/deployments", deploymentList)
)

// berth has no deployments: an update replaces every changed allocation at once. Clients of the dialect ask
// for them whenever they show a job, and take an error for a failure of their own.
func deploymentList(c *call) (any, error) {
	c.setIndex(1)
	return []struct{}{}, nil
}
