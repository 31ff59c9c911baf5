package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/inquiry"
)

func answerWhy(c *apitest.Caller) {
	why := []*inquiry.Reason{{
		Text: "group g waits for a place for 1 allocation",
		Because: []*inquiry.Reason{{
			Text:   "the filter resources rejects 2 nodes: memory exhausted",
			Remedy: "add nodes, end other allocations, or ask for less in the resources block",
		}},
	}}

	apitest.On(c, inquiry.JobWhy,
		func(_ context.Context, r *structs.JobGetRequest) (*inquiry.WhyResponse, error) {
			if r.JobID != "stuck" && r.JobID != "web-old" { // a slow watch of another job has the same output
				return &inquiry.WhyResponse{}, nil
			}
			return &inquiry.WhyResponse{Waits: true, Reasons: why, Text: inquiry.WhyText(why)}, nil
		})

	apitest.Answer(c, inquiry.VolumeWhy, inquiry.WhyResponse{
		Text: "volume data waits for nothing; it is ready; in use by 1 allocation\n",
	})
}
