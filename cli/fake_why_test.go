package cli

import (
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
	apitest.Answer(c, structs.JobWhy, structs.WhyResponse{
		Waits:   true,
		Reasons: why,
		Text:    structs.WhyText(why),
	})
	apitest.Answer(c, structs.VolumeWhy, structs.WhyResponse{
		Text: "volume data waits for nothing; it is ready; in use by 1 allocation\n",
	})
}
