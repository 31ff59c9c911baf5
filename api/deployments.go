package api

import (
	"encoding/json"

	"berth/structs"
)

// berth has no deployments: an update replaces every changed allocation at once. Clients of the dialect ask
// for them whenever they show a job, and take an error for a failure of their own.
var (
	jobDeployment = read(structs.JobGet, bindJob,
		func(*structs.JobGetResponse) any { return json.RawMessage("null") })
	jobDeployments = read(structs.JobGet, bindJob, func(*structs.JobGetResponse) any { return []struct{}{} })
)

func deploymentList(c *call) (any, error) {
	c.setIndex(1)
	return []struct{}{}, nil
}
