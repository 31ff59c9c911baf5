package api_test

import (
	"berth/structs"
)

// tagCalls has the requests to the routes of the tags of jobs, and of their states.
func tagCalls() map[string]routeCall {
	return map[string]routeCall{
		"GET /v1/jobs/statuses": {
			path: "/v1/jobs/statuses?per_page=5&include_children=true&namespace=*",
			rpc:  "Job.Statuses",
			request: &structs.JobStatusesRequest{
				IncludeChildren: true,
				QueryOptions:    structs.QueryOptions{PerPage: 5, Namespace: "*"},
			},
		},
		"PUT /v1/jobs/statuses": {
			path: "/v1/jobs/statuses?per_page=5",
			body: `{"jobs":[{"id":"a","namespace":"default"},{"id":"b"}]}`,
			rpc:  "Job.Statuses",
			request: &structs.JobStatusesRequest{
				Jobs:         []structs.JobName{{ID: "a", Namespace: "default"}, {ID: "b", Namespace: "default"}},
				QueryOptions: structs.QueryOptions{PerPage: 5, Namespace: "default"},
			},
		},
		"PUT /v1/job/{id}/versions/{tag}/tag": {
			path: "/v1/job/a%2Fb/versions/v1%2F2/tag",
			body: `{"Version":0,"Description":"d","Region":"","Namespace":"","SecretID":""}`,
			rpc:  "Job.TagVersion",
			request: &structs.JobTagRequest{
				JobID: "a/b", TagName: "v1/2", Description: "d",
			},
		},
		"DELETE /v1/job/{id}/versions/{tag}/tag": {
			path: "/v1/job/a%2Fb/versions/golden/tag?namespace=default",
			rpc:  "Job.UntagVersion",
			request: &structs.JobUntagRequest{
				JobID: "a/b", TagName: "golden", WriteOptions: structs.WriteOptions{Namespace: "default"},
			},
		},
	}
}
