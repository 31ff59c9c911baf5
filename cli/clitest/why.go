package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
)

func answerWhy(c *apitest.Caller) {
	why := []*structs.Reason{{
		Text: "group g waits for a place for 1 allocation",
		Because: []*structs.Reason{{
			Text:   "the filter resources rejects 2 nodes: memory exhausted",
			Remedy: "add nodes, end other allocations, or ask for less in the resources block",
		}},
	}}

	apitest.On(c, structs.JobWhy,
		func(_ context.Context, r *structs.JobGetRequest) (*structs.WhyResponse, error) {
			if r.JobID != "stuck" && r.JobID != "web-old" { // a slow watch of another job has the same output
				return &structs.WhyResponse{}, nil
			}
			return &structs.WhyResponse{Waits: true, Reasons: why, Text: structs.WhyText(why)}, nil
		})

	apitest.Answer(c, structs.VolumeWhy, structs.WhyResponse{
		Text: "volume data waits for nothing; it is ready; in use by 1 allocation\n",
	})
}
