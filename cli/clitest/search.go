package clitest

import (
	"context"
	"strings"

	"berth/api/apitest"
	"berth/structs/inquiry"
)

// answerSearch answers searches by the beginnings of IDs. A volume has the ID of a job, a
// namespace the beginning of one, and a plugin that of a volume.
func (w *Cluster) answerSearch() {
	ids := map[string][]string{
		inquiry.SearchJobs:        {"web", "prod-db"},
		inquiry.SearchAllocs:      {Alloc1, Alloc2},
		inquiry.SearchEvals:       {"e1e1e1e1-0000-0000-0000-000000000001"},
		inquiry.SearchDeployments: {"d1d1d1d1-0000-0000-0000-000000000001"},
		inquiry.SearchVolumes:     {"data", "web", "website", "hostpath-data"},
		inquiry.SearchPlugins:     {"hostpath"},
		inquiry.SearchNodes:       {Node1},
		inquiry.SearchNamespaces:  {"prod"},
		inquiry.SearchVars:        {"prod/password"},
	}
	apitest.On(w.Caller, inquiry.SearchPrefix,
		func(_ context.Context, r *inquiry.SearchRequest) (*inquiry.SearchResponse, error) {
			resp := &inquiry.SearchResponse{Matches: map[string][]string{}}
			for kind, all := range ids {
				for _, id := range all {
					if strings.HasPrefix(id, r.Prefix) {
						resp.Matches[kind] = append(resp.Matches[kind], id)
					}
				}
			}
			return resp, nil
		})
}
