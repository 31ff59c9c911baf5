package api

import (
	"context"

	"berth/structs"
)

// The routes of services and checks return empty lists in the dialect's shape: berth registers no services,
// and rejects a job with one. They reject an allocation or a job that does not exist.
var (
	_ = handle(get, "/v1/services", serveServices)
	_ = handle(get, "/v1/service/{id}", serveServices)

	_ = handle(get, "/v1/allocation/{id}/services",
		serveMethod(structs.AllocGet, bindAlloc,
			func(*structs.AllocGetResponse) []struct{} { return []struct{}{} }))

	_ = handle(get, "/v1/job/{id}/services",
		serveMethod(structs.JobGet, bindJob,
			func(*structs.JobGetResponse) []struct{} { return []struct{}{} }))
)

func serveServices(c *call) (any, error) {
	c.setIndex(1)
	return []struct{}{}, nil
}

var bindAlloc = withID(func(q *structs.AllocGetRequest, id string) { q.AllocID = id })

var allocChecks = route(get, "/v1/client/allocation/{id}/checks",
	serveMethod(structs.AllocGet, bindAlloc,
		func(*structs.AllocGetResponse) map[string]CheckStatus {
			return map[string]CheckStatus{}
		}))

// CheckStatus is the last result of a check of a service, in the dialect's shape.
type CheckStatus struct {
	ID        string
	Check     string
	Group     string
	Task      string
	Service   string
	Mode      string
	Status    string
	Output    string
	Timestamp int64
}

// AllocChecks returns the results of an allocation's checks by their IDs. berth has no checks yet.
func (c *Client) AllocChecks(ctx context.Context, id string) (map[string]CheckStatus, error) {
	return allocChecks.send(ctx, c, request{id: id})
}
